"""A short run through the package with the standard library only, for every interpreter there is.

Run: python python/tests/smoke.py
"""

import asyncio
import os
import sys
import threading

import lockspan

locks, other = lockspan.connect("memory:smoke"), lockspan.connect("memory:smoke")
record, theirs = locks.record("smoke", 1), other.record("smoke", 1)


def threads():
    count = 0

    def work():
        nonlocal count
        for _ in range(50):
            with one.write(timeout=60) as held:
                held.check()
                count, _ = count + 1, held.token

    working = [threading.Thread(target=work) for one in (record, theirs) for _ in range(2)]
    for one, thread in zip((record, theirs) * 2, working):
        thread.start()
    for thread in working:
        thread.join()
    assert count == 200
    with record.read() as held:
        assert held.upgrade(timeout=60).mode == "write"
        try:
            record.read().acquire()
            raise AssertionError("it did not wait for itself")
        except lockspan.Deadlock:
            pass


async def tasks():
    count = 0

    async def work(one):
        nonlocal count
        for _ in range(50):
            async with one.write(timeout=60):
                before = count
                await asyncio.sleep(0)
                count = before + 1

    await asyncio.gather(*(work(one) for one in (record, theirs) * 2))
    assert count == 200
    held = await asyncio.wait_for(record.write(), 60)
    waiting = asyncio.ensure_future(work(theirs))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    held.release()
    [held] = await asyncio.gather(theirs.write(timeout=60))
    assert await record.try_read() is None
    held.release()


def forks():
    child = os.fork()
    if child == 0:
        ok = False
        try:
            record.write(timeout=1).acquire()
        except lockspan.Forked:
            with lockspan.connect("memory:smoke").record("smoke", 1).write(timeout=60):
                ok = True
        finally:
            os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0


def sets():
    both = locks.all(("smoke", 1), ("smoke", 2))
    with both.write(timeout=60) as held:
        assert list(held.tokens) == ["smoke:1", "smoke:2"] and not held.lost.is_set()
        assert theirs.try_write().acquire() is None


threads()
asyncio.run(tasks())
forks()
sets()
print("%d.%d" % sys.version_info[:2], "works", flush=True)
