"""Redis lock libraries: ours as redis-py's `lock_class`, and others that are pointed at our server."""

import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading

import pytest
import redis
import redis.asyncio
import redis.exceptions
import redis.sentinel

import lockspan.redis
from conftest import PATIENCE

# Tests of redis-py that can't hold for a lock that is not a key of Redis with a time to live.
NOT_APPLICABLE = {
    "reads the key of the lock, its value or its time to live": [
        "test_lock",
        "test_lock_token",
        "test_lock_token_thread_local_false",
        "test_timeout",
        "test_float_timeout",
        "test_context_manager",
        "test_extend_lock",
        "test_extend_lock_replace_ttl",
        "test_extend_lock_float",
        "test_reacquire_lock",
    ],
    "overwrites the key of the lock by hand": [
        "test_context_manager_raises_when_locked_not_acquired",
        "test_releasing_lock_no_longer_owned_raises_error",
        "test_extending_lock_no_longer_owned_raises_error",
        "test_reacquiring_lock_no_longer_owned_raises_error",
        "test_context_manager_reacquiring_lock_no_longer_owned_raises_error",
        "test_lock_error_gives_correct_lock_name",
    ],
    "counts how often a waiter polls": [
        "test_blocking_timeout",
        "test_context_manager_blocking_timeout",
    ],
}

# A plugin of pytest for redis-py's tests: their lock class is ours.
PLUGIN = """
import os
import lockspan.redis

LEFT_OUT = os.environ["LEFT_OUT"].split()

def pytest_collection_modifyitems(config, items):
    for item in items:
        item.module.Lock = lockspan.redis.Lock
    left_out = [item for item in items if item.name in LEFT_OUT]
    assert len(left_out) == len(LEFT_OUT), "a test that is not applicable is gone"
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
"""


@pytest.fixture
def client(redis_server):
    with redis.Redis(port=redis_server.port) as client:
        yield client


@pytest.fixture(params=["its own Redis", "a Lockspan server"])
def lock_class(request, server):
    if request.param == "its own Redis":
        return lockspan.redis.Lock
    return lockspan.redis.Lock.on(server.url)


def source_package():
    """The source package of redis-py, which has its tests. pip fetches it once."""
    folder = pathlib.Path(sys.prefix) / f"redis-py-{redis.__version__}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=sys.prefix) as scratch:
            fetched = subprocess.run(
                [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
                + ["--no-binary", "redis", "--dest", scratch, f"redis=={redis.__version__}"],
                capture_output=True,
                text=True,
            )
            assert fetched.returncode == 0, (
                "redis-py's source package, which has its tests, can't be fetched from PyPI (this "
                f"needs the network once): {fetched.stderr[-300:]}"
            )
            with tarfile.open(next(pathlib.Path(scratch).glob("redis-*.tar.gz"))) as package:
                package.extractall(scratch)
            next(path for path in pathlib.Path(scratch).glob("redis-*") if path.is_dir()).rename(
                folder
            )
    return folder


def test_lock_tests_of_redis_py_pass_on_our_lock_class(redis_server, tmp_path):
    (tmp_path / "our_lock_class.py").write_text(PLUGIN)
    left_out = [name for names in NOT_APPLICABLE.values() for name in names]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "our_lock_class", "tests/test_lock.py"]
        + ["-p", "no:cacheprovider", "-W", "ignore", "-rs", f"--redis-url={redis_server.url}/0"],
        cwd=source_package(),
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE,
        env={
            **os.environ,
            "LEFT_OUT": " ".join(left_out),
            "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
        },
    )
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said
    assert f"14 passed, {len(left_out)} deselected" in said, said


def test_call_sites_of_redis_py_stay(client, lock_class):
    def lock(**options):
        return client.lock("invoice", lock_class=lock_class, **options)

    with lock(timeout=10, blocking_timeout=30) as held:
        assert held.owned() and held.locked() and held.fence > 0
        assert not lock().acquire(blocking=False)
        assert not lock().acquire(blocking_timeout=0.05)
        assert held.extend(5) and held.reacquire()
    assert not held.owned() and not held.locked()
    with pytest.raises(redis.exceptions.LockError):
        held.release()


def test_a_lock_ends_after_its_timeout_and_its_holder_is_told(client, lock_class):
    first = client.lock("short", timeout=0.05, lock_class=lock_class)
    assert first.acquire()
    # The same thread waits for the end of its own lock, as with redis-py.
    second = client.lock("short", lock_class=lock_class)
    assert second.acquire(blocking_timeout=30)
    assert not first.owned() and second.owned()
    with pytest.raises(redis.exceptions.LockNotOwnedError):
        first.release()
    second.release()


def test_waiting_threads_are_woken_and_exclude_each_other(client, lock_class):
    inside = worst = 0

    def work():
        nonlocal inside, worst
        for _ in range(10):
            with client.lock("busy", timeout=60, lock_class=lock_class):
                inside += 1
                worst = max(worst, inside)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert worst == 1


def test_another_thread_releases_only_a_lock_that_is_not_thread_local(client, lock_class):
    def in_thread(call):
        said = []

        def run():
            try:
                said.append(call())
            except redis.exceptions.LockError as why:
                said.append(type(why).__name__)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return said[0]

    local = client.lock("local", lock_class=lock_class)
    assert local.acquire() and in_thread(local.release) == "LockError"
    local.release()
    shared = client.lock("local", lock_class=lock_class, thread_local=False)
    assert shared.acquire() and in_thread(shared.release) is None


def test_a_timeout_of_zero_is_none(client, lock_class):
    lock = client.lock("zero", timeout=0, lock_class=lock_class)
    with lock:
        assert lock.owned()


def test_a_negative_blocking_timeout_tries_once(client, lock_class):
    with client.lock("negative", blocking_timeout=-1, lock_class=lock_class):
        other = client.lock("negative", lock_class=lock_class)
        assert not other.acquire(blocking_timeout=-1)


def test_clients_whose_redis_has_no_fixed_address_are_refused(monkeypatch):
    monkeypatch.delenv("LOCKSPAN_URL", raising=False)
    sentinel = redis.sentinel.Sentinel([("127.0.0.1", 1)]).master_for("main")
    with pytest.raises(ValueError, match="by Sentinel: set LOCKSPAN_URL"):
        sentinel.lock("invoice", lock_class=lockspan.redis.Lock).acquire()
    by_file = redis.Redis(unix_socket_path="/nowhere")
    with pytest.raises(ValueError, match="by its socket file: set LOCKSPAN_URL"):
        by_file.lock("invoice", lock_class=lockspan.redis.Lock).acquire()
    cluster = object.__new__(redis.RedisCluster)
    with pytest.raises(ValueError, match="of a cluster: set LOCKSPAN_URL"):
        lockspan.redis.Lock(cluster, "invoice").acquire()
    with pytest.raises(TypeError, match="with redis.asyncio use lockspan itself"):
        lockspan.redis.Lock(redis.asyncio.Redis(), "invoice")


def test_released_and_extended_locks_are_not_kept_until_their_timeout(client, lock_class):
    for _ in range(500):
        with client.lock("kept", timeout=600, lock_class=lock_class) as lock:
            assert lock.extend(5)
    assert len(lockspan.redis._expiry.due) < 200


def test_a_child_of_a_fork_does_not_wait_for_a_thread_of_its_parent(client, lock_class):
    lock = client.lock("forked", timeout=600, lock_class=lock_class)
    assert lock.acquire()
    # As the thread that ends locks does, in the moment of the fork.
    with lock.local.held.lock:
        child = os.fork()
        if child == 0:
            signal.alarm(PATIENCE)
            try:
                ok = not lock.owned()
                for call in (lock.release, lambda: lock.extend(1), lock.reacquire):
                    try:
                        call()
                        ok = False
                    except redis.exceptions.LockError:
                        pass
            finally:
                os._exit(0 if ok else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert lock.owned()
    lock.release()


WHAT_IT_IS = "this is a Lockspan server, which stores no keys"


def test_libraries_of_others_are_told_what_the_server_is(server):
    client = redis.Redis(port=server.port)
    with pytest.raises(redis.exceptions.ResponseError, match=WHAT_IT_IS) as why:
        client.lock("invoice", timeout=10).acquire(blocking=False)
    assert "package lockspan" in str(why.value)
    for command in (
        ["SET", "a", "b", "NX"],
        ["GET", "a"],
        ["EVAL", "return 1", "0"],
        ["EVALSHA", "0" * 40, "0"],
        ["DEL", "a"],
        ["EXISTS", "a"],
        ["PTTL", "a"],
    ):
        with pytest.raises(redis.exceptions.ResponseError, match=WHAT_IT_IS):
            client.execute_command(*command)


def test_python_redis_lock_does_not_take_the_server_for_a_busy_redis(server):
    redis_lock = pytest.importorskip("redis_lock")
    client = redis.Redis(port=server.port)
    with pytest.raises(redis.exceptions.ResponseError, match=WHAT_IT_IS):
        redis_lock.Lock(client, "invoice", expire=10).acquire(blocking=False)


REPOSITORY = pathlib.Path(__file__).parents[2]
EXAMPLES = sorted((REPOSITORY / "examples/python").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("service", ["memory:", "server"])
def test_each_example_prints_what_it_promises(example, service, server):
    if example.stem == "celery_task":
        pytest.importorskip("celery")
    if example.stem == "django_view":
        pytest.importorskip("django")
    promised = (example.parent / "expected" / f"{example.stem}.txt").read_text()
    ran = subprocess.run(
        [sys.executable, str(example), server.url if service == "server" else service],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (ran.stdout, ran.returncode) == (promised, 0), ran.stderr


def test_there_are_five_examples():
    assert len(EXAMPLES) == 5 and len(list((REPOSITORY / "examples/python/expected").iterdir())) == 5
