"""redis-py against a server on the port that is given: the commands of docs/wire.md.

Each reply is asserted; at the end it prints OK.
"""

import sys
import threading
import time

import redis

PORT = int(sys.argv[1])
PATIENCE = 20


def as_map(reply):
    """A map is a dict in RESP3 and a flat list in RESP2."""
    if isinstance(reply, dict):
        return reply
    return dict(zip(reply[::2], reply[1::2], strict=True))


def refused(word, ask, *command):
    try:
        reply = ask(*command)
    except redis.ResponseError as error:
        # redis-py takes the word ERR away.
        assert str(error).startswith(word), f"{command}: {error}"
    else:
        raise AssertionError(f"{command} was not refused: {reply}")


def heard(subscription, kind):
    """The next message, which is of that kind."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        message = subscription.get_message(timeout=1)
        if message is not None:
            assert message["type"] == kind, message
            return message
    raise AssertionError(f"no {kind} came")


def converse(protocol):
    def connect():
        return redis.Redis(
            host="127.0.0.1",
            port=PORT,
            protocol=protocol,
            decode_responses=True,
            socket_timeout=PATIENCE,
        )

    client = connect()
    ask = client.execute_command

    # What the library asks by itself, and what its users ask through it.
    assert client.ping() is True
    assert client.echo("a b") == "a b"
    assert client.info("server")["redis_mode"] == "standalone"
    assert client.client_setname(f"resp{protocol}") is True
    me = client.client_info()
    assert (me["name"], me["lib-name"]) == (f"resp{protocol}", "redis-py"), me
    assert int(me["resp"]) == protocol, me
    assert client.client_id() == int(me["id"])
    assert "ls.acquire" in client.command_list()
    assert client.command()["ls.keep"]["arity"] == 2

    alice = as_map(ask("LS.OPEN", "LEASE", 30000))
    assert alice["lease-ms"] == 30000 and alice["handoff"] == "direct", alice
    term = as_map(alice["terms"][0])
    assert term == {"groups": "0-255", "epoch": alice["epoch"]}, term
    bob = as_map(ask("LS.OPEN", "LEASE", 30000))
    ids = alice["id"], bob["id"]
    epoch, alice, bob = alice["epoch"], alice["session"], bob["session"]
    assert 0 < ask("LS.KEEP", alice) <= 30000

    # Events come on a connection of their own.
    events = client.pubsub()
    events.subscribe(f"lockspan:{alice}")
    assert heard(events, "subscribe")["data"] == 1

    # Acquire, wait in line, cancel, release.
    record = f"py:{protocol}"
    granted = as_map(ask("LS.ACQUIRE", alice, record, "W"))
    assert granted["status"] == "granted" and granted["mode"] == "W", granted
    queued = as_map(ask("LS.ACQUIRE", bob, record, "W"))
    assert queued["status"] == "queued", queued
    revoke = heard(events, "message")
    assert revoke["channel"] == f"lockspan:{alice}", revoke
    kind, seq, wanted, _, name = revoke["data"].split(" ", 4)
    assert (kind, seq, wanted, name) == ("revoke", str(granted["seq"]), "W", record), revoke
    looked = as_map(ask("LS.INSPECT", record))
    assert looked["state"] == "alone-wanted", looked
    assert as_map(looked["holders"][0])["session"] == ids[0], looked
    assert as_map(looked["waiters"][0])["session"] == ids[1], looked
    assert ask("LS.CANCEL", bob, record, queued["seq"]) == 1
    assert ask("LS.ACQUIRE", bob, record, "W", "WAIT", 50) is None
    assert ask("LS.RELEASE", alice, record, granted["seq"]) == 1
    assert ask("LS.RELEASE", alice, record, granted["seq"]) == 0
    assert as_map(ask("LS.INSPECT", record))["state"] == "free"

    # A library's way to see whether a subscription is alive, and the end of one. While text is
    # decoded redis-py can't read this reply in RESP3, from Redis neither.
    if protocol == 2:
        for text in ("", "hello"):
            events.ping(text or None)
            while (pong := events.get_message(timeout=PATIENCE))["type"] == "message":
                assert pong["data"].startswith(("revoke ", "keep ", "released ")), pong
            assert (pong["type"], pong["data"]) == ("pong", text), pong
    events.unsubscribe()
    while (end := events.get_message(timeout=PATIENCE))["type"] == "message":
        assert end["data"].startswith(("revoke ", "keep ", "released ")), end
    assert (end["type"], end["data"]) == ("unsubscribe", 0), end
    events.close()

    # Convert up and down; keep reading after a release.
    read = as_map(ask("LS.ACQUIRE", alice, record, "R"))
    write = as_map(ask("LS.CONVERT", alice, record, read["seq"], "W"))
    assert (write["status"], write["mode"]) == ("granted", "W"), write
    assert write["token"] > granted["token"], (granted, write)
    read = as_map(ask("LS.CONVERT", alice, record, write["seq"], "R"))
    assert (read["mode"], read["token"]) == ("R", write["token"]), read
    assert ask("LS.RELEASE", alice, record, read["seq"]) == 1
    refused("NOTHELD", ask, "LS.CONVERT", alice, record, read["seq"], "W")
    write = as_map(ask("LS.ACQUIRE", alice, record, "W", "SEQ", 1000))
    assert write["seq"] == 1000, write
    assert ask("LS.RELEASE", alice, record, 1000, "KEEP", 1001) == 1
    assert as_map(ask("LS.INSPECT", record))["state"] == "shared"
    assert ask("LS.RELEASE", alice, record, 1001) == 1

    # WAIT blocks one connection until another releases.
    write = as_map(ask("LS.ACQUIRE", alice, record, "W"))
    answers = []

    def wait():
        other = connect()
        answer = other.execute_command("LS.ACQUIRE", bob, record, "W", "WAIT", 1000 * PATIENCE)
        answers.append(as_map(answer))
        other.close()

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    end = time.monotonic() + PATIENCE
    while not as_map(ask("LS.INSPECT", record))["waiters"]:
        assert time.monotonic() < end, "the waiter is not in line"
        time.sleep(0.005)
    assert not answers, answers
    assert ask("LS.RELEASE", alice, record, write["seq"]) == 1
    waiter.join(PATIENCE)
    assert answers and answers[0]["status"] == "granted", answers
    assert answers[0]["token"] > write["token"], answers

    # Several commands in one packet.
    together = client.pipeline(transaction=False)
    together.execute_command("LS.KEEP", alice)
    together.execute_command("LS.KEEP", 1)
    together.execute_command("LS.RELEASE", bob, record, answers[0]["seq"])
    kept, unknown, released = together.execute(raise_on_error=False)
    assert 0 < kept <= 30000 and released == 1, (kept, released)
    assert str(unknown).startswith("NOSESSION"), unknown

    # Nobody was asked to re-assert, so nobody may.
    refused("REFUSED", ask, "LS.REASSERT", alice, record, epoch, 2000, "R", "WAITING")

    slots = [as_map(part) for part in ask("LS.SLOTS")]
    assert sum(part["last"] - part["first"] + 1 for part in slots) == 16384, slots
    assert {part["address"] for part in slots} == {f"127.0.0.1:{PORT}"}, slots
    held = as_map(ask("LS.ACQUIRE", alice, record, "R"))
    cursor, found = ask("LS.LOCKS", 0, "MATCH", "py:*")
    assert (int(cursor), [as_map(lock)["record"] for lock in found]) == (0, [record]), found
    sessions = {as_map(one)["session"] for one in ask("LS.SESSIONS")}
    assert sessions == set(ids), sessions

    refused("LS.ACQUIRE: mode", ask, "LS.ACQUIRE", alice, record, "x")
    refused("LIMIT", ask, "LS.OPEN", "LEASE", 1)
    refused("unknown command", ask, "GET", record)
    if protocol == 2:
        refused("", ask, "LS.EVENTS", alice, "push")

    # The end of a session frees what is in it.
    assert ask("LS.CLOSE", alice) == "OK"
    refused("NOSESSION", ask, "LS.RELEASE", alice, record, held["seq"])
    assert as_map(ask("LS.INSPECT", record))["state"] == "free"
    assert ask("LS.CLOSE", bob) == "OK"
    assert ask("LS.SESSIONS") == []
    client.close()


for version in (2, 3):
    converse(version)
print("OK")
