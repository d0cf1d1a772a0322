"""Django: a view that changes an account under its lock, in a project of one file.

Run: python examples/python/django_view.py [URL]       defaults to memory:

The token goes into the database with the row, so that an update that comes too late changes
nothing.
"""

import os
import sys

import django
from django.conf import settings
from django.db import connection
from django.http import JsonResponse
from django.test import RequestFactory

import lockspan

settings.configure(
    ALLOWED_HOSTS=["*"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
)
django.setup()

_connections = {}


def locks():
    """The connection of this worker process: gunicorn --preload forks after the import."""
    if os.getpid() not in _connections:
        url = sys.argv[1] if len(sys.argv) > 1 else "memory:"
        _connections[os.getpid()] = lockspan.connect(url)
    return _connections[os.getpid()]


def deposit(request, account):
    try:
        with locks().record("account", account).write(timeout=5, note=request.path) as held:
            with connection.cursor() as cursor:
                cursor.execute(
                    "UPDATE account SET balance = balance + %s, fence = %s"
                    " WHERE id = %s AND fence <= %s",
                    [request.GET["amount"], held.token, account, held.token],
                )
                return JsonResponse({"changed": cursor.rowcount})
    except lockspan.Timeout as why:
        return JsonResponse({"busy": str(why)}, status=503)


def main():
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE account (id INTEGER, balance INTEGER, fence BIGINT)")
        cursor.execute("INSERT INTO account VALUES (7, 100, 0)")
    for _ in range(2):
        print(deposit(RequestFactory().get("/deposit", {"amount": 5}), 7).content.decode())
    with connection.cursor() as cursor:
        cursor.execute("UPDATE account SET fence = 9223372036854775807")  # Somebody later.
        print(deposit(RequestFactory().get("/deposit", {"amount": 5}), 7).content.decode())
        cursor.execute("SELECT balance FROM account")
        print("balance:", cursor.fetchone()[0])


if __name__ == "__main__":
    main()
