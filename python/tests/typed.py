"""Checked by mypy, not run: what callers get has the types that they expect."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import lockspan

locks: lockspan.Locks = lockspan.connect("memory:", lease=5, stay=(4, timedelta(milliseconds=1)))
record: lockspan.Record = locks.record("invoice", uuid4())

with record.write(timeout=5) as held:
    token: int = held.token
    held.check()
    held.lost.add_callback(lambda: print("lost"))
    reading: lockspan.Hold = held.downgrade()

with record.try_write() as perhaps:
    if perhaps is not None:
        token = perhaps.token


async def main() -> int:
    async with await lockspan.aconnect("memory:") as more:
        async with more.record("invoice", 42).read(note="report") as got:
            await got.aupgrade(timeout=1)
            was_lost: bool = await got.lost
            assert not was_lost
            return got.token


try:
    asyncio.run(main())
except lockspan.Timeout as late:
    label: str = late.holders[0].label
except lockspan.LockError as why:
    again: bool = why.is_retryable
