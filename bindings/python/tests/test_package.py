"""The package as its users see it: examples, types, threads."""

from __future__ import annotations

import doctest
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest

import pando
import pando.aio
import pando.dbapi

HERE = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((HERE / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples_run(example: Path) -> None:
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout and not done.stderr


@pytest.mark.parametrize("module", [pando, pando.aio, pando.dbapi], ids=lambda module: module.__name__)
def test_examples_of_the_documentation(module: object) -> None:
    result = doctest.testmod(module)  # type: ignore[arg-type]
    assert result.failed == 0 and result.attempted > 0


PAGE = (HERE / "README.md").read_text()
BLOCKS = [block.split("```")[0] for block in PAGE.split("```python\n")[1:]]


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_page_of_the_package(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for optional in ("duckdb", "polars"):
        if f"import {optional}\n" in block:
            pytest.importorskip(optional)
    # A module, as a dataclass looks for the one that its class is in.
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    exec(compile(block, "README.md", "exec", dont_inherit=True), module.__dict__)


PACKAGE = str(Path(pando.__file__).parent)
CHECKERS = [
    ["mypy", "--strict", "--package", "pando"],
    ["mypy", "--strict", "examples"],
    ["mypy", "--strict", "tests/test_records.py", "tests/test_cursor.py"],
    ["pyright", "examples", "tests/test_records.py", "tests/test_cursor.py", PACKAGE],
    ["mypy.stubtest", "--ignore-disjoint-bases", "pando._pando"],
]


@pytest.mark.parametrize("checker", CHECKERS, ids=lambda checker: " ".join(checker[:3:2]))
def test_types(checker: list[str]) -> None:
    pytest.importorskip(checker[0].partition(".")[0])
    done = subprocess.run([sys.executable, "-m", *checker], cwd=HERE, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_public_names_have_documentation() -> None:
    for module in (pando, pando.aio, pando.dbapi):
        assert module.__doc__
    for name in pando.__all__:
        if not name.startswith("_"):
            assert getattr(pando, name).__doc__, name


def test_two_threads_read(db: pando.Database) -> None:
    """Reports how two threads compare with one; what a shared machine shows is not asserted."""
    table = db.table("t", key=int)
    table.update((number, bytes(1000)) for number in range(20_000))
    db.checkpoint()
    keys = list(range(20_000))

    def gets() -> None:
        for _ in range(3):
            assert len(table.multi_get(keys)) == len(keys)

    def scan() -> None:
        for _ in range(3):
            assert len(table) == len(keys)

    for work in (gets, scan):
        seconds = []
        for count in (1, 2):
            threads = [threading.Thread(target=work) for _ in range(count)]
            began = time.perf_counter()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            seconds.append((time.perf_counter() - began) / count)
        print(f"{work.__name__}: two threads read {seconds[0] / seconds[1]:.2f} times as much as one")
        assert all(seconds)
