"""Python threads whose TLS contexts and hashes go through OpenSSL's read-write locks.

Prints the seconds of processor time that they took. `cargo xtask bench preload` runs this with and
without the preload library.
"""

import hashlib
import resource
import ssl
import sys
import threading

threads, rounds = int(sys.argv[1]), int(sys.argv[2])


def work():
    for _ in range(rounds):
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        for name in ("sha256", "sha3_256", "blake2b", "md5"):
            for _ in range(50):
                hashlib.new(name, b"lockspan").digest()


workers = [threading.Thread(target=work) for _ in range(threads)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
usage = resource.getrusage(resource.RUSAGE_SELF)
print(f"openssl {threads} {usage.ru_utime + usage.ru_stime:.6f}")
