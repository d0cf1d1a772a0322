"""Read-write locks that processes and machines share.

>>> import lockspan
>>> locks = lockspan.connect("memory:doc")      # lockspan://host:7420, local:, unix:, redis://
>>> invoice = locks.record("invoice", 42)
>>> with invoice.write(timeout=5) as held:      # .read(), .try_write(); or `async with`
...     fence = held.token                      # the data store refuses lower ones
...     held.check()                            # raises lockspan.Lost

A record that was released stays cached in this process: acquiring it again sends no message, until
another process wants it.
"""

from __future__ import annotations

import atexit as _atexit
import functools as _functools
import os as _os
import sys as _sys
import sysconfig as _sysconfig
from datetime import timedelta as _timedelta
from typing import Any as _Any
from typing import Dict as _Dict
from typing import Optional as _Optional
from typing import Tuple as _Tuple
from typing import Union as _Union

if _sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise ImportError(
        "lockspan does not support free-threaded CPython yet: use the ordinary build of Python "
        + _sys.version.split()[0]
    )

from ._errors import (
    BadName,
    BadNote,
    BadOption,
    BadSet,
    BadUrl,
    Closed,
    CloseUnknown,
    ConnectError,
    ConnectionRefused,
    Deadlock,
    Error,
    Forked,
    Holder,
    LockError,
    LoginError,
    Lost,
    NoSession,
    NotHeld,
    NotLockspan,
    Refused,
    Timeout,
    TlsError,
    TooManyRecords,
    Trouble,
    Unreachable,
    UpgradeConflict,
)
from ._lockspan import All, Attempt, Hold, HoldAll, Locks, LostEvent, Record, __version__
from ._lockspan import close_all as _close_all
from ._lockspan import connect as _connect

__all__ = [
    "All",
    "Attempt",
    "BadName",
    "BadNote",
    "BadOption",
    "BadSet",
    "BadUrl",
    "CloseUnknown",
    "Closed",
    "ConnectError",
    "ConnectionRefused",
    "Deadlock",
    "Error",
    "Forked",
    "Hold",
    "HoldAll",
    "Holder",
    "LockError",
    "Locks",
    "LoginError",
    "Lost",
    "LostEvent",
    "NoSession",
    "NotHeld",
    "NotLockspan",
    "Record",
    "Refused",
    "Timeout",
    "TlsError",
    "TooManyRecords",
    "Trouble",
    "Unreachable",
    "UpgradeConflict",
    "__version__",
    "aconnect",
    "connect",
]

_Seconds = _Union[float, _timedelta]
_Path = _Union[str, "_os.PathLike[str]"]

# The interpreter ends: nobody has to wait for the leases of this process.
_atexit.register(_close_all, True)

_finalized_in: _Dict[str, int] = {}


def _close_with_worker() -> None:
    """Worker processes of `multiprocessing`, and of `billiard`, Celery's copy of it, end without the
    interpreter's own end."""
    for name in ("multiprocessing.util", "billiard.util"):
        util = _sys.modules.get(name)
        if util is not None and _finalized_in.get(name) != _os.getpid():
            _finalized_in[name] = _os.getpid()
            util.Finalize(None, _close_all, args=(False,), exitpriority=0)


def connect(
    url: str,
    *,
    lease: _Optional[_Seconds] = None,
    margin: _Optional[_Seconds] = None,
    stay: _Optional[_Tuple[int, _Seconds]] = None,
    caching: _Optional[bool] = None,
    idle: _Optional[_Seconds] = None,
    max_cached: _Optional[int] = None,
    try_for: _Optional[_Seconds] = None,
    name: _Optional[str] = None,
    label: _Optional[str] = None,
    user: _Optional[str] = None,
    password: _Optional[str] = None,
    password_file: _Optional[_Path] = None,
    ca: _Optional[_Path] = None,
    cert: _Optional[_Path] = None,
    key: _Optional[_Path] = None,
    hash_tag: _Optional[bool] = None,
    plain: _Optional[bool] = None,
    recheck: _Optional[_Seconds] = None,
    poll: _Optional[_Seconds] = None,
    patience: _Optional[_Seconds] = None,
) -> Locks:
    """Connects to the service at `url`. Blocks the thread: in a coroutine use `aconnect`.

    `memory:` is a service inside this process, for tests; `memory:NAME` is another one for each
    name. `local:` is this user's own service on this machine, started on demand. `unix:///PATH` and
    `lockspan://HOST:PORT` are servers, `lockspans://` one with TLS, `redis://HOST:PORT` is an
    existing Redis.

    Times are seconds or timedeltas. Options and their defaults:

    - `lease` (10 s): how long the server keeps the locks of a process that it does not hear from.
    - `margin` (0): how much earlier holds stop being valid.
    - `stay` (16, 2 ms): for how many turns and how long this process may go on using a cached
      record that another one waits for.
    - `caching` (True; on Redis False): whether a released record stays cached.
    - `idle` (60 s), `max_cached` (100,000): when cached records go back to the server.
    - `try_for` (100 ms): how long `try_write` waits for an unused record to be handed over.
    - `name`, `label`: how people see this client.
    - `user`, `password`, `password_file`: the login. `ca`, `cert`, `key`: PEM files for TLS.
    - `hash_tag`, `plain`, `recheck`, `poll`, `patience`: for Redis, see docs/redis.md.

    >>> import lockspan
    >>> lockspan.connect("memory:doc-connect", lease=5, label="nightly import")
    <lockspan.Locks memory:doc-connect>
    """
    options = dict(locals())
    locks = _connect(options.pop("url"), **options)
    _close_with_worker()
    return locks


async def aconnect(url: str, **options: _Any) -> Locks:
    """`connect` for coroutines. The connection may be used by threads and tasks alike.

    >>> import asyncio, lockspan
    >>> async def main():
    ...     async with await lockspan.aconnect("memory:doc-aconnect") as locks:
    ...         async with locks.record("invoice", 42).write() as held:
    ...             return held.mode
    >>> asyncio.run(main())
    'write'
    """
    import asyncio

    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(None, _functools.partial(connect, url, **options))
