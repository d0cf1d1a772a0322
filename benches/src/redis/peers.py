"""redis-py's Lock: `cycle PORT SECONDS` or `contended PORT SECONDS CLIENTS HOLD PAUSE`."""

import multiprocessing
import sys
import time

import redis


def lock(port):
    return redis.Redis(port=port).lock("bench:redis-py", timeout=60)


def cycle(port, seconds):
    held = lock(port)
    count, start = 0, time.perf_counter()
    while (now := time.perf_counter()) - start < seconds:
        held.acquire()
        held.release()
        count += 1
    print((now - start) / count * 1e9)


def client(port, seconds, hold, pause, gate, results):
    held = lock(port)
    held.redis.ping()
    gate.wait()
    count, longest, start = 0, 0.0, time.perf_counter()
    while (asked := time.perf_counter()) - start < seconds:
        got = held.acquire(blocking_timeout=start + seconds - asked)
        longest = max(longest, time.perf_counter() - asked)
        if got:
            if hold:
                time.sleep(hold)
            held.release()
            count += 1
        if pause:
            time.sleep(pause)
    results.put((count, longest))


def contended(port, seconds, clients, hold, pause):
    gate, results = multiprocessing.Barrier(clients), multiprocessing.SimpleQueue()
    arguments = (port, seconds, hold, pause, gate, results)
    all_of_them = [multiprocessing.Process(target=client, args=arguments) for _ in range(clients)]
    for one in all_of_them:
        one.start()
    said = [results.get() for _ in all_of_them]
    for one in all_of_them:
        one.join()
    counts = [count for count, _ in said]
    jain = sum(counts) ** 2 / (clients * sum(count * count for count in counts) or 1)
    print(sum(counts) / seconds, max(longest for _, longest in said) * 1e9, jain)


if __name__ == "__main__":
    port, seconds = int(sys.argv[2]), float(sys.argv[3])
    if sys.argv[1] == "cycle":
        cycle(port, seconds)
    else:
        contended(port, seconds, int(sys.argv[4]), float(sys.argv[5]), float(sys.argv[6]))
