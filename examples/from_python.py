"""Locks of a Lockspan server from Python, with redis-py and nothing else.

Run: pip install redis; python3 examples/from_python.py [PORT]

A client that can't take pushes uses the blocking form: WAIT answers when the record is granted.
"""

import sys
import threading

import redis

port = int(sys.argv[1]) if len(sys.argv) > 1 else 7420


def connect():
    return redis.Redis(port=port, protocol=3, decode_responses=True)


def text(reply):
    """A reply's map with words as keys, whatever redis-py made of it."""
    return {str(key): value for key, value in reply.items()}


alice, bob = connect(), connect()
session = text(alice.execute_command("LS.OPEN", "LEASE", 10000))["session"]
other = text(bob.execute_command("LS.OPEN", "LEASE", 10000))["session"]

held = text(alice.execute_command("LS.ACQUIRE", session, "invoice:42", "W", "WAIT", 5000))
print("alice:", held["status"], "to write")

nothing = bob.execute_command("LS.ACQUIRE", other, "invoice:42", "W", "WAIT", 100)
print("bob, after 100 ms:", nothing)

answers = []


def wait():
    reply = bob.execute_command("LS.ACQUIRE", other, "invoice:42", "R", "WAIT", 5000)
    answers.append(text(reply)["status"])


waiting = threading.Thread(target=wait)
waiting.start()
print("alice keeps her lease:", alice.execute_command("LS.KEEP", session) == 10000)
print("alice releases:", alice.execute_command("LS.RELEASE", session, "invoice:42", held["seq"]))
waiting.join()
print("bob, who waits:", *answers)

for client, number in ((alice, session), (bob, other)):
    client.execute_command("LS.CLOSE", number)
print("both have closed their sessions")
