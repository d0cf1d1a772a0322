"""Waits in an event loop: one file descriptor for each loop tells which tasks to wake."""

from __future__ import annotations

import asyncio
import itertools
import os
import weakref
from typing import Any, Dict, Optional

from ._lockspan import Bell


class _LoopBell:
    """Listens to the bell of one event loop.

    The loop keeps it, by the callback of its reader, and it keeps the futures of those who wait: so
    a task that nobody else knows stays alive while it waits, as with `asyncio.Lock`. Closing the
    loop drops the reader. Nothing outside the loop keeps any of them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.bell = Bell()
        self.waiting: Dict[int, "asyncio.Future[None]"] = {}
        self.keys = itertools.count()
        loop.add_reader(self.bell.fileno(), self.ring)

    def ring(self) -> None:
        for key in self.bell.collect():
            future = self.waiting.pop(key, None)
            if future is not None and not future.done():
                future.set_result(None)


# Weak in both: a future knows its loop, and what is kept here would be kept for ever, with the
# place in the queue of a task whose loop was closed.
_bells: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[_LoopBell]]" = (
    weakref.WeakKeyDictionary()
)


def _bell_of(loop: asyncio.AbstractEventLoop) -> _LoopBell:
    known = _bells.get(loop)
    bell: Optional[_LoopBell] = known() if known is not None else None
    if bell is None:
        bell = _LoopBell(loop)
        _bells[loop] = weakref.ref(bell)
    return bell


async def wait(pending: Any) -> Any:
    """Polls until `pending` is decided. What ends it before that leaves the queue: see `Wait`."""
    loop = asyncio.get_running_loop()
    bell = _bell_of(loop)
    key = next(bell.keys)
    try:
        while True:
            # Registered before the poll: it may be woken at once.
            future = loop.create_future()
            bell.waiting[key] = future
            if pending._poll(bell.bell, key):
                return pending._result()
            await future
    finally:
        bell.waiting.pop(key, None)


def _in_child() -> None:
    """The bells are the parent's: their descriptors are shared with it."""
    global _bells
    _bells = weakref.WeakKeyDictionary()


os.register_at_fork(after_in_child=_in_child)
