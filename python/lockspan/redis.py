"""A `lock_class` for redis-py: call sites stay, the lock is Lockspan's.

    import redis, lockspan.redis

    r = redis.Redis()
    with r.lock("invoice", timeout=10, lock_class=lockspan.redis.Lock):
        ...

The lock is the record `lock:NAME`. It is kept by the service that `LOCKSPAN_URL` names, or else by
the Redis of the client itself. `Lock.on(url)` is a class for another service:

    Lock = lockspan.redis.Lock.on("lockspan://127.0.0.1:7420")

What differs from redis-py's own lock: waiters do not poll (`sleep` is ignored) and are served in
order; the lock of a process that has died is free after the lease of its connection, 10 s, whatever
`timeout` says; `timeout` is how long a live process may hold it at most, as in redis-py. The lock
has no key under its own name in Redis, so `r.get("invoice")` shows nothing.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import os
import threading
import time
import urllib.parse
import uuid
from types import SimpleNamespace
from typing import Any, Dict, List, Optional, Tuple, Type, Union

from redis.exceptions import LockError, LockNotOwnedError

from . import Hold, Locks, Record, connect

__all__ = ["Lock"]

Number = Union[int, float]

logger = logging.getLogger(__name__)

_guard = threading.Lock()
_connections: Dict[Tuple[int, str], Locks] = {}


def _connection(url: str) -> Locks:
    """One connection for each service and process."""
    key = (os.getpid(), url)
    with _guard:
        locks = _connections.get(key)
        if locks is None:
            locks = _connections[key] = connect(url)
        return locks


def _in_child() -> None:
    global _guard, _expiry
    _guard = threading.Lock()
    _connections.clear()
    _expiry = _Expiry()


def _url_of(client: Any) -> str:
    """The Redis of a client of redis-py, as a URL."""
    pool = getattr(client, "connection_pool", None)
    options = getattr(pool, "connection_kwargs", {})
    kind = None
    if pool is None:
        kind = "of a cluster"
    elif hasattr(pool, "sentinel_manager"):
        kind = "by Sentinel"
    elif options.get("path"):
        kind = "by its socket file"
    if pool is None or kind is not None:
        raise ValueError(
            f"lockspan.redis.Lock can't use a Redis {kind}: set LOCKSPAN_URL, or use Lock.on(url)"
        )
    quoted = urllib.parse.quote
    login = ""
    if options.get("password"):
        user = quoted(options.get("username") or "default", safe="")
        login = f"{user}:{quoted(str(options['password']), safe='')}@"
    is_tls = "SSL" in pool.connection_class.__name__
    scheme = "rediss" if is_tls else "redis"
    host, port = options.get("host", "localhost"), options.get("port", 6379)
    return f"{scheme}://{login}{host}:{port}/{options.get('db') or 0}"


class _Expiry:
    """Ends locks whose `timeout` is over: one thread for all, started with the first.

    A lock that was released or extended before leaves an entry behind that is no longer due. Such
    entries are dropped when there are more of them than others.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.due: List[Tuple[float, int, "_Held"]] = []
        self.stale = 0
        self.numbers = itertools.count()
        self.thread: Optional[threading.Thread] = None

    def add(self, when: float, held: "_Held") -> None:
        with self.changed:
            if self.thread is None:
                thread = threading.Thread(target=self.run, name="lockspan-expiry", daemon=True)
                thread.start()
                self.thread = thread
            heapq.heappush(self.due, (when, next(self.numbers), held))
            self.changed.notify()

    def forget(self) -> None:
        """One entry is no longer due."""
        with self.changed:
            self.stale += 1
            if self.stale > 64 and self.stale > len(self.due) // 2:
                self.due = [entry for entry in self.due if entry[2].until == entry[0]]
                heapq.heapify(self.due)
                self.stale = 0

    def run(self) -> None:
        while True:
            with self.changed:
                while not self.due or self.due[0][0] > time.monotonic():
                    # Those that were released or extended meanwhile are no longer due.
                    left = self.due[0][0] - time.monotonic() if self.due else None
                    self.changed.wait(left)
                when, _, held = heapq.heappop(self.due)
                if held.until != when:
                    self.stale = max(0, self.stale - 1)
                    continue
            held.end_if_due()


_expiry = _Expiry()
os.register_at_fork(after_in_child=_in_child)


class _Held:
    """What one acquire has got, with the time at which it ends.

    In a child of a fork it is nobody's, and its mutex may look locked by a thread of the parent.
    """

    def __init__(self, hold: Hold, token: bytes, timeout: Optional[Number]) -> None:
        self.hold, self.token = hold, token
        self.until: Optional[float] = None
        self.lock, self.process = threading.Lock(), os.getpid()
        # As in redis-py, 0 is no timeout.
        if timeout:
            self.until = time.monotonic() + timeout
            _expiry.add(self.until, self)

    def extend(self, time_left: Number, is_added: bool) -> bool:
        """Sets the time that is left, or adds to it. False if the lock is no longer ours."""
        if self._is_parents():
            return False
        with self.lock:
            if not self._is_ours():
                return False
            before = self.until
            base = before if is_added and before is not None else time.monotonic()
            self.until = until = base + time_left
        _expiry.add(until, self)
        if before is not None:
            _expiry.forget()
        return True

    def end_if_due(self) -> None:
        with self.lock:
            if self.until is not None and self.until <= time.monotonic() and self.hold.held:
                self.hold.release()

    def is_ours(self) -> bool:
        if self._is_parents():
            return False
        with self.lock:
            return self._is_ours()

    def _is_parents(self) -> bool:
        return self.process != os.getpid()

    def _is_ours(self) -> bool:
        is_over = self.until is not None and self.until <= time.monotonic()
        return not is_over and self.hold.held and self.hold.is_valid()

    def release(self) -> bool:
        """Whether it was ours until now."""
        if self._is_parents():
            return False
        with self.lock:
            was_ours = self._is_ours()
            had_timeout = self.until is not None
            self.until = None
            if self.hold.held:
                self.hold.release()
        if had_timeout:
            _expiry.forget()
        return was_ours


class Lock:
    """A lock with the interface of `redis.lock.Lock`."""

    #: The service that keeps the locks; None: `LOCKSPAN_URL`, or else the Redis of the client.
    url: Optional[str] = None

    @classmethod
    def on(cls, url: str) -> Type["Lock"]:
        """A lock class for the service at `url`."""
        return type(cls.__name__, (cls,), {"url": url})

    def __init__(
        self,
        redis: Any,
        name: Union[str, bytes],
        timeout: Optional[Number] = None,
        sleep: Number = 0.1,
        blocking: bool = True,
        blocking_timeout: Optional[Number] = None,
        thread_local: bool = True,
        raise_on_release_error: bool = True,
    ) -> None:
        if asyncio.iscoroutinefunction(getattr(redis, "execute_command", None)):
            raise TypeError(
                "lockspan.redis.Lock is for redis.Redis: with redis.asyncio use lockspan itself, "
                "`async with record.write()`"
            )
        self.redis, self.name, self.timeout, self.sleep = redis, name, timeout, sleep
        self.blocking, self.blocking_timeout = blocking, blocking_timeout
        self.thread_local = bool(thread_local)
        self.raise_on_release_error = raise_on_release_error
        self.local: Any = threading.local() if self.thread_local else SimpleNamespace()
        self.local.token = None
        self.local.held = None

    @property
    def _shown(self) -> str:
        return self.name if isinstance(self.name, str) else self.name.decode(errors="replace")

    def _record(self) -> Record:
        url = self.url or os.environ.get("LOCKSPAN_URL") or _url_of(self.redis)
        locks = _connection(url)
        return locks.record("lock", self.name)

    def acquire(
        self,
        sleep: Optional[Number] = None,
        blocking: Optional[bool] = None,
        blocking_timeout: Optional[Number] = None,
        token: Union[str, bytes, None] = None,
    ) -> bool:
        """Whether the lock was acquired. `sleep` is ignored: waiters are woken."""
        blocking = self.blocking if blocking is None else blocking
        if blocking_timeout is None:
            blocking_timeout = self.blocking_timeout
        record = self._record()
        hold: Optional[Hold]
        # As in redis-py, a negative time is over before the first wait.
        if not blocking or (blocking_timeout is not None and blocking_timeout < 0):
            hold = record.try_write().acquire()
        else:
            try:
                hold = record.write(timeout=blocking_timeout).acquire()
            except TimeoutError:
                hold = None
        if hold is None:
            return False
        # As in redis-py, another thread may release it, and the same one wait for its end.
        hold.detach()
        if token is None:
            token = uuid.uuid1().hex
        token = token.encode() if isinstance(token, str) else token
        self.local.token, self.local.held = token, _Held(hold, token, self.timeout)
        return True

    @property
    def fence(self) -> int:
        """The fencing token: a store refuses lower ones."""
        held = self._held("use the fencing token of")
        return held.hold.token

    def locked(self) -> bool:
        """Whether anybody has the lock.

        It tries to acquire the lock for reading and releases it at once. Another process that tries
        to acquire it without waiting in that moment may be told that it is in use.
        """
        hold = self._record().try_read().acquire()
        if hold is None:
            return True
        hold.release()
        return False

    def owned(self) -> bool:
        """Whether this lock has it."""
        held = getattr(self.local, "held", None)
        return held is not None and held.is_ours()

    def release(self) -> None:
        held = self._held("release")
        self.local.token = self.local.held = None
        if not held.release():
            raise LockNotOwnedError(
                "Cannot release a lock that's no longer owned", lock_name=self._shown
            )

    def extend(self, additional_time: Number, replace_ttl: bool = False) -> bool:
        """Adds to the time for which it may be held, or with `replace_ttl` sets it."""
        return self._extend("extend", additional_time, not replace_ttl)

    def reacquire(self) -> bool:
        """Sets the time for which it may be held back to `timeout`."""
        return self._extend("reacquire", self.timeout, False)

    def _held(self, what: str) -> _Held:
        held: Optional[_Held] = getattr(self.local, "held", None)
        if held is None:
            raise LockError(
                f"Cannot {what} a lock that's not owned or is already unlocked.",
                lock_name=self._shown,
            )
        return held

    def _extend(self, what: str, time_left: Optional[Number], is_added: bool) -> bool:
        held = self._held(what)
        if self.timeout is None or time_left is None:
            raise LockError(f"Cannot {what} a lock with no timeout", lock_name=self._shown)
        if not held.extend(time_left, is_added):
            raise LockNotOwnedError(
                f"Cannot {what} a lock that's no longer owned", lock_name=self._shown
            )
        return True

    def __enter__(self) -> "Lock":
        if self.acquire():
            return self
        raise LockError("Unable to acquire lock within the time specified", lock_name=self._shown)

    def __exit__(self, *why: object) -> None:
        try:
            self.release()
        except LockError:
            if self.raise_on_release_error:
                raise
            logger.warning("Lock was unlocked or no longer owned when exiting context manager.")
