"""Several records at once, on every kind of service."""

import asyncio
import itertools
import threading

import pytest

import lockspan


def test_all_or_none_are_held_and_each_has_a_token(url):
    with lockspan.connect(url) as locks, lockspan.connect(url) as other:
        both = locks.all(("set", 2), "set:1", locks.record("set", 3))
        assert len(both) == 3
        with both.write(timeout=30, note="transfer") as held:
            assert held.held and held.is_valid()
            assert list(held.tokens) == ["set:1", "set:2", "set:3"]
            held.check()
            for number in (1, 2, 3):
                assert other.record("set", number).try_read().acquire() is None
            assert held.lost.wait(timeout=0) is False
        assert not held.held
        with other.record("set", 2).write(timeout=30):
            with pytest.raises(lockspan.Timeout) as late:
                both.write(timeout=0.2).acquire()
            assert late.value.record == "set:2"
            # It holds nothing afterwards.
            with other.record("set", 1).write(timeout=30):
                pass


def test_modes_of_their_own(url):
    with lockspan.connect(url) as locks, lockspan.connect(url) as other:
        with locks.all(("mode", 1)).and_read(("mode", 2)).write(timeout=30):
            with other.record("mode", 2).read(timeout=30) as held:
                assert held.mode == "read"
            assert other.record("mode", 1).try_read().acquire() is None


def test_transfers_in_both_directions_never_deadlock(url):
    locks = lockspan.connect(url)
    turns = []

    def thread(pair):
        for _ in range(10):
            with locks.all(*pair).write(timeout=120):
                turns.append(pair)

    async def task(pair):
        for _ in range(10):
            async with locks.all(*pair).write(timeout=120) as held:
                await asyncio.sleep(0)
                held.check()
                turns.append(pair)

    async def tasks():
        await asyncio.gather(*(task(pair) for pair in pairs))

    pairs = list(itertools.permutations([("account", n) for n in range(3)], 2))
    threads = [threading.Thread(target=thread, args=(pair,)) for pair in pairs]
    threads.append(threading.Thread(target=lambda: asyncio.run(tasks())))
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(turns) == 2 * 10 * len(pairs)
    locks.close()


def test_who_holds_one_of_them_is_refused(url):
    with lockspan.connect(url) as locks:
        with locks.record("own", 1).write(timeout=30):
            with pytest.raises(lockspan.Deadlock, match="own:1"):
                locks.all(("own", 1), ("own", 2)).write().acquire()
        with locks.all(("own", 1), ("own", 2)).write(timeout=30):
            with pytest.raises(lockspan.Deadlock, match="own:2"):
                locks.record("own", 2).read().acquire()
        with locks.record("own", 2).write(timeout=30):
            pass


def test_a_cancelled_task_holds_none_of_them(url):
    async def main():
        with lockspan.connect(url) as locks, lockspan.connect(url) as other:
            held = await other.record("cancel", 2).write(timeout=30)
            task = asyncio.ensure_future(take(locks))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with other.record("cancel", 1).write(timeout=30):
                held.release()

    async def take(locks):
        async with locks.all(("cancel", 1), ("cancel", 2)).write():
            pass

    asyncio.run(main())


def test_bad_sets_are_refused():
    with lockspan.connect("memory:bad-sets") as locks:
        with pytest.raises(lockspan.BadSet):
            locks.all().write().acquire()
        with lockspan.connect("memory:bad-sets") as other:
            with pytest.raises(lockspan.BadSet):
                locks.all(other.record("a", 1)).write().acquire()
        with pytest.raises(ValueError):
            locks.all(("a", 1, 2))
        with pytest.raises(TypeError):
            locks.all(7)


def test_a_dropped_set_is_released_even_if_it_is_watched(url):
    with lockspan.connect(url) as locks, lockspan.connect(url) as other:
        held = locks.all(("dropped", 1), ("dropped", 2)).write(timeout=30).acquire()
        lost = held.lost
        lost.add_callback(lambda: pytest.fail("it was not lost"))
        del held
        with other.record("dropped", 2).write(timeout=30):
            pass
        assert lost.wait(timeout=30) is False


def test_who_reads_one_of_them_may_read_all(url):
    with lockspan.connect(url) as locks:
        with locks.record("shared", 1).read(timeout=30):
            both = locks.all(("shared", 1), ("shared", 2))
            with both.read(timeout=30) as held:
                assert list(held.tokens) == ["shared:1", "shared:2"]
            with pytest.raises(lockspan.Deadlock, match="shared:1"):
                both.write().acquire()
            # What was refused can be used again.
            with both.and_read(("shared", 3)).read(timeout=30):
                pass


def test_a_detached_set_belongs_to_no_thread(url):
    with lockspan.connect(url) as locks:
        held = locks.all(("detached", 1), ("detached", 2)).write(timeout=30).acquire()
        assert held.detach() is held
        with pytest.raises(lockspan.Timeout):
            locks.record("detached", 1).write(timeout=0.05).acquire()
        held.release()
        with locks.record("detached", 1).write(timeout=30):
            pass
