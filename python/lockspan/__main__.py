"""`python -m lockspan …`: the program `lockspan` that this package brings."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig


def program() -> str:
    """Where the program `lockspan` is. Raises FileNotFoundError if this package has none."""
    beside = os.path.join(sysconfig.get_path("scripts"), "lockspan")
    for path in (beside, os.path.join(os.path.dirname(sys.executable), "lockspan")):
        if os.access(path, os.X_OK):
            return path
    found = shutil.which("lockspan")
    if found is None:
        raise FileNotFoundError(
            "the program `lockspan` is not installed: it is in the wheels of this package, not in "
            "a library that was built from source. Build it with `cargo build --release` in the "
            "repository and put it on the PATH"
        )
    return found


def main() -> None:
    try:
        path = program()
    except FileNotFoundError as why:
        sys.exit(f"python -m lockspan: {why}")
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
