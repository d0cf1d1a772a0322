"""Waits that could never end: each gets an exception, or ends."""

import asyncio
import contextlib
import gc
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import lockspan
from conftest import PATIENCE, run


def until(is_so):
    """Waits for something that is bound to happen."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def waits(hold):
    return "waiting" in repr(hold)


def has_a_writer_in_line(record):
    """Whether a reader of another process would have to wait."""
    with record.try_read() as held:
        return held is None


async def turns(count=5):
    """Lets the other tasks run until they wait."""
    for _ in range(count):
        await asyncio.sleep(0)


async def soon(is_so):
    """Lets the others run until it is so."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)


# A set whose wait goes on to a record of its own.


class Story:
    """A thread or task reads "b:1" and waits for "a:1" in a set with both. A writer gets in line
    for "b:1" meanwhile, and then "a:1" becomes free: the second read of "b:1" would stand behind
    the writer, which waits for the first."""

    def __init__(self, locks, other):
        self.locks, self.other = locks, other
        self.kept = other.record("a", 1).write(timeout=30).acquire().detach()
        self.set = locks.all("a:1", "b:1").read(timeout=30)
        self.writer = threading.Thread(
            target=lambda: other.record("b", 1).write(timeout=PATIENCE).acquire().release()
        )

    def goes_on(self, probe):
        until(lambda: waits(self.set))
        self.writer.start()
        until(lambda: has_a_writer_in_line(probe.record("b", 1)))
        self.kept.release()


@pytest.fixture
def story(url):
    with lockspan.connect(url) as locks, lockspan.connect(url) as other:
        with lockspan.connect(url) as probe:
            story = Story(locks, other)
            yield story, probe
            story.writer.join()


def test_a_set_that_comes_to_wait_for_its_own_thread_is_refused(story):
    story, probe = story
    said = []

    def reader():
        with story.locks.record("b", 1).read(timeout=30):
            with pytest.raises(lockspan.Deadlock, match="this thread holds b:1") as why:
                story.set.acquire()
            said.append(why.value)

    thread = threading.Thread(target=reader)
    thread.start()
    story.goes_on(probe)
    thread.join()
    assert said and said[0].cycle == [] and not story.set.held
    # It has let go of "a:1" too, and can be used again.
    story.writer.join()
    with story.set as held:
        assert held.held


def test_a_set_that_comes_to_wait_for_its_own_task_is_refused(story):
    story, probe = story
    said = []

    async def main():
        async with story.locks.record("b", 1).read(timeout=30):
            with pytest.raises(lockspan.Deadlock, match="this task holds b:1") as why:
                await story.set
            said.append(why.value)

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    story.goes_on(probe)
    thread.join()
    assert said and not story.set.held


def test_a_set_does_not_wait_for_what_it_has_got_itself(url):
    """A writer in line for a record that the set has locked is not in the way of the set."""
    with lockspan.connect(url) as locks, lockspan.connect(url) as other:
        first, last = locks.record("a", 1), locks.record("b", 1)
        kept = other.record("b", 1).write(timeout=30).acquire().detach()
        both = locks.all(first, last).read(timeout=PATIENCE)
        writer = threading.Thread(
            target=lambda: other.record("a", 1).write(timeout=PATIENCE).acquire().release()
        )

        def reader():
            with first.read(timeout=30), both as held:
                held.check()
                got.append(list(held.tokens))

        got = []
        thread = threading.Thread(target=reader)
        thread.start()
        until(lambda: waits(both))
        writer.start()
        until(lambda: has_a_writer_in_line(other.record("a", 1)))
        kept.release()
        thread.join()
        writer.join()
        assert got == [["a:1", "b:1"]]


# A thread that blocks its own event loop.


async def turn(awaited):
    held = await awaited
    if held is not None:
        held.release()


WAITERS = {
    "write": lambda locks, record: record.write(),
    "read": lambda locks, record: record.read(),
    "set": lambda locks, record: locks.all(record, ("later", 1)).write(),
    "attempt": lambda locks, record: record.try_write(),
}


@pytest.mark.parametrize("waiter", WAITERS)
def test_a_thread_that_blocks_the_loop_of_a_waiting_task_is_refused(url, waiter):
    """The task is granted the record first, and could not run."""

    async def main():
        with lockspan.connect(url, try_for=PATIENCE) as locks, lockspan.connect(url) as other:
            record = locks.record("blocked", 1)
            # Used, so that an attempt has to ask for it.
            kept = await other.record("blocked", 1).write(timeout=30)
            task = asyncio.ensure_future(turn(WAITERS[waiter](locks, record)))
            await turns()
            for call in (
                record.write(timeout=20).acquire,
                locks.all(record, ("before", 1)).write(timeout=20).acquire,
            ):
                with pytest.raises(lockspan.Deadlock, match="event loop waits for blocked:1"):
                    call()
            # Reads are granted together.
            for hold in (record.read(timeout=0.2), locks.all(record).read(timeout=0.2)):
                with pytest.raises(lockspan.Timeout if waiter == "read" else lockspan.Deadlock):
                    hold.acquire()
            kept.release()
            await task
            # Nobody waits any more.
            with record.write(timeout=30):
                pass

    asyncio.run(main())


READS = {
    "record": lambda locks, record: record.read(timeout=PATIENCE),
    "set": lambda locks, record: locks.all(record, ("later", 1)).read(timeout=PATIENCE),
}


@pytest.mark.parametrize("blocking", READS)
def test_a_thread_may_read_beside_a_waiting_read_of_its_loop(url, blocking):
    """The server's answer lets both in, and the client hears it while the loop is blocked."""

    async def main():
        with lockspan.connect(url) as locks, lockspan.connect(url) as other:
            record = locks.record("beside", 1)
            kept = (await other.record("beside", 1).write(timeout=30)).detach()
            task = asyncio.ensure_future(turn(record.read()))
            await turns()
            hold = READS[blocking](locks, record)
            helper = threading.Thread(target=lambda: (until(lambda: waits(hold)), kept.release()))
            helper.start()
            with hold as held:
                assert held.is_valid() and not task.done()
            helper.join()
            await task

    asyncio.run(main())


def test_a_thread_that_would_read_behind_a_writer_behind_its_loop_is_refused(record, other):
    """The writer waits for the task, which could not run."""

    async def main():
        kept = await other.write(timeout=30)
        task = asyncio.ensure_future(turn(record.read()))
        await turns()
        writer = record.write(timeout=PATIENCE)
        writing = threading.Thread(target=lambda: writer.acquire().release())
        writing.start()
        until(lambda: waits(writer))
        # It gets in line before it says that it waits.
        with pytest.raises(lockspan.Deadlock, match="event loop waits for"):
            record.read(timeout=20).acquire()
        kept.release()
        await task
        writing.join()

    asyncio.run(main())


def test_a_thread_that_would_read_behind_its_process_and_its_loop_is_refused(record):
    """What this process holds is handed on by those who leave, perhaps to the task first."""

    async def main():
        kept = record.write(timeout=30)
        holder = threading.Thread(target=kept.acquire)
        holder.start()
        holder.join()
        task = asyncio.ensure_future(turn(record.read()))
        await turns()
        with pytest.raises(lockspan.Deadlock, match="event loop waits for"):
            record.read(timeout=20).acquire()
        kept.release()
        await task

    asyncio.run(main())


def test_a_set_is_in_the_way_only_of_records_that_it_has_come_to(url):
    async def main():
        with lockspan.connect(url) as locks, lockspan.connect(url) as other:
            first, second = locks.record("row", 1), locks.record("row", 2)
            kept = await other.record("row", 1).write(timeout=30)
            hold = locks.all(first, second).write(timeout=PATIENCE)
            task = asyncio.ensure_future(turn(hold))
            await turns()
            assert waits(hold)
            # It is not in line for the second, which has to be fetched.
            async with other.record("row", 2).write(timeout=30):
                pass
            with second.write(timeout=PATIENCE):
                pass
            with pytest.raises(lockspan.Deadlock, match="event loop waits for row:1"):
                first.write(timeout=20).acquire()
            after = await other.record("row", 2).write(timeout=30)
            kept.release()
            # It has the first, and is in line for the second.
            await soon(lambda: "event loop holds row:1" in refusal(first))
            with pytest.raises(lockspan.Deadlock, match="event loop waits for row:2"):
                second.write(timeout=20).acquire()
            after.release()
            await task
            with first.write(timeout=PATIENCE), second.write(timeout=PATIENCE):
                pass

    def refusal(record):
        with pytest.raises(lockspan.Deadlock) as why:
            record.write(timeout=20).acquire()
        return str(why.value)

    asyncio.run(main())


def test_a_task_may_wait_for_what_a_callback_of_its_loop_holds(url):
    """Another callback releases it: the loop goes on while a task waits."""

    async def main():
        with lockspan.connect(url) as locks, lockspan.connect(url) as other:
            loop = asyncio.get_running_loop()
            record = locks.record("callback", 2)
            kept = await other.record("callback", 1).write(timeout=30)
            single = record.write(timeout=PATIENCE)
            both = locks.all(("callback", 1), record).write(timeout=PATIENCE)
            taken = loop.create_future()
            loop.call_soon(lambda: taken.set_result(record.write(timeout=30).acquire()))
            held = await taken
            tasks = [asyncio.ensure_future(turn(hold)) for hold in (single, both)]
            kept.release()
            await soon(lambda: has_a_writer_in_line(other.record("callback", 1)))
            await turns()
            assert waits(single) and waits(both)
            with pytest.raises(lockspan.Deadlock, match="this thread's event loop holds"):
                record.write(timeout=20).acquire()
            loop.call_soon(held.release)
            await asyncio.gather(*tasks)

    asyncio.run(main())


def test_an_upgrade_that_blocks_the_loop_of_a_waiting_reader_is_refused(record, other):
    async def main():
        kept = await other.write(timeout=30)
        first, second = record.read(timeout=PATIENCE), record.read(timeout=PATIENCE)
        granted = asyncio.ensure_future(upgrades(first))
        waiting = asyncio.ensure_future(turn(second))
        await turns()
        kept.release()
        await granted
        await waiting

    async def upgrades(hold):
        async with hold as held:
            # The other read is granted too, perhaps, and its task has not run.
            with pytest.raises(lockspan.Deadlock, match="event loop waits for"):
                held.upgrade(timeout=20)
            assert held.mode == "read"

    asyncio.run(main())


def test_a_task_may_upgrade_in_its_thread_while_a_writer_of_its_loop_waits(record):
    async def main():
        async with record.read(timeout=30) as held:
            waiter = asyncio.ensure_future(turn(record.write()))
            await turns()
            assert held.upgrade(timeout=30).mode == "write"
        await waiter

    asyncio.run(main())


# A loop that was closed, and a wait that was never driven.


def test_a_waiter_of_a_closed_loop_leaves_the_queue(record, other):
    def waits_in_a_loop():
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda *_: None)
        task = loop.create_task(turn(record.write()))
        loop.run_until_complete(turns())
        assert not task.done()
        loop.close()

    with other.write(timeout=30):
        thread = threading.Thread(target=waits_in_a_loop)
        thread.start()
        thread.join()
        gc.collect()
    with other.write(timeout=30):
        pass
    with record.write(timeout=30):
        pass


FORMS = {
    "record": lambda locks: locks.record("kept", 1).write(),
    "set": lambda locks: locks.all(("kept", 1), ("kept", 2)).write(),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_task_that_nobody_else_knows_lives_while_it_waits(url, form):
    """As it would with `asyncio.Lock`. Event loops keep tasks weakly."""

    async def main():
        with lockspan.connect(url) as locks, lockspan.connect(url) as other:
            done, said = asyncio.Event(), []
            asyncio.get_running_loop().set_exception_handler(lambda _, what: said.append(what))

            async def job():
                async with FORMS[form](locks):
                    done.set()

            async with other.record("kept", 1).write(timeout=30):
                # Nobody keeps what this returns.
                asyncio.create_task(job())
                await turns()
                gc.collect()
                assert not said
            await asyncio.wait_for(done.wait(), PATIENCE)
            await turns()

    asyncio.run(main())


def test_a_task_that_nobody_else_knows_lives_until_its_hold_is_released(record):
    async def main():
        done, said = asyncio.Event(), []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: said.append(what))

        async def watch(lost):
            assert await lost is False
            done.set()

        async with record.write(timeout=30) as held:
            asyncio.create_task(watch(held.lost))
            await turns()
            gc.collect()
            assert not said
        await asyncio.wait_for(done.wait(), PATIENCE)

    asyncio.run(main())


def test_a_wait_that_is_dropped_before_its_first_step_leaves_the_queue(record, other):
    async def main():
        hold = record.write(timeout=30)
        with other.write(timeout=30):
            steps = hold.__await__()
            assert waits(hold)
            del steps
            assert not waits(hold)
        with other.write(timeout=30):
            pass
        async with hold as held:
            assert held.held

    asyncio.run(main())


def test_a_signal_at_the_beginning_of_a_wait_leaves_the_queue(record, other):
    """Python looks for signals when a function begins: before the first line of any `try`."""

    def strike(frame, event, argument):
        if event == "call" and frame.f_code.co_filename.endswith("_asyncio.py"):
            sys.settrace(None)
            raise KeyboardInterrupt

    async def main():
        hold = record.write(timeout=30)
        with other.write(timeout=30):
            sys.settrace(strike)
            try:
                with pytest.raises(KeyboardInterrupt):
                    await hold
            finally:
                sys.settrace(None)
            assert not waits(hold)
        with other.write(timeout=30):
            pass
        async with hold as held:
            assert held.held

    asyncio.run(main())


# A block that ends while its hold is upgraded.


def test_a_block_that_ends_during_its_upgrade_releases(record, other):
    said = []

    def upgrade(held):
        with pytest.raises(lockspan.NotHeld, match="during its upgrade") as why:
            held.upgrade(timeout=PATIENCE)
        said.append(why.value)

    with other.read(timeout=30):
        with record.read(timeout=30) as held:
            lost = held.lost
            upgrader = threading.Thread(target=upgrade, args=(held,))
            upgrader.start()
            until(lambda: waits(held))
    upgrader.join()
    assert said and not held.held and lost.wait(timeout=PATIENCE) is False
    with other.write(timeout=30):
        pass
    with held:
        assert held.mode == "read"


def test_a_task_whose_block_ends_during_its_upgrade_releases(record, other):
    async def main():
        async with other.read(timeout=30):
            async with record.read(timeout=30) as held:
                upgrade = asyncio.ensure_future(upgraded(held))
                await turns()
                assert waits(held)
                held.release()
                with pytest.raises(lockspan.NotHeld):
                    held.release()
        with pytest.raises(lockspan.NotHeld, match="during its upgrade"):
            await upgrade
        assert not held.held
        async with other.write(timeout=30):
            pass

    async def upgraded(held):
        await held.aupgrade(timeout=PATIENCE)

    asyncio.run(main())


def test_a_thread_may_wait_for_a_hold_that_it_released_during_its_upgrade(record, other):
    """The read is held until the upgrade ends, but not by this thread any more."""
    kept = other.read(timeout=30).acquire().detach()

    def upgrade(held):
        with pytest.raises(lockspan.NotHeld, match="during its upgrade"):
            held.upgrade(timeout=PATIENCE)

    with record.read(timeout=30) as held:
        upgrader = threading.Thread(target=upgrade, args=(held,))
        upgrader.start()
        until(lambda: waits(held))
    again = record.write(timeout=PATIENCE)
    helper = threading.Thread(target=lambda: (until(lambda: waits(again)), kept.release()))
    helper.start()
    with again:
        upgrader.join()
    helper.join()


def test_a_thread_that_blocks_the_loop_of_an_upgrade_that_was_released_is_refused(record, other):
    async def main():
        async with other.read(timeout=30):
            async with record.read(timeout=30) as held:
                upgrade = asyncio.ensure_future(upgraded(held))
                await turns()
                assert waits(held)
            with pytest.raises(lockspan.Deadlock, match="still upgrades a released hold of"):
                record.write(timeout=20).acquire()
            again = asyncio.ensure_future(turn(record.write(timeout=PATIENCE)))
            await turns()
            assert not again.done()
        with pytest.raises(lockspan.NotHeld, match="during its upgrade"):
            await upgrade
        await again
        with record.write(timeout=PATIENCE):
            pass

    async def upgraded(held):
        await held.aupgrade(timeout=PATIENCE)

    asyncio.run(main())


# The end of the interpreter.

JOINS = """
    import atexit, sys, threading
    threads = []

    def join():
        for thread in threads:
            thread.join()
        print("joined", sorted(said), flush=True)

    # As a module does that was imported before lockspan: it is called after lockspan's own handler.
    atexit.register(join)
    import lockspan

    said = []
    locks, other = lockspan.connect(sys.argv[1]), lockspan.connect(sys.argv[1])
    held = other.record("end", 1).write(timeout=30).acquire().detach()
    reading = locks.record("end", 2).read(timeout=30).acquire().detach()
    theirs = other.record("end", 2).read(timeout=30).acquire().detach()

    def wait(call):
        try:
            said.append(f"{call()}")
        except lockspan.Closed:
            said.append("Closed")

    holds = [locks.record("end", 1).write(), locks.all("end:1", "end:3").write()]
    for hold in [*holds, reading]:
        call = hold.upgrade if hold is reading else hold.acquire
        threads.append(threading.Thread(target=wait, args=(call,), daemon=True))
    threads.append(threading.Thread(target=wait, args=(held.lost.wait,), daemon=True))
    for thread in threads:
        thread.start()
    while not all("waiting" in repr(hold) for hold in [*holds, reading]):
        pass
"""


def test_an_exit_handler_may_join_a_thread_that_waits(url):
    ended = run(textwrap.dedent(JOINS), url)
    assert (ended.stderr, ended.returncode) == ("", 0)
    assert ended.stdout == "joined ['Closed', 'Closed', 'Closed', 'True']\n"


LATE = """
    import atexit, sys, threading

    def late():
        def connect():
            try:
                lockspan.connect(sys.argv[1]).record("late", 1).write(timeout=30).acquire()
                print("held", flush=True)
            except lockspan.Closed:
                print("Closed", flush=True)
        thread = threading.Thread(target=connect, daemon=True)
        thread.start()
        thread.join()

    if sys.version_info < (3, 12):
        atexit.register(late)
    else:  # No thread can be started any more.
        print("Closed")
    import lockspan
    lockspan.connect(sys.argv[1])
"""


def test_a_thread_that_connects_after_the_end_is_refused(server):
    """Nobody would close its connection, and others would wait for its lease."""
    ended = run(textwrap.dedent(LATE), server.url)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("Closed\n", "", 0)


class Gate:
    """Passes on what clients and the server say. Once it was shut, it keeps what clients say until
    all of them have said something."""

    def __init__(self, port, clients):
        self.port, self.clients = port, clients
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"lockspan://127.0.0.1:{self.listener.getsockname()[1]}"
        self.is_shut, self.all_spoke = False, threading.Barrier(clients)
        self.threads = []

    def admit(self):
        for _ in range(self.clients):
            client, _ = self.listener.accept()
            server = socket.create_connection(("127.0.0.1", self.port))
            for come, go in ((client, server), (server, client)):
                thread = threading.Thread(target=self.pass_on, args=(come, go, come is client))
                thread.start()
                self.threads.append(thread)

    def pass_on(self, come, go, is_client):
        waits = is_client
        while True:
            try:
                said = come.recv(65536)
                if said and waits and self.is_shut:
                    self.all_spoke.wait(PATIENCE)
                    waits = False
                if said:
                    go.sendall(said)
            except OSError:
                said = b""
            if not said:
                for one in (come, go):
                    with contextlib.suppress(OSError):
                        one.shutdown(socket.SHUT_RDWR)
                return


MANY = """
    import sys, lockspan
    kept = [lockspan.connect(sys.argv[1], lease=60) for _ in range(3)]
    print("connected", flush=True)
    sys.stdin.readline()
    # What is called at the end of the interpreter.
    print(lockspan._close_all(False), "unconfirmed", flush=True)
"""


def test_connections_are_closed_at_once_at_the_end(own_server_of_long_leases):
    """A server that does not answer is waited for once, not once for each connection. Here it
    answers when all three were closed: three that are closed in turn would give up."""
    gate = Gate(own_server_of_long_leases.port, 3)
    admitting = threading.Thread(target=gate.admit)
    admitting.start()
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(MANY), gate.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert process.stdout.readline() == "connected\n"
        admitting.join()
        gate.is_shut = True
        said, _ = process.communicate("\n", timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
        gate.listener.close()
    for thread in gate.threads:
        thread.join()
    assert (said, process.returncode) == ("0 unconfirmed\n", 0)
