"""Values of any length, as files."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest

import pando

# 3 MiB are written to the data file as they arrive.
LONG = bytes(number // 997 * 7 & 255 for number in range(3 << 20))


def test_values_are_written_and_read_as_files(db: pando.Database, tmp_path: Path) -> None:
    table = db.table("t", key=str)
    with pytest.raises(KeyError):
        table.open_value("film")
    source = tmp_path / "film"
    source.write_bytes(LONG)
    with source.open("rb") as file:
        assert table.put_file("film", file) == len(LONG)
    with table.open_value("film") as file:
        assert file.readable() and file.seekable() and file.read() == LONG and file.read(1) == b""
        for place in (0, (256 << 10) - 3, len(LONG) - 5, len(LONG) + 9):
            assert file.seek(place) == place and file.read(300_000) == LONG[place : place + 300_000]
        assert file.seek(-7, io.SEEK_END) == len(LONG) - 7 and file.tell() == len(LONG) - 7
        assert file.seek(-3, io.SEEK_CUR) == len(LONG) - 10 and file.read() == LONG[-10:]
        with pytest.raises(ValueError):
            file.seek(-1)
    with pytest.raises(ValueError):
        file.read()
    # What was opened stays as it was.
    with db.snapshot() as snapshot:
        kept = snapshot[table].open_value("film")
    table["film"] = b"short"
    db.checkpoint()
    assert kept.read() == LONG
    kept.close()
    assert table.open_value("film").read(3) == b"sho"
    db.check()


def test_transactions(db: pando.Database) -> None:
    table = db.table("t")
    with db.write() as tx:
        tx[table].put_file(b"a", io.BytesIO(LONG))
        tx[table].put_file(b"empty", io.BytesIO())
        own = tx[table].open_value(b"a")
        tx.rollback()
    assert own.read() == LONG and b"a" not in table
    with db.write() as tx:
        with pytest.raises(TypeError):
            tx[table].put_file(b"a", io.StringIO("text"))  # type: ignore[arg-type]
        with pytest.raises(AttributeError):
            tx[table].put_file(b"a", b"bytes")  # type: ignore[arg-type]
        with pytest.raises(pando.InvalidError):
            tx[table].put_file(b"a", io.BytesIO(), ttl=60)
        tx[table].put_file(b"b", io.BytesIO(b"bee"))
    assert dict(table) == {b"b": b"bee"}
    cache = db.create_table("cache", ttl="by-key")
    cache.put_file(b"k", io.BytesIO(b"v"), ttl=3600)
    assert 1800 < cache.expiry(b"k") <= 3600
    late = table.open_value(b"b")
    db.close()
    with pytest.raises(pando.ClosedError):
        late.read()
    with pytest.raises(pando.ClosedError):
        table.open_value(b"b")


def test_no_transaction_is_open_while_a_file_is_read(db: pando.Database) -> None:
    table = db.table("t")

    class Slow(io.BytesIO):
        def read(self, size: int = -1, /) -> bytes:  # type: ignore[override]
            assert db.stats()["readers"] == 0
            table[b"k"] = b"from another"
            return super().read(size)

    assert table.put_file(b"k", Slow(LONG)) == len(LONG)
    assert table[b"k"] == LONG
    db.check()


def test_a_file_is_read_in_pieces(db: pando.Database) -> None:
    table = db.table("t")
    table.put_file(b"k", io.BytesIO(LONG))
    sizes = []
    with table.open_value(b"k") as file:
        reader = file.raw._reader  # type: ignore[attr-defined]

        class Counted:
            size = reader.size
            close = reader.close

            def read(self, most: int) -> bytes:
                sizes.append(most)
                return reader.read(most)

        file.raw._reader = Counted()  # type: ignore[attr-defined]
        assert file.read() == LONG
    assert set(sizes) == {256 << 10} and len(sizes) == 13


def test_a_read_that_fails_skips_no_byte(tmp_path: Path) -> None:
    value = random.Random(7).randbytes(3 << 20)
    with pando.create(tmp_path / "db") as db:
        db.table("t").put_file(b"k", io.BytesIO(value))
        db.checkpoint()
    damaged = 0
    for path in (tmp_path / "db").iterdir():
        stored = bytearray(path.read_bytes())
        at = stored.find(value[400_000:400_064])
        if at >= 0:
            stored[at] ^= 1
            path.write_bytes(stored)
            damaged += 1
    assert damaged == 1
    with pando.open(tmp_path / "db") as db, db.table("t").open_value(b"k") as file:
        native = file.raw._reader  # type: ignore[attr-defined]
        assert native.read(1000) == value[:1000]
        with pytest.raises(pando.CorruptError):
            native.read(700_000)
        assert native.read(1000) == value[1000:2000]
        file.seek(0)
        for _ in range(2):
            with pytest.raises(pando.CorruptError):
                file.raw.read()
            assert file.raw.tell() == 0
