"""Threads and asyncio tasks wait in one queue, with the same objects.

Run: python examples/python/tasks_and_threads.py [URL]        defaults to memory:
"""

import asyncio
import sys
import threading

import lockspan

url = sys.argv[1] if len(sys.argv) > 1 else "memory:"
account = lockspan.connect(url).record("account", 7)
balance = 0


def thread():
    global balance
    for _ in range(100):
        with account.write(timeout=60):
            balance += 1


async def task():
    global balance
    for _ in range(100):
        async with account.write(timeout=60):
            before = balance
            await asyncio.sleep(0)  # Another task would change the balance here, without the lock.
            balance = before + 1


async def tasks():
    await asyncio.gather(*(task() for _ in range(3)))


threads = [threading.Thread(target=thread) for _ in range(3)]
for one in threads:
    one.start()
asyncio.run(tasks())
for one in threads:
    one.join()
print("balance:", balance)


async def waits_for_itself():
    async with account.write():
        try:
            async with account.read():
                print("unexpected")
        except lockspan.Deadlock:
            print("a task that would wait for itself is refused")


asyncio.run(waits_for_itself())
