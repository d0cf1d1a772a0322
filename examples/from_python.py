"""Uses the locks of a Lockspan server from Python, with redis-py and nothing else.

Run: pip install redis; python3 examples/from_python.py [PORT]

LS.LOCK opens a session for each lock, so threads can share one client and still exclude each
other. A lock is renewed while its `with` block runs; after a restart of the server the next renewal
keeps the lock.
"""

import sys
import threading
import time
import uuid

import redis


def connect(port):
    # redis-py stops waiting for a reply after 5 s by default; waiting for a lock can take longer.
    return redis.Redis(
        port=port, protocol=3, decode_responses=True, socket_timeout=None, socket_keepalive=True
    )


class Lock:
    """with Lock(client, "invoice:42") as held: ...    for writing, or for reading with mode="R"."""

    def __init__(self, client, record, mode="W", wait="forever", lease=10_000):
        self.client, self.record, self.mode, self.wait = client, record, mode, wait
        self.lease, self.left = lease, threading.Event()

    def __enter__(self):
        forever = self.wait == "forever"
        self.until = float("inf") if forever else time.monotonic() + self.wait / 1000
        # A new id for each lock: if the reply is lost, a repeated command gets the same lock.
        mine = ("LS.LOCK", self.record, self.mode, "ID", uuid.uuid4().hex)
        reply = self.ask(*mine, "WAIT", self.wait, "LEASE", self.lease)
        if reply is None:
            raise TimeoutError(f"{self.record} was not granted within {self.wait} ms")
        self.handle, self.token = reply["handle"], reply["token"]
        self.until = time.monotonic() + reply["lease-ms"] / 1000
        self.keeper = threading.Thread(target=self.keep, daemon=True)
        self.keeper.start()
        return self

    def __exit__(self, *_):
        self.left.set()
        self.keeper.join()
        try:
            self.ask("LS.UNLOCK", self.record, self.handle)
        except redis.RedisError:
            pass  # The lock becomes free when its lease expires.

    def is_valid(self):
        """Whether the lock is still ours: check before each step that must not come too late."""
        return time.monotonic() < self.until

    def keep(self):
        while not self.left.wait(self.lease / 3000):
            asked = time.monotonic()
            try:
                self.until = asked + self.ask("LS.RENEW", self.record, self.handle) / 1000
            except redis.RedisError:
                self.until = asked  # The lock is lost.
                return

    def ask(self, *command):
        """Every command about a lock may be repeated, as here while the server restarts."""
        while True:
            try:
                return self.client.execute_command(*command)
            except (redis.ConnectionError, redis.TimeoutError):
                if time.monotonic() > self.until:
                    raise
                time.sleep(0.1)


def main(port):
    client = connect(port)
    inside, worst, tokens = 0, 0, []

    def work():
        nonlocal inside, worst
        for _ in range(5):
            with Lock(client, "invoice:42") as held:
                inside += 1
                worst = max(worst, inside)
                time.sleep(0.002)
                tokens.append(held.token)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("4 threads, 20 turns; writers inside at once, at worst:", worst)
    print("tokens rise:", tokens == sorted(set(tokens)))

    with Lock(client, "invoice:42", mode="R"), Lock(client, "invoice:42", mode="R") as held:
        print("two read; both valid:", held.is_valid())
        try:
            with Lock(client, "invoice:42", wait=100):
                print("unexpected: a writer while others read")
        except TimeoutError as why:
            print("a writer:", why)
    with Lock(client, "invoice:42", wait=100):
        print("now it is alone")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7420)
