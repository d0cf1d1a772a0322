"""Calls the callbacks of `held.lost`: one thread for all of them, started with the first."""

from __future__ import annotations

import itertools
import os
import sys
import threading
from typing import Any, Callable, Dict, Optional, Tuple

from ._lockspan import Bell


class _Watcher:
    def __init__(self) -> None:
        self.process = os.getpid()
        self.bell = Bell()
        self.keys = itertools.count()
        self.waiting: Dict[int, Tuple[Any, Callable[[], object]]] = {}
        threading.Thread(target=self.run, name="lockspan-lost", daemon=True).start()

    def run(self) -> None:
        while True:
            self.bell.wait()
            for key in self.bell.collect():
                self.look(key)

    def look(self, key: int) -> None:
        if key not in self.waiting:
            return  # It was woken twice.
        task, callback = self.waiting[key]
        if not task._poll(self.bell, key):
            return
        del self.waiting[key]
        if not task._result():
            return  # It was released.
        try:
            callback()
        except BaseException:  # As in threads: it is shown, and the others are called.
            sys.excepthook(*sys.exc_info())


_lock = threading.Lock()
_watcher: Optional[_Watcher] = None


def add(task: Any, callback: Callable[[], object]) -> None:
    """Calls `callback` when the task says that a record was lost."""
    global _watcher
    if not callable(callback):
        raise TypeError("a callback must be callable")
    with _lock:
        if _watcher is None or _watcher.process != os.getpid():
            _watcher = _Watcher()
        watcher = _watcher
        key = next(watcher.keys)
        watcher.waiting[key] = (task, callback)
    watcher.bell.ring(key)


def _in_child() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_in_child)
