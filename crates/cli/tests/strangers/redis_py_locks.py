"""The Lock of examples/from_python.py, and LS.LOCK from a client with redis-py's defaults.

Arguments: the binary, a folder for the server's data, the folder of the examples. The script starts
the server itself, ends it as a crash does, and starts it again on the same port. Each claim is
asserted; at the end it prints OK.
"""

import ctypes
import re
import signal
import subprocess
import sys
import threading
import time
import uuid

import redis

BINARY, DATA, EXAMPLES = sys.argv[1:4]
PATIENCE = 60
sys.path.insert(0, EXAMPLES)
sys.dont_write_bytecode = True

from from_python import Lock, connect  # noqa: E402


class Server:
    """A server that ends with this script, on whichever port is free and from then on on that."""

    port = 0

    def __init__(self):
        listen = f"127.0.0.1:{Server.port}"
        command = [BINARY, "serve", "--listen", listen, "--http", "none", "--data-dir", DATA]
        die_with_parent = lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # noqa: E731
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent
        )
        for line in self.process.stderr:
            if found := re.search(r"listening on 127\.0\.0\.1:(\d+)", line):
                Server.port = int(found[1])
                break
        else:
            raise AssertionError("the server did not start")
        # What it says later is read, so that it never waits for us.
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def crash(self):
        self.process.kill()
        self.process.wait()


def until(what, is_so):
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, f"not in time: {what}"
        time.sleep(0.005)


def waiters(client, record):
    return len(client.execute_command("LS.INSPECT", record)["waiters"])


def one_client_for_all_threads(client):
    """Four threads, one client object: at most one writer is inside."""
    inside, worst, tokens = 0, 0, []

    def work():
        nonlocal inside, worst
        for _ in range(10):
            with Lock(client, "threads:1") as held:
                inside += 1
                worst = max(worst, inside)
                time.sleep(0.001)
                tokens.append(held.token)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert (worst, len(tokens)) == (1, 40), (worst, len(tokens))
    assert tokens == sorted(set(tokens)), tokens


def a_crash_of_the_server(client, server):
    """The holder keeps the lock, and the one that waits gets it after that, and not before."""
    order = []

    def wait():
        with Lock(client, "crash:1") as next_one:
            order.append(("next", next_one.token))

    with Lock(client, "crash:1", lease=6_000) as held:
        waiter = threading.Thread(target=wait)
        waiter.start()
        until("it waits", lambda: waiters(client, "crash:1") == 1)
        server.crash()
        server = Server()
        # Longer than the lease: what the server knew at its start is over by then.
        end = time.monotonic() + 8
        while time.monotonic() < end:
            assert held.is_valid(), "the lock is kept"
            assert not order, "nobody else is inside"
            time.sleep(0.05)
        assert waiters(connect(Server.port), "crash:1") == 1, "the other waits again"
        order.append(("first", held.token))
    waiter.join(PATIENCE)
    assert [who for who, _ in order] == ["first", "next"], order
    assert order[0][1] < order[1][1], order
    return server


def redis_py_as_it_comes():
    """A wait longer than redis-py's 5 s: it tries again by itself, and keeps its place in line."""
    looker = connect(Server.port)
    naive = redis.Redis(port=Server.port, protocol=3, decode_responses=True)
    order = []

    def wait(name, client):
        lock = ("LS.LOCK", "slow:1", "W", "WAIT", 60_000, "LEASE", 20_000, "ID", uuid.uuid4().hex)
        held = client.execute_command(*lock)
        order.append(name)
        client.execute_command("LS.UNLOCK", "slow:1", held["handle"])

    with Lock(looker, "slow:1"):
        threads = []
        for name, client in (("naive", naive), ("later", looker)):
            threads.append(threading.Thread(target=wait, args=(name, client)))
            threads[-1].start()
            until("it waits", lambda: waiters(looker, "slow:1") == len(threads))
        # With redis-py before 8 there is no such time-out, and nothing to be seen of it.
        end = time.monotonic() + 12
        while time.monotonic() < end:
            assert waiters(looker, "slow:1") == 2, "each has its place, once"
            time.sleep(0.02)
    for thread in threads:
        thread.join(PATIENCE)
    assert order == ["naive", "later"], order


first = Server()
locks = connect(Server.port)
one_client_for_all_threads(locks)
second = a_crash_of_the_server(locks, first)
redis_py_as_it_comes()
second.crash()
print("OK")
