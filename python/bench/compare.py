"""The Python package compared with Python's own locks and with the locks of Redis, in one run.

Run: cargo xtask bench python [--quick] [--record NAME]

It starts a Lockspan server and a Redis of its own, on loopback. `--record` writes the tables to
benches/results/python/DATE-NAME.
"""

import argparse
import asyncio
import datetime
import multiprocessing
import os
import pathlib
import platform
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
    parser.add_argument("--quick", action="store_true", help="only see that it runs")
    parser.add_argument("--record", metavar="NAME", help="keep the tables, under this name")
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


def rounds(number, count, contenders):
    """The median of each, in rounds that take turns, so that a busy moment hits all of them."""
    taken = {name: [] for name in contenders}
    for _ in range(number):
        for name, run in contenders.items():
            taken[name].append(seconds_each(count, run))
    return {name: statistics.median(times) for name, times in taken.items()}


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
    """Hand-overs a second, how long one takes, how many waiters were overtaken, and Jain's index."""
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
        "per second": len(ordered) / span,
        "p50": statistics.median(gaps) if gaps else 0,
        "p99": sorted(gaps)[int(len(gaps) * 0.99)] if gaps else 0,
        "in order": 1 - out_of_order / max(len(ordered), 1),
        "jain": jain,
    }


def micro(seconds):
    return f"{seconds * 1e6:.2f} µs"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def at_most(what, value, target):
    return [what, f"{value:.4g}", f"at most {target}", "met" if value <= target else "missed"]


def at_least(what, value, target):
    return [what, f"{value:.4g}", f"at least {target}", "met" if value >= target else "missed"]


def compare(server, redis_port, quick):
    import redis

    import lockspan

    text = []
    # By TCP, as redis-py.
    url = f"lockspan://127.0.0.1:{server.port}"
    number, count = (2, 2_000) if quick else (15, 50_000)
    cached = lockspan.connect(url).record("bench", 1)
    times = rounds(
        number,
        count,
        {
            "`with record.write()`, cached": with_record(cached),
            "`with threading.Lock()`": with_block(threading.Lock()),
            "`async with record.write()`, cached": async_record(cached),
            "`async with asyncio.Lock()`": async_block(asyncio.Lock),
        },
    )
    ours, theirs, ours_async, theirs_async = times.values()
    verdicts = [
        at_most("`with`, cached, to `threading.Lock`", ours / theirs, 2.5),
        at_most("`async with`, cached, to `asyncio.Lock`", ours_async / theirs_async, 2.5),
    ]
    peers = [theirs, theirs, theirs_async, theirs_async]
    rows = [
        [name, micro(taken), f"{taken / peer:.2f}"]
        for (name, taken), peer in zip(times.items(), peers)
    ]
    text += ["## Cached, in one process", "", "Median of a block that takes and releases the lock."]
    text += ["", table(["lock", "time", "to Python's own"], rows), ""]

    uncached = lockspan.connect(url, caching=False).record("bench", 2)
    client = redis.Redis(port=redis_port)
    times = rounds(
        number,
        200 if quick else 2_000,
        {
            "`with record.write()`, not cached": with_record(uncached),
            "redis-py's `with r.lock(…)`": lambda count: [
                with_block(client.lock("bench", timeout=30))(1) for _ in range(count)
            ],
        },
    )
    ours, theirs = times.values()
    verdicts.append(at_least("not cached, times as fast as redis-py", theirs / ours, 3))
    rows = [[name, micro(taken), f"{theirs / taken:.2f}"] for name, taken in times.items()]
    text += ["## Not cached: each turn asks the server", ""]
    text += [table(["lock", "time", "times as fast as redis-py"], rows), ""]

    seconds = 0.5 if quick else 5
    found = {
        "Lockspan": processes(lockspan_record, url, 8, seconds),
        "python-redis-lock": processes(notified, redis_port, 8, seconds),
        "redis-py's `Lock`": processes(polling, redis_port, 8, seconds),
    }
    rows = [
        [
            name,
            f"{it['per second']:.0f}",
            micro(it["p50"]),
            micro(it["p99"]),
            f"{100 * it['in order']:.1f} %",
            f"{it['jain']:.3f}",
        ]
        for name, it in found.items()
    ]
    head = ["lock", "hand-overs per second", "p50", "p99", "in order", "Jain index"]
    text += ["## Hand-over among 8 processes", ""]
    text += ["From one release to the next acquire. In order: not overtaken by a later one.", ""]
    text += [table(head, rows), ""]

    ours, theirs = found["Lockspan"], found["python-redis-lock"]
    faster = ours["per second"] / max(theirs["per second"], 1e-9)
    verdicts += [
        at_least("hand-overs, times as many as python-redis-lock", faster, 2),
        at_least("hand-overs in order, of all", ours["in order"], 0.999),
        at_least("hand-overs, Jain index", ours["jain"], 0.99),
    ]
    if quick:
        text += ["The targets are not for `--quick`, nor for a build that is not optimised.", ""]
    text += ["## Targets", "", table(["measured", "value", "target", "verdict"], verdicts), ""]
    return "\n".join(text)


def machine():
    with open("/proc/cpuinfo") as info:
        model = next((line.split(":")[1].strip() for line in info if "model name" in line), "?")
    versions = [f"Python {platform.python_version()}", f"kernel {platform.release()}"]
    redis = subprocess.run(["redis-server", "--version"], capture_output=True, text=True).stdout
    versions.append(" ".join(redis.split()[:3]))
    return "\n".join([f"{os.cpu_count()} processors, {model}", *versions, ""])


def main():
    chosen = arguments()
    folder = use_build(chosen.build)
    from lockspan.pytest import Server

    server, redis = Server(["--max-lease=60s"]), Redis()
    try:
        text = compare(server, redis.port, chosen.quick)
    finally:
        server.close()
        redis.close()
        shutil.rmtree(folder, ignore_errors=True)
    print(text)
    if chosen.record:
        name = f"{datetime.date.today()}-{chosen.record}"
        place = HERE.parents[2] / "benches/results/python" / name
        place.mkdir(parents=True, exist_ok=True)
        command = f"cargo xtask bench python --record {chosen.record}"
        head = f"# The Python package compared with other locks\n\n`{command}`; see machine.txt.\n\n"
        (place / "summary.md").write_text(head + text)
        (place / "machine.txt").write_text(machine())
        print(f"recorded in {place}")


if __name__ == "__main__":
    main()
