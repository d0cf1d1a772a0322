"""What asyncio tasks do with records, on every kind of service."""

import asyncio
import threading

import pytest

import lockspan


def test_a_cached_record_does_not_suspend_the_task(record, url):
    if url.startswith("redis"):
        pytest.skip("on Redis records are not cached by default")
    with record.write():
        pass

    async def acquire():
        async with record.write() as held:
            return held.mode

    steps = acquire().__await__()
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == "write"


def test_tasks_wait_for_each_other_in_order(record):
    async def main():
        order = []

        async def work(number):
            async with record.write(timeout=60):
                order.append(number)
                await asyncio.sleep(0)

        async with record.write():
            tasks = []
            for number in range(20):
                tasks.append(asyncio.create_task(work(number)))
                await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        return order

    assert asyncio.run(main()) == list(range(20))


def test_every_form(record, other):
    async def main():
        held = await record.write(timeout=30)
        assert held.mode == "write"
        assert await other.try_write() is None
        async with other.try_read() as none:
            assert none is None
        with pytest.raises(lockspan.Timeout):
            await other.read(timeout=0.2)
        held.downgrade()
        assert (await held.aupgrade(timeout=30)) is held and held.mode == "write"
        held.release()
        async with other.try_write() as got:
            assert got.mode == "write"
        async with record.read(timeout=30) as reading:
            assert reading.mode == "read"

    asyncio.run(main())


def test_a_task_that_would_wait_for_itself_is_refused(record):
    async def main():
        async with record.write(timeout=30):
            with pytest.raises(lockspan.Deadlock, match="this task"):
                await record.read()
            with pytest.raises(lockspan.Deadlock, match="this task"):
                record.write().acquire()
            await asyncio.create_task(blocks_the_loop())
            # Another task may wait for this one.
            waiter = asyncio.create_task(one_turn())
            await asyncio.sleep(0.01)
        await waiter

    async def one_turn():
        async with record.write(timeout=60):
            pass

    async def blocks_the_loop():
        with pytest.raises(lockspan.Deadlock, match="this thread's event loop"):
            record.write().acquire()

    asyncio.run(main())
    with record.write():

        async def inside():
            with pytest.raises(lockspan.Deadlock, match="this thread"):
                await record.write()

        asyncio.run(inside())


def test_a_cancelled_task_leaves_the_queue_at_every_await(record, other):
    async def main():
        for steps in range(12):
            async with other.write(timeout=60):
                task = asyncio.create_task(hold(record))
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            # Cancelled while it may be granted, or while it holds the record.
            task = asyncio.create_task(hold(record))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            async with record.write(timeout=60):
                pass

    async def hold(which):
        async with which.write() as held:
            await asyncio.sleep(0)
            held.downgrade()
            await held.aupgrade()
            await asyncio.sleep(60)

    asyncio.run(main())


def test_wait_for_ends_a_wait(record, other):
    async def main():
        async with other.write(timeout=60):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(take(), 0.05)
        async with record.write(timeout=60):
            pass

    async def take():
        async with record.write():
            pass

    asyncio.run(main())


def test_a_task_waits_until_its_hold_is_lost(url):
    async def main():
        locks = await lockspan.aconnect(url)
        async with locks.record("lost", 1).write(timeout=30) as held:
            watcher = asyncio.ensure_future(wait(held.lost))
            cancelled = asyncio.ensure_future(wait(held.lost))
            await asyncio.sleep(0)
            cancelled.cancel()
            await locks.aclose()
            assert await asyncio.wait_for(watcher, 30) is True
        async with await lockspan.aconnect(url) as locks:
            async with locks.record("lost", 2).write(timeout=30) as held:
                watcher = asyncio.ensure_future(wait(held.lost))
                await asyncio.sleep(0)
            assert await asyncio.wait_for(watcher, 30) is False

    async def wait(lost):
        return await lost

    asyncio.run(main())


def test_loops_of_several_threads_and_threads_share_a_record(record):
    inside, worst, turns = 0, 0, 0

    def enter():
        nonlocal inside, worst, turns
        inside += 1
        worst, turns = max(worst, inside), turns + 1

    def leave():
        nonlocal inside
        inside -= 1

    async def tasks():
        async def work():
            for _ in range(10):
                async with record.write(timeout=120):
                    enter()
                    await asyncio.sleep(0)
                    leave()

        await asyncio.gather(*(work() for _ in range(5)))

    def thread():
        for _ in range(10):
            with record.write(timeout=120):
                enter()
                leave()

    threads = [threading.Thread(target=asyncio.run, args=(tasks(),)) for _ in range(2)]
    threads += [threading.Thread(target=thread) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert (worst, turns) == (1, 2 * 50 + 30)


def test_an_unawaited_upgrade_changes_nothing(record):
    async def main():
        async with record.read(timeout=30) as held:
            held.aupgrade()
            assert held.held and held.mode == "read"

    asyncio.run(main())


def test_asyncio_wraps_the_hold_of_a_cached_record(record, other):
    """Up to Python 3.11 asyncio does so with `yield from hold.__await__()`."""
    with record.write(timeout=30):
        pass

    async def main():
        held = await asyncio.wait_for(record.read(), 30)
        held.release()
        one, two = await asyncio.gather(record.read(), record.read())
        assert one.held and two.held
        one.release()
        two.release()
        held = await asyncio.ensure_future(record.write())
        assert held.mode == "write"
        held.release()
        async with other.write(timeout=30):
            pass

    asyncio.run(main())


def test_a_loop_that_cannot_listen_leaves_the_queue(record, other):
    async def main():
        loop = asyncio.get_running_loop()

        def refuse(*_):
            raise NotImplementedError("no readers")

        hold = record.write()
        with other.write(timeout=30):
            listen, loop.add_reader = loop.add_reader, refuse
            with pytest.raises(NotImplementedError):
                await hold
            loop.add_reader = listen
        async with hold as held:
            assert held.held

    asyncio.run(main())


def test_an_upgrade_that_would_wait_for_the_same_task_is_refused(record):
    async def main():
        async with record.read(timeout=30) as first, record.read(timeout=30):
            with pytest.raises(lockspan.Deadlock, match="another hold of"):
                await first.aupgrade(timeout=30)
            assert first.mode == "read" and first.is_valid()

    asyncio.run(main())


def test_a_cancelled_upgrade_releases_and_its_event_is_never_set(record, other):
    async def main():
        with other.read(timeout=30):
            async with record.read(timeout=30) as held:
                lost = held.lost
                upgrade = asyncio.ensure_future(upgraded(held))
                await asyncio.sleep(0)
                upgrade.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await upgrade
                assert not held.held
                assert lost.wait(timeout=30) is False and not lost.is_set()
                async with held:
                    assert held.lost is not lost and not held.lost.is_set()

    async def upgraded(held):
        await held.aupgrade()

    asyncio.run(main())


def test_an_attempt_is_entered_by_one_task_at_a_time(record):
    async def main():
        attempt = record.try_write()
        async with attempt as held:
            with pytest.raises(RuntimeError, match="in use already"):
                await attempt.__aenter__()
            assert held.held
        async with attempt as held:
            assert held is not None

    asyncio.run(main())
