"""redis-py with TLS and a user, against a server on the port that is given, with this authority.

At the end it prints OK.
"""

import sys

import redis

PORT, CA = int(sys.argv[1]), sys.argv[2]


def connect(protocol, password):
    return redis.Redis(
        host="localhost",
        port=PORT,
        protocol=protocol,
        username="ann",
        password=password,
        ssl=True,
        ssl_ca_certs=CA,
        decode_responses=True,
        socket_timeout=20,
    )


for protocol in (2, 3):
    client = connect(protocol, "secret")
    ask = client.execute_command
    assert client.ping() is True
    opened = ask("LS.OPEN")
    session = opened["session"] if protocol == 3 else opened[1]
    granted = ask("LS.ACQUIRE", session, "doc:1", "W")
    assert "granted" in (granted.values() if protocol == 3 else granted), granted
    try:
        ask("LS.ACQUIRE", session, "other:1", "R")
    except redis.exceptions.NoPermissionError as error:
        assert "user ann lacks the right to read datatype other" in str(error), error
    else:
        raise AssertionError("it was not refused")
    assert ask("LS.CLOSE", session) == "OK"

# The library may try it more than once by itself, and is slowed down then.
try:
    connect(3, "wrong").ping()
except (redis.exceptions.AuthenticationError, redis.exceptions.ResponseError) as error:
    said = str(error)
    assert "no such user with that password" in said or "too many logins" in said, error
else:
    raise AssertionError("it was let in")

print("OK")
