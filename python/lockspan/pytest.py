"""Fixtures for pytest; the package registers them by itself.

`lockspan_locks` is a connection to a service inside the process, another one for each test.
`lockspan_server` is the URL of a server of its own, started once for the run of the tests. With
`pytest --lockspan=server` the fixture `lockspan_locks` connects to that server.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import tempfile
import time
from typing import Iterator, Sequence

import pytest

from . import Locks, connect
from .__main__ import program

_numbers = itertools.count()


class Server:
    """A server with a port and data of its own; `kill` and `start` it as you like."""

    def __init__(self, options: Sequence[str] = ()) -> None:
        self.folder = tempfile.mkdtemp(prefix="lockspan-")
        self.socket = os.path.join(self.folder, "socket")
        self.url = f"unix://{self.socket}"
        self.options = options
        self.start()

    def start(self) -> None:
        """Starts it with the data that it had, and waits until it listens."""
        with open(os.path.join(self.folder, "log"), "ab") as log:
            begin = log.tell()
            self.process = subprocess.Popen(
                [
                    program(),
                    "serve",
                    f"--listen=unix:{self.socket}",
                    "--listen=127.0.0.1:0",
                    "--http=none",
                    f"--data-dir={os.path.join(self.folder, 'data')}",
                    *self.options,
                ],
                stderr=log,
            )
        deadline = time.monotonic() + 60
        while True:
            said = self.said(begin)
            found = re.search(r"listening on .*127\.0\.0\.1:(\d+)", said)
            if found:
                self.port = int(found[1])
                return
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start:\n{said}")
            time.sleep(0.01)

    def said(self, begin: int = 0) -> str:
        """What it has logged."""
        with open(os.path.join(self.folder, "log"), "rb") as log:
            log.seek(begin)
            return log.read().decode(errors="replace")

    def kill(self) -> None:
        """kill -9: what it has granted is known after the next start."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--lockspan",
        choices=["memory", "server"],
        default="memory",
        help="what the fixture lockspan_locks connects to: a service inside the process, or a "
        "server that is started for the run",
    )


@pytest.fixture(scope="session")
def lockspan_server() -> Iterator[str]:
    """The URL of a Lockspan server that runs for these tests only."""
    server = Server()
    try:
        yield server.url
    finally:
        server.close()


@pytest.fixture
def lockspan_locks(request: pytest.FixtureRequest) -> Iterator[Locks]:
    """A connection to a lock service that no other test uses (see --lockspan)."""
    if request.config.getoption("--lockspan") == "server":
        url = str(request.getfixturevalue("lockspan_server"))
    else:
        url = f"memory:pytest-{os.getpid()}-{next(_numbers)}"
    with connect(url) as locks:
        yield locks
