"""What the tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import pando


@pytest.fixture
def db(tmp_path: Path) -> Iterator[pando.Database]:
    """A database on the disk, with little memory, whose commits are not synced."""
    with pando.create(tmp_path / "db", memory_bytes=16 << 20, durability="buffered") as opened:
        yield opened
