"""The services that the tests run on: inside the process, a real server, a real Redis."""

import os
import shutil
import socket
import subprocess
import tempfile
import time

import pytest

import lockspan
from lockspan.pytest import Server

# Nothing here takes nearly as long; what does has failed.
PATIENCE = 60


class Redis:
    """A Redis of its own."""

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.folder = tempfile.mkdtemp(prefix="lockspan-redis-")
        self.url = f"redis://127.0.0.1:{self.port}"
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir"]
        self.process = subprocess.Popen(
            ["redis-server", *options, self.folder], stdout=subprocess.DEVNULL
        )
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except ConnectionRefusedError:
                assert self.process.poll() is None and time.monotonic() < deadline
                time.sleep(0.01)

    def close(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def server():
    """A server that all tests share which do not stop it."""
    server = Server()
    yield server
    server.close()


@pytest.fixture(scope="session")
def redis_server():
    redis = Redis()
    yield redis
    redis.close()


@pytest.fixture(params=["memory", "server", "redis"])
def url(request):
    """Every kind of service in turn."""
    if request.param == "memory":
        return f"memory:{request.node.nodeid}"
    return request.getfixturevalue("server" if request.param == "server" else "redis_server").url


@pytest.fixture
def record(url, request):
    """A record that no other test uses, on every kind of service."""
    with lockspan.connect(url, lease=5) as locks:
        yield locks.record("test", request.node.nodeid)


@pytest.fixture
def other(url, request):
    """The same record on a connection of another process, as far as the service can tell."""
    with lockspan.connect(url, lease=5, label="the other one") as locks:
        yield locks.record("test", request.node.nodeid)


@pytest.fixture
def own_server():
    """A server that the test may kill."""
    server = Server(["--min-lease=1s"])
    yield server
    server.close()


@pytest.fixture
def own_server_of_long_leases():
    """A server whose clients have nothing to say for a long time."""
    server = Server(["--max-lease=120s"])
    yield server
    server.close()


def run(code, *args, **options):
    """Runs a program in a process of its own, as the tests are run."""
    import sys

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", code, *args],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        **options,
    )
