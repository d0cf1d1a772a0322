"""Celery: one task at a time for each key, on all workers of all machines.

Run: python examples/python/celery_task.py [URL]       defaults to memory:; with workers: local: or a
server. The example runs its tasks in its own process; `celery -A celery_task worker` runs them in
prefork workers. Each worker process connects by itself: a connection does not survive a fork.
"""

import functools
import os
import sys

from celery import Celery

import lockspan

URL = os.environ.get("LOCKSPAN_URL", "memory:")
app = Celery("invoices", broker="memory://", backend="cache+memory://")


@functools.lru_cache(maxsize=None)
def _connection(process):
    return lockspan.connect(URL)


def locks():
    """The connection of this process."""
    return _connection(os.getpid())


@app.task(bind=True, max_retries=None)
def import_invoice(self, number):
    # Somebody else imports the same invoice: come back later, and keep the worker free.
    with locks().record("invoice", number).try_write() as held:
        if held is None:
            raise self.retry(countdown=1)
        return f"imported {number}, token rises: {held.token > 0}"


def main():
    global URL
    URL = sys.argv[1] if len(sys.argv) > 1 else URL
    app.conf.task_always_eager = True  # Without a worker: in this process.
    print(import_invoice.delay(42).get())
    with lockspan.connect(URL).record("invoice", 42).write(timeout=30):
        with locks().record("invoice", 42).try_write() as held:
            print("while another process imports it:", "it would retry" if held is None else "?")


if __name__ == "__main__":
    main()
