"""Waits in an event loop: one file descriptor for each loop tells which tasks to wake."""

from __future__ import annotations

import asyncio
import itertools
import os
import weakref
from typing import Any, Dict

from ._lockspan import Bell


class _LoopBell:
    """Listens to the bell of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.bell = Bell()
        # Weak: a future knows its loop, and `_bells` would keep both for ever, with the place in
        # the queue of a task whose loop was closed. The task keeps its future.
        self.waiting: Dict[int, "weakref.ref[asyncio.Future[None]]"] = {}
        self.keys = itertools.count()
        loop.add_reader(self.bell.fileno(), self.ring)

    def ring(self) -> None:
        for key in self.bell.collect():
            known = self.waiting.pop(key, None)
            future = known() if known is not None else None
            if future is not None and not future.done():
                future.set_result(None)


_bells: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopBell]" = (
    weakref.WeakKeyDictionary()
)


async def wait(pending: Any) -> Any:
    """Polls until `pending` is decided. What ends it before that leaves the queue: see `Wait`."""
    loop = asyncio.get_running_loop()
    bell = _bells.get(loop)
    if bell is None:
        bell = _bells[loop] = _LoopBell(loop)
    key = next(bell.keys)
    try:
        while True:
            # Registered before the poll: it may be woken at once.
            future = loop.create_future()
            bell.waiting[key] = weakref.ref(future)
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
