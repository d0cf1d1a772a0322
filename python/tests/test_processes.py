"""Forks, signals, the end of the interpreter, and a server that dies."""

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

import lockspan
from conftest import PATIENCE, run


def program(code):
    return textwrap.dedent(code)


def test_a_child_of_a_fork_has_none_of_its_parents_locks(record, url):
    with lockspan.connect(url) as parents, record.write(timeout=30) as held:
        child = os.fork()
        if child == 0:
            # Nothing of pytest may run in the child.
            ok = False
            try:
                ok = in_child(parents, record, held, url)
            finally:
                os._exit(0 if ok else 1)
        assert os.waitpid(child, 0)[1] == 0
        # What the child did has not changed anything here.
        held.check()
    with record.write(timeout=30):
        pass


def in_child(parents, record, held, url):
    if held.is_valid() or not held.lost.is_set():
        return False
    for call in (held.check, record.read().acquire, record.try_write().acquire):
        try:
            call()
            return False
        except (lockspan.Lost, lockspan.Forked):
            pass
    held.release()
    try:
        parents.close()
        return False
    except lockspan.Forked:
        pass
    with parents:
        pass  # The end of the block does nothing in a child.
    try:
        record.write(timeout=1).acquire()
        return False
    except lockspan.Forked as why:
        if "call connect again in the child" not in str(why):
            return False
    if url.startswith("memory"):
        return True
    # A connection of its own works, and knows that the parent holds the record.
    with lockspan.connect(url) as locks:
        return locks.record(record.name).try_write().acquire() is None


def work(url, turns, counter):
    with lockspan.connect(url) as locks:
        record = locks.record("counted", 1)
        for _ in range(turns):
            with record.write(timeout=PATIENCE):
                with open(counter) as file:
                    number = int(file.read())
                with open(counter, "w") as file:
                    file.write(str(number + 1))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_multiprocessing_exclude_each_other(server, tmp_path, method):
    counter = tmp_path / "counter"
    counter.write_text("0")
    locks = lockspan.connect(server.url)
    with locks.record("counted", 1).write(timeout=30):
        pass  # The parent has it cached when it forks.
    context = multiprocessing.get_context(method)
    workers = [context.Process(target=work, args=(server.url, 50, counter)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert counter.read_text() == "200"


kept = []


def leave_held(url):
    kept.append(lockspan.connect(url).record("left", 1).write(timeout=30).acquire())


@pytest.mark.parametrize("library", ["multiprocessing", "billiard"])
def test_a_worker_that_ends_leaves_nothing_locked(server, library):
    """Its lease is 10 s; nobody has to wait for its end. Celery's workers are billiard's."""
    workers = pytest.importorskip(library).get_context("fork")
    worker = workers.Process(target=leave_held, args=(server.url,))
    worker.start()
    worker.join()
    with lockspan.connect(server.url, try_for=5) as locks:
        assert locks.record("left", 1).try_write().acquire() is not None


def test_an_interpreter_that_ends_leaves_nothing_locked(server):
    code = """
        import sys, threading, lockspan
        locks = lockspan.connect(sys.argv[1], lease=60)
        held = locks.record("end", 1).write(timeout=30).acquire()
        held.lost.add_callback(lambda: None)
        def wait():
            try:
                lockspan.connect(sys.argv[1]).record("end", 1).write().acquire()
            except lockspan.Closed:
                pass
        threads = [threading.Thread(target=wait, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        async def task():
            async with locks.record("end", 2).write():
                raise SystemExit(7)
        import asyncio
        asyncio.run(task())
    """
    for _ in range(5):
        ended = run(program(code), server.url)
        assert ended.returncode == 7, ended.stderr
        with lockspan.connect(server.url, try_for=5) as locks:
            for number in (1, 2):
                with locks.record("end", number).try_write() as held:
                    assert held is not None


WAITER = """
    import sys, signal, threading, lockspan
    # Programs in the background of a shell ignore this signal, and so do those that they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    locks = lockspan.connect(sys.argv[1])
    record = locks.record("signal", 1)
    other = lockspan.connect(sys.argv[1]).record("signal", 1)
    kept = other.write().acquire().detach()
    try:
        print("waits", flush=True)
        with record.write():
            print("unexpected")
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def test_ctrl_c_ends_a_wait(url):
    waiter = subprocess.Popen(
        [sys.executable, "-c", program(WAITER), url],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert waiter.stdout.readline() == "waits\n"
        waiter.send_signal(signal.SIGINT)
        said, _ = waiter.communicate(timeout=PATIENCE)
    finally:
        waiter.kill()
    assert (said, waiter.returncode) == ("interrupted\n", 0)


def test_a_handler_that_raises_nothing_does_not_end_a_wait(record, other):
    seen = []
    before = signal.signal(signal.SIGUSR1, lambda *_: (seen.append(1), held.release()))
    try:
        held = other.write(timeout=30).acquire().detach()
        sender = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGUSR1))
        sender.start()
        with record.write(timeout=PATIENCE):
            assert seen == [1]
        sender.join()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_server_that_is_killed_inside_a_block_costs_nothing(own_server):
    """kill -9: the server knows after its start what it had granted."""
    locks = lockspan.connect(own_server.url, lease=30)
    other = lockspan.connect(own_server.url, lease=30)
    with locks.record("killed", 1).write() as held:
        token = held.token
        own_server.kill()
        held.check()
        own_server.start()
        assert other.record("killed", 1).try_write().acquire() is None
        held.check()
    with other.record("killed", 1).write(timeout=PATIENCE) as held:
        assert held.token > token


def test_a_server_that_stays_away_loses_the_lock_in_time(own_server):
    with lockspan.connect(own_server.url, lease=1) as locks:
        with locks.record("away", 1).write() as held:
            called = threading.Event()
            held.lost.add_callback(called.set)
            own_server.kill()
            assert called.wait(PATIENCE) and held.lost.wait(PATIENCE)
            with pytest.raises(lockspan.Lost):
                held.check()
        own_server.start()
        with locks.record("away", 1).write(timeout=PATIENCE):
            pass


def test_a_close_without_an_answer_does_not_replace_the_exception_of_the_block(own_server):
    with pytest.raises(lockspan.CloseUnknown):
        with lockspan.connect(own_server.url, lease=1):
            own_server.kill()
    own_server.start()
    with pytest.raises(ZeroDivisionError):
        with lockspan.connect(own_server.url, lease=1):
            own_server.kill()
            1 / 0
    own_server.start()

    async def in_task():
        async with await lockspan.aconnect(own_server.url, lease=1):
            own_server.kill()
            1 / 0

    with pytest.raises(ZeroDivisionError):
        asyncio.run(in_task())


STOPPED = """
    import sys, lockspan
    locks = lockspan.connect(sys.argv[1], lease=1)
    with locks.record("stopped", 1).write() as held:
        print(held.token, flush=True)
        sys.stdin.readline()
        try:
            held.check()
            print("valid", flush=True)
        except lockspan.Lost:
            print("lost", held.lost.is_set(), flush=True)
"""


def test_a_process_that_was_stopped_past_its_lease_knows_that_it_has_lost(server):
    stopped = subprocess.Popen(
        [sys.executable, "-c", program(STOPPED), server.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    token = int(stopped.stdout.readline())
    stopped.send_signal(signal.SIGSTOP)
    try:
        # Granted when the lease of the stopped process is over.
        with lockspan.connect(server.url) as locks:
            with locks.record("stopped", 1).write(timeout=PATIENCE) as held:
                assert held.token > token
                stopped.send_signal(signal.SIGCONT)
                said, _ = stopped.communicate("\n", timeout=PATIENCE)
                assert said == "lost True\n"
                held.check()
    finally:
        stopped.kill()
        stopped.wait()


def test_free_threaded_python_is_refused_with_a_reason():
    code = """
        import sysconfig
        known = sysconfig.get_config_var
        sysconfig.get_config_var = lambda name: 1 if name == "Py_GIL_DISABLED" else known(name)
        import lockspan
    """
    ended = run(program(code))
    assert ended.returncode == 1
    assert "ImportError: lockspan does not support free-threaded CPython" in ended.stderr
