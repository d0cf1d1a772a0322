"""Real worker pools: gunicorn with --preload, and Celery's prefork pool.

Each forks its workers from a process that has connected and holds a record. A worker may not use
that connection, and one of its own works.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import urllib.request

import pytest

from conftest import PATIENCE

# What both programs import before they fork. `said` is what a worker finds.
PARENT = """
    import os
    import lockspan

    URL = os.environ["TEST_URL"]
    PARENT = os.getpid()
    parents = lockspan.connect(URL)
    held = parents.record("worker", 1).write(timeout=30).acquire()

    def said():
        assert os.getpid() != PARENT
        try:
            parents.record("worker", 2).write(timeout=30).acquire()
            return "the parent's connection was used"
        except lockspan.Forked:
            pass
        with lockspan.connect(URL) as locks:
            with locks.record("worker", 2).write(timeout=30) as mine:
                mine.check()
            # The parent still holds what it held.
            other = locks.record("worker", 1).try_write().acquire()
        return f"Forked; its own works; {held.is_valid()}; {other}"
"""
EXPECTED = "Forked; its own works; False; None"

WEB = """
    from parent import said

    def application(environ, start_response):
        body = said().encode()
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [body]
"""

TASKS = """
    import os
    from celery import Celery
    from parent import said

    app = Celery("tasks", broker=os.environ["TEST_BROKER"], backend=os.environ["TEST_BROKER"])
    app.task(name="said")(said)
"""


class Program:
    """A program with worker processes. Its log is read for the sign that it is ready."""

    def __init__(self, process, log):
        self.process, self.log = process, log

    def wait_for(self, pattern):
        deadline = time.monotonic() + PATIENCE
        while True:
            found = re.search(pattern, self.log.read_text())
            if found:
                return found
            is_running = self.process.poll() is None and time.monotonic() < deadline
            assert is_running, self.log.read_text()
            time.sleep(0.02)


@contextlib.contextmanager
def started(folder, command, modules, **environment):
    for name, code in {"parent": PARENT, **modules}.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(code))
    path = folder / "log"
    with open(path, "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=folder,
            stdout=log,
            stderr=log,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]),
                **environment,
            },
        )
    try:
        yield Program(process, path)
    finally:
        # It stops its own workers.
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
            process.wait()


def test_workers_of_gunicorn_preload_connect_for_themselves(server, tmp_path):
    pytest.importorskip("gunicorn")
    command = ["gunicorn", "--preload", "--workers=2", "--bind=127.0.0.1:0", "web:application"]
    with started(tmp_path, command, {"web": WEB}, TEST_URL=server.url) as program:
        url = program.wait_for(r"Listening at: (http://127\.0\.0\.1:\d+)")[1]
        for _ in range(4):
            with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
                assert answer.read().decode() == EXPECTED
    assert program.process.returncode == 0, program.log.read_text()


def test_workers_of_celery_prefork_connect_for_themselves(server, redis_server, tmp_path):
    celery = pytest.importorskip("celery")
    broker = f"{redis_server.url}/3"
    options = ["--pool=prefork", "--concurrency=2", "--without-gossip", "--without-mingle"]
    command = ["celery", "--app=tasks", "worker", *options]
    environment = {"TEST_URL": server.url, "TEST_BROKER": broker}
    with started(tmp_path, command, {"tasks": TASKS}, **environment) as program:
        with celery.Celery(broker=broker, backend=broker) as app:
            sent = [app.send_task("said") for _ in range(4)]
            for result in sent:
                assert result.get(timeout=PATIENCE) == EXPECTED, program.log.read_text()
    assert program.process.returncode == 0, program.log.read_text()
