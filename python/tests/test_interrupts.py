"""Ctrl-C and cancelled tasks at every wait: nothing stays locked, and nobody stays in line."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap

import pytest

import lockspan
from conftest import PATIENCE
from test_hangs import until

BEFORE = """
    import asyncio, signal, sys, lockspan
    # Programs in the background of a shell ignore this signal, and so do those that they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    locks, other = lockspan.connect(sys.argv[1]), lockspan.connect(sys.argv[1])
    one, two = locks.record("stop", 1), locks.record("stop", 2)
    theirs = other.record("stop", 1)

    def waits():
        print("waits", flush=True)
"""

# What is waited for, and what is so after Ctrl-C.
WAITS = {
    "asyncio": """
        kept = theirs.write().acquire().detach()
        async def main():
            waits()
            async with one.write():
                print("unexpected")
        try:
            asyncio.run(main())
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """,
    "asyncio set": """
        kept = theirs.write().acquire().detach()
        async def main():
            waits()
            async with locks.all(one, two).write():
                print("unexpected")
        try:
            asyncio.run(main())
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """,
    "upgrade": """
        kept = theirs.read().acquire().detach()
        held = one.read().acquire()
        try:
            waits()
            held.upgrade()
            print("unexpected")
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        assert not held.held or held.mode == "read"
        held = None
    """,
    "all": """
        kept = theirs.write().acquire().detach()
        try:
            waits()
            with locks.all(one, two).write():
                print("unexpected")
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """,
    "lost": """
        held = one.write().acquire()
        kept = held
        try:
            waits()
            held.lost.wait()
            print("unexpected")
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        held.check()
    """,
}

AFTER = """
    kept.release()
    for name in ("stop:1", "stop:2"):
        for connection in (other, locks):
            with connection.record(name).write(timeout=30):
                pass
    print("free", flush=True)
"""


def started(code, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.mark.parametrize("kind", WAITS)
def test_ctrl_c_ends_every_kind_of_wait(url, kind):
    program = "".join(textwrap.dedent(part) for part in (BEFORE, WAITS[kind], AFTER))
    waiter = started(program, url)
    try:
        assert waiter.stdout.readline() == "waits\n"
        waiter.send_signal(signal.SIGINT)
        said, _ = waiter.communicate(timeout=PATIENCE)
    finally:
        waiter.kill()
    assert (said, waiter.returncode) == ("interrupted\nfree\n", 0)


CLOSES = """
    print(locks.stats()["connects"], flush=True)
    sys.stdin.readline()
    try:
        waits()
        locks.close()
        print("unexpected")
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    import os
    os._exit(0)  # Not another wait for the server.
"""


def test_ctrl_c_ends_a_close_that_the_server_does_not_answer(own_server):
    program = textwrap.dedent(BEFORE) + textwrap.dedent(CLOSES)
    waiter = subprocess.Popen(
        [sys.executable, "-c", program, own_server.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert waiter.stdout.readline() == "1\n"
        own_server.process.send_signal(signal.SIGSTOP)
        waiter.stdin.write("\n")
        waiter.stdin.flush()
        assert waiter.stdout.readline() == "waits\n"
        waiter.send_signal(signal.SIGINT)
        said, _ = waiter.communicate(timeout=PATIENCE)
    finally:
        own_server.process.send_signal(signal.SIGCONT)
        waiter.kill()
    assert (said, waiter.returncode) == ("interrupted\n", 0)


# Cancelled tasks: after each number of steps of the event loop that a wait may take.

STEPS = range(10)


async def cancelled_after(steps, coroutine):
    """Runs it for so many turns of the event loop, and cancels it."""
    task = asyncio.ensure_future(coroutine)
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def is_free(*records):
    for record in records:
        async with record.write(timeout=PATIENCE):
            pass


async def attempt(record):
    held = await record.try_write()
    try:
        await asyncio.sleep(PATIENCE)
    finally:
        if held is not None:
            held.release()


async def block(record):
    async with record.try_write():
        await asyncio.sleep(PATIENCE)


@pytest.mark.parametrize("form", [attempt, block])
def test_a_cancelled_attempt_leaves_nothing_locked(record, other, form):
    async def main():
        for steps in STEPS:
            # Fetched from the other one, in use there, and cached here.
            await is_free(other)
            await cancelled_after(steps, form(record))
            await is_free(other)
            async with other.write(timeout=PATIENCE):
                await cancelled_after(steps, form(record))
            await is_free(record)
            await cancelled_after(steps, form(record))
            await is_free(other, record)

    asyncio.run(main())


def test_a_cancelled_set_leaves_nothing_locked(url):
    async def take(both):
        async with both.write():
            await asyncio.sleep(PATIENCE)

    async def main():
        async with await lockspan.aconnect(url) as locks, await lockspan.aconnect(url) as other:
            mine = [locks.record("points", number) for number in range(3)]
            theirs = [other.record("points", number) for number in range(3)]
            for steps in STEPS:
                for in_use in (None, 0, 1, 2):
                    await is_free(*theirs)
                    kept = None
                    if in_use is not None:
                        kept = await theirs[in_use].write(timeout=PATIENCE)
                    await cancelled_after(steps, take(locks.all(*mine)))
                    if kept is not None:
                        # It has left the line, and what it had got before.
                        await is_free(*theirs[:in_use])
                        kept.release()
                    await is_free(*theirs)

    asyncio.run(main())


def open_files():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def test_a_cancelled_connect_leaves_no_connection(server):
    async def main():
        for steps in STEPS:
            await cancelled_after(steps, lockspan.aconnect(server.url))

    asyncio.run(main())
    before = open_files()
    for _ in range(3):
        asyncio.run(main())
    until(lambda: open_files() <= before)


def test_a_cancelled_close_can_be_repeated_and_frees_what_was_held(url):
    async def close(locks):
        await locks.aclose()

    async def main():
        async with await lockspan.aconnect(url) as other:
            for steps in STEPS:
                locks = await lockspan.aconnect(url)
                await locks.record("closing", 1).write(timeout=PATIENCE)
                await cancelled_after(steps, close(locks))
                try:
                    await locks.aclose()
                except lockspan.CloseUnknown:
                    pass
                await is_free(other.record("closing", 1))

    asyncio.run(main())


def test_a_fixture_connects_to_what_the_command_line_says(tmp_path):
    tests = tmp_path / "test_it.py"
    tests.write_text(
        textwrap.dedent(
            """
            def test_where(lockspan_locks, lockspan_server, request):
                wanted = request.config.getoption("--lockspan")
                assert lockspan_locks.url.startswith("memory:") == (wanted == "memory")
                assert (lockspan_locks.url == lockspan_server) == (wanted == "server")
                with lockspan_locks.record("invoice", 42).write(timeout=30) as held:
                    held.check()
            """
        )
    )
    for options in ([], ["--lockspan=memory"], ["--lockspan=server"]):
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(tests)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert ran.returncode == 0 and "1 passed" in ran.stdout, ran.stdout + ran.stderr
