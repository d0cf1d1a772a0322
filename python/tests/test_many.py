"""Many threads, tasks and acquires."""

import asyncio
import gc
import itertools
import os
import threading

import lockspan


class Witness:
    """Sees who is inside: readers together, or one writer alone."""

    def __init__(self):
        self.lock = threading.Lock()
        self.readers = self.writers = 0
        self.writes = 0

    def enter(self, mode):
        with self.lock:
            if mode == "write":
                self.writers += 1
                self.writes += 1
            else:
                self.readers += 1
            assert self.writers in (0, 1) and not (self.writers and self.readers)

    def leave(self, mode):
        with self.lock:
            if mode == "write":
                self.writers -= 1
            else:
                self.readers -= 1


def test_threads_and_tasks_of_two_nodes_exclude_each_other(url):
    witness, failures = Witness(), []
    nodes = [lockspan.connect(url) for _ in range(2)]
    turns = 30

    def thread(node, seed):
        try:
            record = node.record("stress", 1)
            for turn in range(turns):
                if (turn + seed) % 4 == 0:
                    with record.read(timeout=120) as held:
                        witness.enter("read")
                        witness.leave("read")
                else:
                    with record.write(timeout=120) as held:
                        witness.enter("write")
                        held.check()
                        witness.leave("write")
        except BaseException as why:
            failures.append(why)

    async def tasks(node):
        async def work(seed):
            record = node.record("stress", 1)
            for turn in range(turns):
                mode = "read" if (turn + seed) % 4 == 0 else "write"
                async with getattr(record, mode)(timeout=120):
                    witness.enter(mode)
                    await asyncio.sleep(0)
                    witness.leave(mode)

        try:
            await asyncio.gather(*(work(seed) for seed in range(4)))
        except BaseException as why:
            failures.append(why)

    threads = []
    for node in nodes:
        threads += [threading.Thread(target=thread, args=(node, seed)) for seed in range(3)]
        threads.append(threading.Thread(target=lambda node=node: asyncio.run(tasks(node))))
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not failures
    assert witness.readers == witness.writers == 0 and witness.writes > 0
    for node in nodes:
        node.close()


def test_ten_thousand_tasks_wait_and_all_are_served(server):
    served = []

    async def work(record, number):
        async with record.write(timeout=300):
            served.append(number)

    async def main():
        async with await lockspan.aconnect(server.url) as locks:
            record = locks.record("many", 1)
            async with record.write():
                tasks = [asyncio.create_task(work(record, n)) for n in range(10_000)]
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                assert not served
                for task in tasks[::10]:
                    task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert sum(isinstance(one, asyncio.CancelledError) for one in ended) == 1000
            assert threading.active_count() < 10

    asyncio.run(main())
    # In the order in which they came.
    assert served == [number for number in range(10_000) if number % 10]


def resident_kib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def test_a_million_acquires_leak_nothing(server):
    locks = lockspan.connect(server.url)
    record = locks.record("leak", 1)
    in_turn, called = [lockspan.connect(server.url, stay=(0, 0)) for _ in range(2)], []

    async def tasks(count):
        for _ in range(count):
            async with record.write():
                pass

    def turns(count):
        for _ in range(count):
            with record.write():
                pass
            with record.read(timeout=5) as held:
                held.token

    def others(count):
        for number in range(count):
            with locks.record("leak", number).try_write() as held:
                held.lost.is_set()
                held.downgrade().upgrade()
            try:
                with record.write():
                    record.write(timeout=0).acquire()
            except lockspan.Deadlock:
                pass

    async def hand_over(count):
        """Two connections want the same record until it was granted so many times, each time to one
        that waited for the other."""
        until = granted() + count

        async def work(record):
            for turn in itertools.count():
                if granted() >= until:
                    return
                async with record.write(timeout=120) as held:
                    if turn % 4 == 0:
                        held.lost.add_callback(called.append)
                    await asyncio.sleep(0)

        await asyncio.gather(*(work(one.record("turns", 1)) for one in in_turn))

    def granted():
        return sum(one.stats()["grants"] for one in in_turn)

    def measure():
        locks.give_back_idle()
        gc.collect()
        return resident_kib(), len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

    turns(20_000)
    others(3_000)
    asyncio.run(tasks(20_000))
    asyncio.run(hand_over(4_000))
    before = measure()
    turns(300_000)
    others(3_000)
    for _ in range(4):
        asyncio.run(tasks(100_000))
    asyncio.run(hand_over(20_000))
    after = measure()
    assert not called
    # A leak of one byte for each acquire would be a thousand KiB.
    assert after[0] - before[0] < 1_000, (before, after)
    assert after[1] <= before[1] and after[2] <= before[2], (before, after)
    for one in (locks, *in_turn):
        one.close()
