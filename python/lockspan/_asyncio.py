"""Waits in an event loop: one file descriptor for each loop tells which tasks to wake."""

from __future__ import annotations

import asyncio
import itertools
import weakref
from typing import Any, Dict

from ._lockspan import Bell


class _LoopBell:
    """Listens to the bell of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.bell = Bell()
        self.waiting: Dict[int, asyncio.Future[None]] = {}
        self.keys = itertools.count()
        loop.add_reader(self.bell.fileno(), self.ring)

    def ring(self) -> None:
        for key in self.bell.collect():
            future = self.waiting.pop(key, None)
            if future is not None and not future.done():
                future.set_result(None)


_bells: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopBell]" = (
    weakref.WeakKeyDictionary()
)


async def wait(pending: Any) -> Any:
    """Polls until `pending` is decided. A task that is cancelled leaves the queue."""
    bell, key = None, -1
    try:
        loop = asyncio.get_running_loop()
        bell = _bells.get(loop)
        if bell is None:
            bell = _bells[loop] = _LoopBell(loop)
        key = next(bell.keys)
        while True:
            # Registered before the poll: it may be woken at once.
            future = bell.waiting[key] = loop.create_future()
            if pending._poll(bell.bell, key):
                return pending._result()
            await future
    except BaseException:
        pending._abandon()
        raise
    finally:
        if bell is not None:
            bell.waiting.pop(key, None)
