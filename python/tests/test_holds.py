"""What a thread does with records, on every kind of service."""

import threading
import uuid
from datetime import timedelta

import pytest

import lockspan


def test_a_writer_has_a_token_and_releases_at_the_end_of_its_block(record):
    with record.write(timeout=5) as held:
        assert held.held and held.mode == "write" and held.is_valid()
        assert 0 < held.valid_for <= 5
        first = held.token
        held.check()
    assert not held.held
    with pytest.raises(lockspan.NotHeld):
        held.check()
    with record.write() as again:
        assert again.token >= first


def test_tokens_of_two_processes_rise(record, other):
    tokens = []
    for _ in range(3):
        for one in (record, other):
            with one.write(timeout=30) as held:
                tokens.append(held.token)
    assert tokens == sorted(set(tokens))


def test_readers_share_and_writers_do_not(record, other):
    with record.read(timeout=30) as one, other.read(timeout=30) as two:
        assert one.mode == two.mode == "read"
        with other.try_write() as held:
            assert held is None
    with other.try_write() as held:
        assert held is not None and held.mode == "write"


def test_a_timeout_names_the_holder_and_the_record(record, other, url):
    with other.write(timeout=30, note="nightly import"):
        with pytest.raises(lockspan.Timeout) as late:
            record.write(timeout=0.3).acquire()
    why = late.value
    assert isinstance(why, TimeoutError) and why.is_retryable and why.connected
    assert why.record == record.name and why.waited == pytest.approx(0.3)
    if not url.startswith("redis"):
        holder = why.holders[0]
        assert (holder.label, holder.note, holder.mode) == ("the other one", "nightly import", "write")
        assert "held by the other one" in str(why)


def test_a_thread_waits_for_another(record):
    held = record.write().acquire()
    got = []

    def wait():
        with record.write(timeout=30) as mine:
            got.append(mine.token)

    waiter = threading.Thread(target=wait)
    waiter.start()
    held.release()
    waiter.join()
    assert len(got) == 1


@pytest.mark.parametrize("first", ["read", "write"])
def test_a_thread_that_would_wait_for_itself_is_refused(record, first):
    with getattr(record, first)(timeout=30):
        with pytest.raises(lockspan.Deadlock, match="this thread holds"):
            record.write().acquire()
        with pytest.raises(lockspan.Deadlock):
            record.write(timeout=5).acquire()
    # Another handle of the same record is the same record.
    with record.write(timeout=30):
        pass


def test_a_detached_hold_belongs_to_no_thread(record):
    held = record.write().acquire().detach()
    releaser = threading.Thread(target=lambda: (release.wait(), held.release()))
    release = threading.Event()
    releaser.start()
    with pytest.raises(lockspan.Timeout):
        record.write(timeout=0.05).acquire()
    release.set()
    with record.write(timeout=30):
        pass
    releaser.join()


def test_upgrade_and_downgrade(record):
    with record.read() as held:
        assert held.upgrade(timeout=30) is held
        assert held.mode == "write" and held.is_valid()
        assert held.downgrade().mode == "read"
        assert not held.lost.is_set()
        held.upgrade()
        assert held.mode == "write"
    with record.try_write() as held:
        assert held is not None


def test_an_upgrade_that_fails_keeps_the_read(record, other):
    with record.read(timeout=30) as held, other.read(timeout=30):
        with pytest.raises(lockspan.Timeout):
            held.upgrade(timeout=0.05)
        assert held.mode == "read" and held.is_valid()
        assert not held.lost.is_set()


def test_an_exception_releases(record, other):
    with pytest.raises(ZeroDivisionError):
        with record.write():
            1 / 0
    with other.write(timeout=30):
        pass


def test_a_dropped_hold_is_released(record, other):
    record.write().acquire()
    with other.write(timeout=30):
        pass


def test_a_released_hold_can_be_acquired_again_and_an_open_one_not(record):
    hold = record.write()
    for _ in range(2):
        with hold as held:
            assert held is hold
            with pytest.raises(RuntimeError, match="already"):
                hold.acquire()
    with pytest.raises(lockspan.NotHeld):
        hold.release()


def test_an_early_release_ends_the_block_quietly(record):
    with record.write() as held:
        held.release()
        with record.write(timeout=30):
            pass


def test_closing_loses_what_is_held(url):
    locks = lockspan.connect(url)
    record = locks.record("test", "closing")
    held = record.write(timeout=30).acquire()
    called = threading.Event()
    held.lost.add_callback(called.set)
    locks.close()
    assert called.wait(30)
    assert held.lost.is_set() and held.lost.wait(0) is True
    with pytest.raises(lockspan.Lost):
        held.check()
    with pytest.raises(lockspan.Closed):
        record.read().acquire()
    held.release()
    assert held.record == record


def test_the_lost_event_of_a_released_hold_is_never_set(record):
    with record.write() as held:
        lost = held.lost
        lost.add_callback(lambda: pytest.fail("it was not lost"))
        assert lost.wait(timeout=0.01) is False
    assert lost.wait() is False and not lost.is_set()


def test_owners_that_wait_for_each_other_are_refused(url):
    if url.startswith("redis"):
        pytest.skip("on Redis deadlocks between owners of several processes are not detected")
    with lockspan.connect(url) as locks:
        one, two = locks.as_owner(71), locks.as_owner(72)
        assert one.owner == 71
        with one.record("owned", 1).write(), two.record("owned", 2).write():
            refused = []

            def cross():
                try:
                    with one.record("owned", 2).write(timeout=30):
                        pass
                except lockspan.Deadlock as why:
                    refused.append(why)

            waiter = threading.Thread(target=cross)
            waiter.start()
            try:
                with two.record("owned", 1).write(timeout=30):
                    pass
            except lockspan.Deadlock as why:
                refused.append(why)
                two.record("owned", 2)
        waiter.join()
        assert len(refused) == 1 and sorted(refused[0].cycle) == [71, 72]


def test_ids_are_text_bytes_numbers_and_uuids():
    locks = lockspan.connect("memory:ids")
    of = locks.record
    assert of("a", 42) == of("a", "42") == of("a", b"42") == of("a:42") == of(b"a", 42)
    assert of("a", 2**70).name == f"a:{2**70}" and of("a", -7).name == "a:-7"
    name = uuid.uuid4()
    assert of("a", name) == of("a", str(name)) and hash(of("a", name)) == hash(of("a", str(name)))
    assert of("a", b"\xff\x00").name_bytes == b"a:\xff\x00"
    assert of("a", "1") != of("a", "2")
    for bad in (True, 1.5, None, ("a",), [1]):
        if bad is not None:
            with pytest.raises(TypeError, match="str, bytes, int or uuid.UUID"):
                of("a", bad)
    for bad in ("a", ":1", "a:", "a" * 600 + ":1"):
        with pytest.raises(lockspan.BadName):
            of(bad)


def test_bad_calls_say_what_is_wrong():
    locks = lockspan.connect("memory:bad")
    record = locks.record("a", 1)
    with pytest.raises(ValueError, match="negative"):
        record.write(timeout=-1)
    with pytest.raises(TypeError, match="seconds or a timedelta"):
        record.write(timeout="5")
    with pytest.raises(lockspan.BadNote):
        record.write(note="\n")
    with pytest.raises(TypeError, match="leese"):
        lockspan.connect("memory:", leese=5)
    with pytest.raises(TypeError, match="'lease'"):
        lockspan.connect("memory:", lease="5")
    with pytest.raises(lockspan.BadOption, match="10 ms"):
        lockspan.connect("memory:", lease=0.001)
    with pytest.raises(lockspan.BadUrl):
        lockspan.connect("ftp://host")
    with pytest.raises(lockspan.Unreachable) as why:
        lockspan.connect("lockspan://127.0.0.1:1")
    assert isinstance(why.value, ConnectionError) and isinstance(why.value, lockspan.Error)


def test_all_options_are_taken():
    options = dict(
        lease=timedelta(seconds=5), margin=0.1, stay=(4, 0.001), caching=False, idle=1,
        max_cached=10, try_for=0.05, name="n", label="l", user="u", password="p",
        hash_tag=True, plain=False, recheck=2, poll=0.1, patience=1,
    )
    with lockspan.connect("memory:options", **options) as locks:
        with locks.record("a", 1).write(timeout=timedelta(seconds=5)):
            pass
        assert locks.stats()["grants"] >= 0 and not locks.was_ended_by_operator
        locks.give_back_idle()


def test_the_hierarchy_mirrors_the_clients_errors():
    for name in (
        "Timeout Deadlock UpgradeConflict Lost Refused NoSession Trouble TooManyRecords BadNote "
        "Closed Forked"
    ).split():
        assert issubclass(getattr(lockspan, name), lockspan.LockError), name
    for name in "BadUrl BadOption Unreachable NotLockspan TlsError LoginError".split():
        assert issubclass(getattr(lockspan, name), lockspan.ConnectError), name
    assert set(lockspan.__all__) <= set(dir(lockspan))


def test_a_second_read_is_allowed_until_a_writer_waits(record, other):
    with record.read(timeout=30):
        writer = threading.Thread(target=lambda: other.write(timeout=60).acquire().release())
        with record.read(timeout=30):
            pass
        writer.start()
        # Sooner or later the writer is in the queue; then the second read would wait for the first.
        with pytest.raises(lockspan.Deadlock):
            for _ in range(1_000_000):
                with record.read(timeout=30):
                    pass
    writer.join()


def test_a_dropped_hold_is_released_even_if_it_is_watched(record, other):
    held = record.write().acquire()
    lost = held.lost
    lost.add_callback(lambda: pytest.fail("it was not lost"))
    del held
    with other.write(timeout=30):
        pass
    assert lost.wait(timeout=30) is False


def test_an_upgrade_that_would_wait_for_the_same_thread_is_refused(record, other):
    with record.read(timeout=30) as first, record.read(timeout=30) as second:
        for held in (first, second):
            with pytest.raises(lockspan.Deadlock, match="another hold of"):
                held.upgrade(timeout=30)
            assert held.mode == "read" and held.is_valid()
        first.release()
        assert second.upgrade(timeout=30).mode == "write"
    with other.write(timeout=30):
        pass


def test_an_attempt_is_entered_once_at_a_time(record, other):
    attempt = record.try_write()
    for _ in range(2):
        with attempt as held:
            assert held.mode == "write"
            with pytest.raises(RuntimeError, match="in use already"):
                attempt.__enter__()
        assert not held.held
    with other.write(timeout=30):
        with attempt as none:
            assert none is None
            with pytest.raises(RuntimeError, match="in use already"):
                attempt.__enter__()
    with attempt as held:
        assert held is not None
