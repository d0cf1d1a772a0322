"""The exceptions of this package. All of them are an `Error`."""

from __future__ import annotations

from typing import List, NamedTuple, Optional


class Error(Exception):
    """What every exception of this package is."""


class LockError(Error):
    """A record was not acquired, or is no longer held."""

    #: Whether the same call may succeed later.
    is_retryable: bool = False
    #: Whether others may have to wait for the lease of this process although the call failed.
    may_still_hold: bool = False


class Holder(NamedTuple):
    """Who holds a record, in `Timeout.holders`."""

    label: str
    note: Optional[str]
    #: "read" or "write".
    mode: str
    #: For how many seconds.
    held: float


class Timeout(LockError, TimeoutError):
    """The record was not granted in the time allowed. Says who holds it."""

    #: The name of the record.
    record: str = ""
    #: For how many seconds it was waited for.
    waited: float = 0.0
    #: Who holds it, as the server said shortly before. Empty if it is held by this process, or if
    #: the server did not say.
    holders: List[Holder] = []
    #: How many acquires were before this one, or None if the server did not say.
    place: Optional[int] = None
    #: Whether there was a connection to the server.
    connected: bool = True


class Deadlock(LockError):
    """Waiting would never end: the waiter holds the record itself, or owners wait in a cycle."""

    #: The owners (`Locks.as_owner`), each waits for the next. Empty if a thread or task would have
    #: waited for itself.
    cycle: List[int] = []


class UpgradeConflict(LockError):
    """Another reader already waits to upgrade the same record: release the read, then write."""


class Lost(LockError):
    """The lease expired while the record was held. Read the data again: it may have changed."""


class Refused(LockError):
    """The server refused the acquire: a limit was reached, or the user lacks the right."""


class NoSession(LockError):
    """The server refused to open a session."""


class Trouble(LockError):
    """The store behind the locks, such as a Redis, failed."""

    #: What kind of failure it is, such as "Unreachable" or "OutOfMemory".
    kind: str = "Other"


class TooManyRecords(LockError):
    """This process has as many records as it may have."""


class BadNote(LockError, ValueError):
    """The note is empty, longer than 256 bytes, or has control characters."""


class BadSet(LockError, ValueError):
    """The records given to `Locks.all` can't be acquired together."""


class Closed(LockError):
    """The connection was closed by `Locks.close`."""


class Forked(LockError):
    """The connection belongs to the parent process. Call `connect` again in the child."""


class NotHeld(Error, RuntimeError):
    """The hold does not hold its record: it was not acquired yet, or was released."""


class ConnectError(Error, ConnectionError):
    """`connect` failed."""


class BadUrl(ConnectError, ValueError):
    """The URL does not name a lock service."""


class BadOption(ConnectError, ValueError):
    """An option of `connect` is out of its bounds."""


class Unreachable(ConnectError):
    """The server did not answer."""


class NotLockspan(ConnectError):
    """What answered is not a Lockspan server."""


class TlsError(ConnectError):
    """A TLS connection could not be made."""


class LoginError(ConnectError):
    """The user or the password is wrong or missing."""


class ConnectionRefused(ConnectError):
    """The service refused the connection for another reason."""


class BadName(Error, ValueError):
    """The name of a record is empty, too long or without a colon."""


class CloseUnknown(Error):
    """The server did not confirm the end of the session: its locks are free at the latest when the
    lease expires."""
