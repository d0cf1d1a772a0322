"""Two connections share a record: it stays cached where it was used, until the other wants it.

Run: python examples/python/first_lock.py [URL]        defaults to memory:
"""

import sys

import lockspan

url = sys.argv[1] if len(sys.argv) > 1 else "memory:"
locks, other = lockspan.connect(url), lockspan.connect(url)

invoice = locks.record("invoice", 42)
with invoice.write(timeout=5) as held:
    first = held.token
    print("held:", held.record.name, "for", held.mode)

asked = locks.stats()["acquires"]
with invoice.write() as held:
    print("again, from the cache:", held.token == first, "messages:", locks.stats()["acquires"] - asked)

with other.record("invoice", 42).write(timeout=5) as held:
    print("the other has a higher token:", held.token > first)
    with invoice.try_read() as reading:
        print("we, meanwhile:", "refused" if reading is None else "unexpected")
with invoice.read(timeout=5) as held:
    print("now we read:", held.is_valid())
