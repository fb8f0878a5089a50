"""Tables and results as Arrow, read by programs that others wrote. They must see equal frames."""

from __future__ import annotations

import datetime
import subprocess
import sys
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import pytest

import pando

pyarrow = pytest.importorskip("pyarrow")
UTC = datetime.timezone.utc
BATCH_ROWS = 8192


@dataclass
class Reading:
    id: int
    name: str
    at: Optional[datetime.datetime] = None
    value: Optional[float] = None
    count: Optional[pando.UInt] = None
    ok: Optional[bool] = None
    token: Optional[uuid.UUID] = None
    raw: Optional[bytes] = None


ROWS = [
    Reading(-3, "Ann é", datetime.datetime(2024, 2, 29, 12, 0, 0, 1, UTC), 0.1, 2**64 - 1, True, uuid.UUID(int=7), b"\0\xff"),
    Reading(2, ""),
    Reading(5, "z", datetime.datetime(1969, 12, 31, tzinfo=UTC), float("inf"), 0, False, uuid.UUID(int=2**127), b""),
]


def as_dict(row: Reading) -> dict[str, Any]:
    return {**row.__dict__, "token": row.token and row.token.bytes}


def test_programs_see_equal_frames(db: pando.Database) -> None:
    readings = db.typed(Reading, key="id")
    readings.insert_many(ROWS)
    table = pyarrow.table(readings.arrow())
    types = {field.name: str(field.type) for field in table.schema}
    assert types == {
        "id": "int64", "name": "string", "at": "timestamp[us, tz=UTC]", "value": "double", "count": "uint64",
        "ok": "bool", "token": "fixed_size_binary[16]", "raw": "binary",
    }  # fmt: skip
    assert [field.nullable for field in table.schema] == [False, False] + [True] * 6
    assert table.to_pylist() == [as_dict(row) for row in ROWS]

    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(readings.arrow())
    assert frame.schema["count"] == polars.UInt64 and frame.schema["at"] == polars.Datetime("us", "UTC")
    assert frame.to_dicts() == [as_dict(row) for row in ROWS]
    assert frame.equals(polars.from_arrow(table))

    pandas = pytest.importorskip("pandas")
    if hasattr(pandas.DataFrame, "from_arrow"):
        pandas.testing.assert_frame_equal(pandas.DataFrame.from_arrow(readings.arrow()), table.to_pandas())

    duckdb = pytest.importorskip("duckdb")
    source = readings.arrow()
    connection = duckdb.connect()
    connection.register("source", source)
    for _ in range(2):
        found = connection.sql('SELECT id, name, epoch_us("at"), value, "count", ok, raw FROM source ORDER BY id')
        us = datetime.timedelta(microseconds=1)
        epoch = datetime.datetime(1970, 1, 1, tzinfo=UTC)
        assert found.fetchall() == [
            (row.id, row.name, row.at and (row.at - epoch) // us, row.value, row.count, row.ok, row.raw) for row in ROWS
        ]


def test_plain_tables(db: pando.Database) -> None:
    for key, value, records in [
        (str, str, {"a": "1", "b": "é", "ba": ""}),
        (bytes, bytes, {b"a": b"\xff", b"b": b"", b"ba": b"x"}),
    ]:
        table: Any = db.table(key.__name__, key=key, value=value)
        table.update(records)
        pairs = [{"key": key, "value": value} for key, value in records.items()]
        assert pyarrow.table(table.arrow()).to_pylist() == pairs
        second = list(records)[1]
        assert pyarrow.table(table.arrow(second)).to_pylist() == pairs[1:]
        assert pyarrow.table(table.arrow(stop=second)).to_pylist() == pairs[:1]
        assert pyarrow.table(table.arrow(prefix=second)).to_pylist() == pairs[1:]
    numbers = db.table("numbers", key=int, value="json")
    numbers.update({-5: [1, None], 7: "x"})
    assert pyarrow.table(numbers.arrow()).to_pydict() == {"key": [-5, 7], "value": ["[1, null]", '"x"']}
    assert pyarrow.schema(numbers.arrow()).names == numbers.arrow().column_names == ["key", "value"]


def test_a_source_is_one_moment_and_can_be_read_again(db: pando.Database) -> None:
    table = db.table("t", key=int, value=bytes)
    count = 3 * BATCH_ROWS + 7
    table.update((number, b"%d" % number) for number in range(count))
    source = table.arrow()
    table.delete_range(5, None)
    first = pyarrow.RecordBatchReader.from_stream(source)
    batch = first.read_next_batch()
    assert batch.num_rows == BATCH_ROWS
    whole = pyarrow.table(source)
    assert whole["key"].to_pylist() == list(range(count))
    assert batch.num_rows + sum(batch.num_rows for batch in first) == count
    assert whole["value"].to_pylist() == [b"%d" % number for number in range(count)]
    assert pyarrow.table(table.arrow()).num_rows == 5
    with db.snapshot() as snapshot:
        table.clear()
        assert pyarrow.table(snapshot[table].arrow()).num_rows == 5
    assert pyarrow.table(table.arrow()).num_rows == 0


def test_a_batch_ends_with_its_bytes(db: pando.Database) -> None:
    table = db.table("t", key=int)
    table.update((number, bytes(100_000)) for number in range(50))
    batches = list(pyarrow.RecordBatchReader.from_stream(table.arrow()))
    assert [batch.num_rows for batch in batches] == [11, 11, 11, 11, 6]


def test_threads_read_one_source(db: pando.Database) -> None:
    table = db.table("t", key=int)
    table.update((number, bytes(20)) for number in range(2 * BATCH_ROWS))
    source, sums = table.arrow(), []

    def read() -> None:
        sums.append(sum(sum(batch["key"].to_pylist()) for batch in pyarrow.RecordBatchReader.from_stream(source)))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [sum(range(2 * BATCH_ROWS))] * 4


def test_results_of_sql(db: pando.Database) -> None:
    with db.sql() as connection:
        cursor = connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, price REAL, raw BLOB, n INTEGER)")
        with pytest.raises(pando.dbapi.ProgrammingError):
            cursor.arrow()
        connection.executemany(
            "INSERT INTO t VALUES (?, ?, ?, ?, NULL)", [(1, "a", 0.5, b"\xff"), (2, None, None, None), (3, "", 2, b"")]
        )
        # Not committed yet: the connection sees its own rows.
        cursor = connection.execute("SELECT *, id + 0.5 AS half FROM t ORDER BY id")
        assert cursor.fetchone() is not None
        table = pyarrow.table(cursor.arrow())
        assert table.to_pydict() == {
            "id": [1, 2, 3], "name": ["a", None, ""], "price": [0.5, None, 2.0], "raw": [b"\xff", None, b""],
            "n": [None] * 3, "half": [1.5, 2.5, 3.5],
        }  # fmt: skip
        assert [str(field.type) for field in table.schema] == ["int64", "string", "double", "binary", "int64", "double"]
        assert len(cursor.fetchall()) == 2
        empty = pyarrow.table(connection.execute("SELECT id, price, name, raw FROM t WHERE id > 9").arrow())
        assert [str(field.type) for field in empty.schema] == ["int64", "double", "string", "binary"]
        mixed = pyarrow.table(connection.execute("SELECT 1 AS x UNION ALL SELECT 0.5").arrow())
        assert mixed["x"].to_pylist() == [1.0, 0.5]
        with pytest.raises(pando.dbapi.DataError, match="column \"x\".*row 2.*CAST"):
            connection.execute("SELECT 1 AS x UNION ALL SELECT 'text'").arrow()
        with pytest.raises(pando.dbapi.DataError, match="integer"):
            connection.execute("SELECT 0.5 AS x UNION ALL SELECT 9007199254740993").arrow()
        many = connection.execute("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 20000) SELECT x FROM c")
        assert [batch.num_rows for batch in pyarrow.RecordBatchReader.from_stream(many.arrow())] == [8192, 8192, 3616]


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    db = pando.create(tmp_path / "db")
    table = db.table("t", key=str, value=bytes)
    table["a"] = b"\xff"
    with db.write() as tx, pytest.raises(pando.InvalidError, match="transaction"):
        tx[table].arrow()
    with pytest.raises(Exception, match="a value of the table is not text"):
        pyarrow.table(db.table("t", value=str).arrow())
    with pytest.raises(Exception, match="a key of the table is not an int"):
        pyarrow.table(db.table("t", key=int).arrow())
    table.update((f"{number:06}", b"x") for number in range(2 * BATCH_ROWS))
    source = table.arrow()
    reader = pyarrow.RecordBatchReader.from_stream(source)
    assert reader.read_next_batch().num_rows == BATCH_ROWS
    snapshot = db.snapshot()
    of_snapshot = snapshot[table].arrow()
    snapshot.close()
    with pytest.raises(pando.ClosedError):
        pyarrow.table(of_snapshot)
    db.close()
    with pytest.raises(Exception, match="closed"):
        reader.read_next_batch()
    with pytest.raises(pando.ClosedError):
        pyarrow.table(source)


def test_memory_is_that_of_a_batch(tmp_path: Path) -> None:
    """100 MiB are read by a process that holds a batch at a time."""
    with pando.create(tmp_path / "db", durability="lazy", memory_bytes=32 << 20) as db:
        table = db.table("t", key=int)
        for first in range(0, 100_000, 2_000):
            table.update((number, bytes(1000)) for number in range(first, first + 2_000))
    code = f"""
import pando, pyarrow
def resident(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name)) >> 10
with pando.open({str(tmp_path / "db")!r}, memory_bytes=32 << 20) as db:
    table = db.table("t", key=int)
    before = resident("VmRSS")
    reader = pyarrow.RecordBatchReader.from_stream(table.arrow())
    assert sum(batch.num_rows for batch in reader) == 100_000
    print(resident("VmHWM") - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    print(f"100 MiB in batches: {done.stdout.strip()} MiB more resident memory")
    assert int(done.stdout) < 60


def test_nothing_else_is_imported() -> None:
    code = """
import sys
before = set(sys.modules)
import pando
with pando.in_memory() as db:
    table = db.table("t")
    table[b"a"] = b"b"
    assert "arrow_array_stream" in repr(table.arrow().__arrow_c_stream__())
    assert "arrow_schema" in repr(table.arrow().__arrow_c_schema__())
found = set(sys.modules) & {"pyarrow", "pandas", "polars", "duckdb", "numpy", "sqlalchemy"} - before
assert not found, found
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
