"""The Python package compared with Python's own locks and with the locks of Redis: the rows.

Run: cargo xtask bench python [--smoke] [--record NAME]

That calls this program once for each cell, makes the tables and records them; benches/README.md
says how. A row is a line of JSON on stdout: contestant, round, and metrics with their units last.
Progress is on stderr. The program starts a Lockspan server and a Redis of its own, on loopback.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", help="the folder with the built library and the program lockspan")
    parser.add_argument("--cell", choices=CELLS, action="append", help="only this one of them")
    parser.add_argument("--rounds", type=int, help="rounds of each cell")
    parser.add_argument("--seconds", type=float, help="how long processes compete in a round")
    parser.add_argument("--quick", action="store_true", help="only see that it runs")
    return parser.parse_args()


def use_build(build):
    """Makes the library of this build importable, with the modules of the repository."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="lockspan-bench-"))
    shutil.copytree(HERE.parents[1] / "lockspan", folder / "lockspan", symlinks=True)
    library = folder / "lockspan" / "_lockspan.abi3.so"
    library.unlink(missing_ok=True)
    shutil.copy(pathlib.Path(build) / "liblockspan_python.so", library)
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = str(folder)
    os.environ["PATH"] = f"{pathlib.Path(build).resolve()}:{os.environ['PATH']}"
    return folder


class Redis:
    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""],
            stdout=subprocess.DEVNULL,
        )
        for _ in range(3000):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.01)
        raise RuntimeError("redis-server does not answer")

    def close(self):
        self.process.terminate()
        self.process.wait()


# One thread or task that takes and releases a lock.


def seconds_each(count, run):
    begin = time.perf_counter()
    run(count)
    return (time.perf_counter() - begin) / count


def row(contestant, number, **metrics):
    line = {"contestant": contestant, "round": number, "metrics": list(metrics.items())}
    print(json.dumps(line), flush=True)


def rounds(cell, number, contenders):
    """Rounds in which all take turns, so that a busy moment hits all of them. The contestant that
    was first in a round is last in the next."""
    names = list(contenders)
    for at in range(number):
        print(f"python {cell}: round {at + 1} of {number}", file=sys.stderr, flush=True)
        for name in names[at % len(names) :] + names[: at % len(names)]:
            row(name, at + 1, **contenders[name]())


def block(count, run):
    return lambda: {"time_ns": 1e9 * seconds_each(count, run)}


def with_block(lock):
    def run(count):
        for _ in range(count):
            with lock:
                pass

    return run


def with_record(record):
    def run(count):
        for _ in range(count):
            with record.write():
                pass

    return run


def async_block(make):
    def run(count):
        async def main():
            lock = make()
            for _ in range(count):
                async with lock:
                    pass

        asyncio.run(main())

    return run


def async_record(record):
    def run(count):
        async def main():
            for _ in range(count):
                async with record.write():
                    pass

        asyncio.run(main())

    return run


# Processes that hand a lock over to each other.


def lockspan_record(url):
    import lockspan

    # Without a stay each release goes to the next in line.
    record = lockspan.connect(url, stay=(0, 0), lease=30).record("hand", "over")
    return lambda: record.write()


def polling(port):
    import redis

    client = redis.Redis(port=port)
    return lambda: client.lock("polling", timeout=30)


def notified(port):
    import redis
    import redis_lock

    client = redis.Redis(port=port)
    return lambda: redis_lock.Lock(client, "notified", expire=30)


def hand_over(make, where, begin, seconds, results):
    lock = make(where)
    with lock():
        pass
    turns = []
    begin.wait()
    began = time.monotonic()
    end = began + seconds
    while True:
        asked = time.monotonic()
        with lock():
            got = time.monotonic()
            if got > end:
                break
            turns.append((asked, got, time.monotonic()))
    results.put((began, end, turns))


def processes(make, where, number, seconds):
    context = multiprocessing.get_context("spawn")
    begin, results = context.Barrier(number), context.Queue()
    workers = [
        context.Process(target=hand_over, args=(make, where, begin, seconds, results))
        for _ in range(number)
    ]
    for worker in workers:
        worker.start()
    found = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    # Only while all of them compete. One that is alone, before the others have begun or after they
    # have ended, has the record cached and takes it ten thousand times in a few milliseconds.
    first, last = max(began for began, _, _ in found), min(end for _, end, _ in found)
    return judged([[turn for turn in turns if first < turn[1] < last] for _, _, turns in found])


def judged(turns):
    """Hand-overs a second, how long one and the longest wait take, the share of waiters that were
    not overtaken, and Jain's index."""
    counts = [len(mine) for mine in turns]
    jain = sum(counts) ** 2 / (len(counts) * sum(count * count for count in counts) or 1)
    ordered = sorted((got, asked, left) for mine in turns for asked, got, left in mine)
    gaps = [later[0] - earlier[2] for earlier, later in zip(ordered, ordered[1:])]
    # Overtaken by somebody who had asked at least a millisecond later.
    out_of_order = latest = 0
    for _, asked, _ in ordered:
        out_of_order += asked < latest - 0.001
        latest = max(latest, asked)
    span = ordered[-1][0] - ordered[0][0] if len(ordered) > 1 else 1
    return {
        "ops_per_s": len(ordered) / span,
        "p50_ns": 1e9 * statistics.median(gaps) if gaps else 0,
        "p99_ns": 1e9 * sorted(gaps)[int(len(gaps) * 0.99)] if gaps else 0,
        "longest_ns": 1e9 * max((got - asked for got, asked, _ in ordered), default=0),
        "in_order": 1 - out_of_order / max(len(ordered), 1),
        "jain": jain,
    }


def cached(url, redis_port, chosen):
    import lockspan

    count = 2_000 if chosen.quick else 50_000
    record = lockspan.connect(url).record("bench", 1)
    contenders = {
        "with record.write()": with_record(record),
        "with threading.Lock()": with_block(threading.Lock()),
        "async with record.write()": async_record(record),
        "async with asyncio.Lock()": async_block(asyncio.Lock),
    }
    return 15, {name: block(count, run) for name, run in contenders.items()}


def uncached(url, redis_port, chosen):
    import redis

    import lockspan

    count = 200 if chosen.quick else 2_000
    record = lockspan.connect(url, caching=False).record("bench", 2)
    client = redis.Redis(port=redis_port)
    contenders = {
        "with record.write()": with_record(record),
        "redis-py": lambda count: [
            with_block(client.lock("bench", timeout=30))(1) for _ in range(count)
        ],
    }
    return 15, {name: block(count, run) for name, run in contenders.items()}


def handed_over(url, redis_port, chosen):
    seconds = chosen.seconds or (0.5 if chosen.quick else 5)
    return 3, {
        "Lockspan": lambda: processes(lockspan_record, url, 8, seconds),
        "python-redis-lock": lambda: processes(notified, redis_port, 8, seconds),
        "redis-py": lambda: processes(polling, redis_port, 8, seconds),
    }


# What is measured, by its name in benches/src/python.rs: each has its rounds and its contestants.
CELLS = {"cached": cached, "uncached": uncached, "hand-over": handed_over}


def main():
    chosen = arguments()
    folder = use_build(chosen.build)
    from lockspan.pytest import Server

    server, redis = Server(["--max-lease=60s"]), Redis()
    try:
        # By TCP, as redis-py.
        url = f"lockspan://127.0.0.1:{server.port}"
        for cell in chosen.cell or CELLS:
            number, contenders = CELLS[cell](url, redis.port, chosen)
            rounds(cell, chosen.rounds or (1 if chosen.quick else number), contenders)
    finally:
        server.close()
        redis.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
