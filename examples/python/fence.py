"""A store that remembers the highest token refuses a write that comes too late.

Run: python examples/python/fence.py [URL]        defaults to memory:
"""

import sys

import lockspan

url = sys.argv[1] if len(sys.argv) > 1 else "memory:"


class Store:
    """What an SQL database does with `UPDATE … WHERE fence <= :token`."""

    def __init__(self):
        self.value, self.fence = 0, 0

    def write(self, value, fence):
        if fence < self.fence:
            return "refused"
        self.value, self.fence = value, fence
        return "done"


store = Store()
slow, fast = lockspan.connect(url), lockspan.connect(url)

held = slow.record("account", 7).write().acquire()
late = held.token
held.lost.add_callback(lambda: None)  # In a program: stop the work.
slow.close()  # As if it had been suspended for longer than its lease.
try:
    held.check()
except lockspan.Lost as why:
    print("lost:", why)

with fast.record("account", 7).write(timeout=30) as now:
    print("the next one:", store.write(50, now.token))
print("the late one:", store.write(10, late))
print("the store has:", store.value)
