"""What the package promises as a package: types, examples in its documentation, its program."""

import ast
import doctest
import importlib.metadata
import pathlib
import subprocess
import sys

import lockspan
import lockspan._lockspan
import pytest
from conftest import PATIENCE

FOLDER = pathlib.Path(lockspan.__file__).parent
TYPED = pathlib.Path(__file__).parent / "typed.py"


def test_the_examples_of_the_docstrings_do_what_they_say():
    found = doctest.DocTestFinder(exclude_empty=True)
    runner, failed = doctest.DocTestRunner(), 0
    examples = 0
    for thing in [lockspan, *(getattr(lockspan, name) for name in lockspan.__all__)]:
        if isinstance(thing, str):
            continue
        for test in found.find(thing, globs={}, module=False):
            examples += len(test.examples)
            failed += runner.run(test).failed
    # Methods of classes written in Rust are not looked for by the finder.
    parser = doctest.DocTestParser()
    for name in ("Locks", "Record", "Hold", "Attempt", "LostEvent", "All"):
        for method, value in vars(getattr(lockspan, name)).items():
            text = getattr(value, "__doc__", None)
            if text and ">>>" in text:
                test = parser.get_doctest(text, {}, f"{name}.{method}", None, 0)
                examples += len(test.examples)
                failed += runner.run(test).failed
    assert failed == 0 and examples > 25


def test_the_examples_of_the_pages_are_python():
    folder = pathlib.Path(__file__).parents[2]
    for page in ("README.md", "docs/python.md", "python/README.md"):
        blocks = (folder / page).read_text().split("```python\n")[1:]
        assert blocks, page
        for block in blocks:
            compile(block.split("```")[0], page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def checked(*command):
    pytest.importorskip("mypy")
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, timeout=8 * PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_accepts_the_package_and_a_program_that_uses_it(tmp_path):
    strict = ["mypy", "--strict", "--python-version", "3.10", "--cache-dir", str(tmp_path)]
    # By its name: files of site-packages that are named one by one hide modules of mypy itself.
    checked(*strict, "-p", "lockspan")
    checked(*strict, str(TYPED))


def test_the_stubs_declare_what_there_is():
    checked("mypy.stubtest", "lockspan._lockspan")


def test_the_package_says_that_it_is_typed_and_which_version_it_is():
    assert (FOLDER / "py.typed").exists()
    manifest = (pathlib.Path(__file__).parents[2] / "Cargo.toml").read_text()
    assert f'\nversion = "{lockspan.__version__}"\n' in manifest


def test_the_licences_are_in_the_package():
    files = {path.name: path for path in importlib.metadata.files("lockspan") or []}
    said = {
        "LICENSE-MIT": "Permission is hereby granted",
        "LICENSE-APACHE": "TERMS AND CONDITIONS FOR USE",
        # The library and the program have libraries of others linked into them.
        "THIRD-PARTY": "pyo3 v",
    }
    for name, text in said.items():
        assert text in files[name].read_text(), name
    third_party = files["THIRD-PARTY"].read_text()
    assert "tokio v" in third_party and "clap v" in third_party and "\n==== " in third_party


def test_python_dash_m_runs_the_program():
    said = subprocess.run(
        [sys.executable, "-m", "lockspan", "--version"], capture_output=True, text=True
    )
    assert said.stdout == f"lockspan {lockspan.__version__}\n", said.stderr


def test_the_fixture_is_a_service_of_its_own(lockspan_locks, lockspan_server):
    with lockspan_locks.record("invoice", 42).write(timeout=5) as held:
        held.check()
    with lockspan.connect(lockspan_server) as locks:
        with locks.record("invoice", 42).write(timeout=5) as held:
            held.check()
