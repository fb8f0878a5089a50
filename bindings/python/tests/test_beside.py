"""Reading beside another process that writes."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

import pando

WRITER = """
import sys, pando
db = pando.create(sys.argv[1], memory_bytes=16 << 20, durability="buffered")
left, right = db.table("left", key=int), db.table("right", key=int)
for number in range(1_000_000):
    with db.write() as tx:
        tx[left][number] = tx[right][number] = b"x"
    if number in (0, 200):
        print(number, flush=True)
"""


def test_a_process_reads_beside_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "db"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    try:
        assert writer.stdout.readline() == "0\n"
        with pando.open(path, read_only=True) as db:
            left, right = db.table("left", key=int, create=False), db.table("right", key=int, create=False)
            assert writer.stdout.readline() == "200\n"
            # Each snapshot has whole transactions, and it follows.
            lengths, until = [0], time.monotonic() + 30
            while lengths[-1] < 400 and time.monotonic() < until:
                with db.snapshot() as snapshot:
                    assert list(snapshot[left]) == list(snapshot[right]) == list(range(len(snapshot[left])))
                    lengths.append(len(snapshot[left]))
            assert lengths == sorted(lengths) and lengths[-1] >= 400, lengths[-1]
            with pytest.raises(pando.ReadOnlyError):
                left[1] = b"y"
            with pytest.raises(pando.LockedError):
                pando.open(path)
            writer.kill()
            writer.wait()
            assert len(left) >= lengths[-1]
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()
