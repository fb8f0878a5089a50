"""Opening, options, upkeep, closing, forks and hostile arguments."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Callable

import pytest

import pando


@dataclass
class Row:
    id: int


def test_opening(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with pytest.raises(pando.MissingError):
        pando.open(path)
    with pando.create(path, page_bytes=4096) as db:
        assert db.path == path and not db.is_closed and str(path) in repr(db)
        with pytest.raises(pando.LockedError):
            pando.open(path)
        db.table("t")
    assert db.is_closed
    with pytest.raises(pando.MismatchError):
        pando.open(path, page_bytes=8192)
    with pando.open(path, read_only=True) as one, pando.open(path, read_only=True) as two:
        assert one.is_read_only and two.tables() == ["t"]
        with pytest.raises(pando.ReadOnlyError):
            two.table("t")[b"k"] = b"v"
        with pytest.raises(pando.ReadOnlyError):
            two.table("new")
    with pytest.raises(pando.InvalidError):
        pando.create(path, read_only=True)
    (path / "data").write_bytes(b"not a database" * 1000)
    with pytest.raises((pando.ForeignError, pando.CorruptError)):
        pando.open(path)


@pytest.mark.parametrize("path", [None, 7, b"db"])
def test_a_path_of_a_wrong_kind(path: Any) -> None:
    from pando import aio, dbapi

    for begin in (pando.open, pando.create, dbapi.connect):
        with pytest.raises(TypeError, match=f"path must be str or os.PathLike, not {type(path).__name__}"):
            begin(path)
    for start in (aio.open, aio.create):
        with pytest.raises(TypeError, match="path must be str or os.PathLike"):
            asyncio.run(start(path))


def test_a_dropped_database_is_closed(tmp_path: Path) -> None:
    db = pando.create(tmp_path)
    table = db.table("t")
    del db
    table[b"k"] = b"v"  # The table keeps its database open.
    with pytest.raises(pando.LockedError):
        pando.open(tmp_path)
    del table
    gc.collect()
    pando.open(tmp_path).close()


@pytest.mark.parametrize(
    "options",
    [
        {"memory_bytes": -1},
        {"memory_bytes": 10**30},
        {"memory_bytes": 1},
        {"page_bytes": 5000},
        {"durability": "never"},
        {"isolation": "none"},
        {"lazy_interval": -1},
        {"lazy_interval": float("nan")},
        {"lazy_interval": "soon"},
        {"max_snapshot_age": 1e300},
    ],
    ids=str,
)
def test_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(pando.InvalidError):
        pando.in_memory(**options)


def test_options_of_wrong_kinds() -> None:
    for options in ({"memory": 1}, {"memory_bytes": "1"}, {"memory_bytes": 1.5}, {"durability": 1}, {"read_only": "no"}):
        with pytest.raises(TypeError):
            pando.in_memory(**options)
    db = pando.in_memory(
        memory_bytes=8 << 20, lazy_interval=timedelta(seconds=1), max_snapshot_age=60, checkpoint_bytes=None
    )
    db.close()


def test_table_options(db: pando.Database) -> None:
    table = db.create_table("t", layout="lsm", ttl=2, key=str, value=str)
    with pytest.raises(pando.ExistsError):
        db.create_table("t")
    table["k"] = "v"
    assert table["k"] == "v" and table.ttl == 2
    time.sleep(2.1)
    assert "k" not in table and len(table) == 0
    db.set_ttl("t", 3600)
    db.set_compression("t", "lz4")
    db.set_layout("t", "btree")
    db.rename_table("t", "u")
    with pytest.raises(pando.MissingError):
        table["k"] = "v"
    assert db.table("u").layout == "btree"
    db.drop_table("u")
    for name, options in (("x", {"layout": "heap"}), ("x", {"compression": "zip"}), ("x", {"ttl": 0})):
        with pytest.raises(pando.InvalidError):
            db.create_table(name, **options)  # type: ignore[arg-type]
    with pytest.raises(pando.MissingError):
        db.table("missing", create=False)


def test_each_entry_can_have_a_ttl_of_its_own(db: pando.Database) -> None:
    cache = db.create_table("cache", ttl="by-key", key=str, value=str)
    assert cache.has_ttl_by_key and cache.ttl is None
    cache["ever"] = "v"
    cache.put("long", "v", ttl=3600)
    cache.put("short", "v", ttl=timedelta(milliseconds=1))
    time.sleep(0.01)
    assert list(cache) == ["ever", "long"]
    assert cache.expiry("ever") == math.inf and 3590 < cache.expiry("long") <= 3600
    with db.write() as tx:
        tx[cache].set_expiry("long", None)
        tx[cache].set_expiry("ever", 60)
        assert tx[cache].expiry("long") == math.inf
    assert 50 < cache.expiry("ever") <= 60
    with pytest.raises(KeyError):
        cache.expiry("short")
    with pytest.raises(KeyError):
        cache.set_expiry("short", 1)
    plain = db.table("plain", key=str, value=str)
    for wrong in (lambda: plain.put("k", "v", ttl=1), lambda: plain.expiry("k"), lambda: db.set_ttl("cache", 1)):
        with pytest.raises(pando.InvalidError, match="TTL"):
            wrong()
    assert "k" not in plain and not plain.has_ttl_by_key



def test_upkeep(db: pando.Database, tmp_path: Path) -> None:
    table = db.table("t", key=int)
    table.update((number, bytes(100)) for number in range(20_000))
    db.checkpoint()
    db.sync()
    calls: list[tuple[int, int]] = []
    report = db.check(progress=lambda *now: calls.append(now))
    assert report["records"] >= 20_000 and report["orphan_units"] == 0 and calls
    assert db.stats()["last_commit"] > 0
    table.delete_range(0, 19_000)
    calls.clear()
    before, after = db.compact(progress=lambda *now: calls.append(now))
    assert after < before and calls
    calls.clear()
    full = db.backup(tmp_path / "backups", progress=lambda *now: calls.append(now))
    assert calls and (tmp_path / "backups" / full).exists()
    table[-1] = b"late"
    assert "incremental" in db.backup(tmp_path / "backups", incremental=True, rate_bytes=1 << 30)
    calls.clear()
    pando.restore(tmp_path / "backups", tmp_path / "restored", progress=lambda *now: calls.append(now))
    assert calls and calls[-1][0] == calls[-1][1]
    with pando.open(tmp_path / "restored") as restored:
        assert restored.table("t", key=int) == table
    with pytest.raises(pando.ExistsError):
        pando.restore(tmp_path / "backups", tmp_path / "restored")
    with pytest.raises(pando.MissingError):
        pando.restore(tmp_path / "none", tmp_path / "other")


def test_an_exception_of_progress_is_raised(db: pando.Database, tmp_path: Path) -> None:
    table = db.table("t", key=int)
    table.update((number, bytes(100)) for number in range(10_000))
    db.checkpoint()
    table.delete_range(0, 9_000)

    def fails(done: int, expected: int) -> None:
        raise ZeroDivisionError

    for call in (
        lambda: db.check(progress=fails),
        lambda: db.compact(progress=fails),
        lambda: db.backup(tmp_path / "b", progress=fails),
        lambda: db.check(progress=7),  # type: ignore[arg-type]
    ):
        with pytest.raises((ZeroDivisionError, TypeError)):
            call()
        assert not list((tmp_path / "b").glob("backup-*"))
    db.backup(tmp_path / "b")
    with pytest.raises(ZeroDivisionError):
        pando.restore(tmp_path / "b", tmp_path / "copy", progress=fails)
    with pytest.raises(pando.Error):
        pando.open(tmp_path / "copy")
    # It can read the database, and a close that is refused closes nothing.
    assert db.check(progress=lambda *now: table.get(1))["tables"] >= 1
    with pytest.raises(pando.InvalidError):
        db.check(progress=lambda *now: db.close())
    table.put(1, b"w")


@pytest.mark.parametrize("progress", [None, lambda *now: None])
def test_a_signal_ends_long_work(db: pando.Database, tmp_path: Path, progress: Any) -> None:
    table = db.table("t", key=int)
    table.update((number, os.urandom(1000)) for number in range(10_000))
    db.checkpoint()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            db.backup(tmp_path / "b", rate_bytes=1 << 18, progress=progress)  # Would take 40 seconds.
        assert time.monotonic() - began < 20
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not list((tmp_path / "b").glob("backup-*"))


def test_a_bulk_load_reports_its_progress(db: pando.Database) -> None:
    table = db.table("t", key=int)
    calls: list[tuple[int, int]] = []
    records = [(number, bytes(92)) for number in range(5000)]
    assert table.bulk_load(records, progress=lambda *now: calls.append(now)) == 5000
    assert calls == sorted(calls) and calls[-1] == (5000, 5000 * 100)

    def fails(count: int, _bytes: int) -> None:
        if count > 2000:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        table.bulk_load(((-number - 1, b"") for number in range(5000)), progress=fails)
    assert len(table) == 5000


def test_everything_ends_with_the_database(db: pando.Database) -> None:
    table = db.table("t", key=int)
    table.update((number, b"") for number in range(100))
    snapshot, tx, keys = db.snapshot(), db.write(), iter(table)
    view, inside, point = snapshot[table], tx[table], tx.savepoint()
    inside[7] = b"changed"
    inside_keys = iter(inside)
    next(keys)
    connection = db.sql()
    cursor = connection.cursor()
    db.close()
    db.close()
    calls: list[Callable[[], object]] = [
        lambda: table[1], lambda: table.get(1), lambda: table.put(1, b""), lambda: len(table), lambda: bool(table),
        lambda: list(table), lambda: next(keys), lambda: keys.chunk(), lambda: next(inside_keys), lambda: 1 in table,
        lambda: view[1], lambda: list(view), lambda: inside[1], lambda: inside.put(1, b""), tx.commit, tx.rollback,
        tx.savepoint, point.rollback, lambda: snapshot.commit_number, snapshot.tables, db.tables, db.stats, db.check,
        db.compact, db.snapshot, db.write, db.checkpoint, db.sync, lambda: db.table("t"), lambda: db.drop_table("t"),
        lambda: table.bulk_load([]), lambda: table.put_many([(1, b"")]), lambda: db.backup("nowhere"), db.sql,
        lambda: table.range(), lambda: table.popitem(), lambda: table.clear(),
    ]  # fmt: skip
    for number, call in enumerate(calls):
        with pytest.raises(pando.ClosedError):
            print("call", number)
            call()
    with pytest.raises(pando.dbapi.ProgrammingError):
        cursor.execute("SELECT 1")
    snapshot.close()
    connection.close()
    with pytest.raises(pando.ClosedError), tx:
        pass


def test_a_closed_snapshot(db: pando.Database) -> None:
    table = db.table("t")
    table[b"k"] = b"v"
    with db.snapshot() as snapshot:
        view = snapshot[table]
        keys = iter(view)
        with pytest.raises((AttributeError, TypeError)):
            view[b"k"] = b"w"  # type: ignore[index]
    for call in (lambda: view[b"k"], lambda: next(keys), lambda: len(view), snapshot.tables):
        with pytest.raises(pando.ClosedError):
            call()
    with pytest.raises(pando.MissingError):
        db.snapshot()["missing"]


@pytest.mark.parametrize(
    ("key", "wrong"),
    [(bytes, ["k", 1, None, 1.5, [1], object()]), (str, [b"k", 1, None]), (int, [b"k", "1", 1.5, None])],
)
def test_keys_of_wrong_types(db: pando.Database, key: Any, wrong: list[Any]) -> None:
    table: Any = db.table("t", key=key)
    for one in wrong:
        for call in (
            lambda: table[one], lambda: table.put(one, b""), lambda: one in table, lambda: table.pop(one),
            lambda: table.multi_get([one]), lambda: table.range(one), lambda: table.put_many([(one, b"")]),
            lambda: table.bulk_load([(one, b"")]), lambda: table.delete_many([one]),
        ):  # fmt: skip
            try:
                call()
            except TypeError:
                continue
            # `None` as a bound is no bound.
            assert one is None


def test_hostile_arguments(db: pando.Database) -> None:
    numbers, names, plain = db.table("n", key=int), db.table("s", key=str), db.table("b")
    for number in (2**63, -(2**63) - 1, 10**100):
        with pytest.raises(OverflowError):
            numbers[number] = b""
        with pytest.raises(OverflowError):
            number in numbers
    with pytest.raises(UnicodeEncodeError):
        names["\ud800"] = b""
    with pytest.raises(pando.InvalidError):
        plain[bytes(100_000)] = b""
    with pytest.raises(pando.InvalidError):
        db.table("x" * 100_000)
    for name in (1, None, b"t"):
        with pytest.raises(TypeError):
            db.table(name)  # type: ignore[call-overload]
    for arguments in ({"key": float}, {"key": "key"}, {"value": int}, {"value": 7}):
        with pytest.raises(TypeError):
            db.table("b", **arguments)
    for limit in (-1, 10**30, "many"):
        with pytest.raises((pando.InvalidError, TypeError)):
            plain.range(limit=limit)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        numbers.range(prefix=1)
    # A dict makes the same difference.
    hostile: list[tuple[Any, type[Exception]]] = [
        *((records, TypeError) for records in ([1], 7, [(b"k", "text")], [None])),
        *((records, ValueError) for records in ([(b"k",)], [[b"k", b"v", b"w"]])),
    ]
    for records, error in hostile:
        with pytest.raises(error):
            plain.put_many(records)
        with pytest.raises(error):
            plain.bulk_load(records)
    other = pando.in_memory()
    with pytest.raises(pando.InvalidError), db.write() as tx:
        tx[other.table("t")]
    for call in (pando.Transaction, pando.Snapshot, pando.Table):
        with pytest.raises(TypeError):
            call(7)
    with pytest.raises(pando.IoError):
        pando.open("a\0b")
    plain[bytearray(b"k")] = memoryview(b"value")[1:]  # type: ignore[index, assignment]
    assert plain[b"k"] == b"alue"
    plain[b""] = b""
    assert plain[b""] == b""
    # What was written with other kinds is refused, not misread.
    plain[b"\xff\xff"] = b"\xff"
    with pytest.raises(pando.InvalidError):
        list(db.table("b", key=str))
    with pytest.raises(pando.InvalidError):
        list(db.table("b", key=int))
    for value in (str, "json"):
        with pytest.raises(pando.InvalidError):
            db.table("b", value=value)[b"\xff\xff"]  # type: ignore[call-overload]


def test_every_exception_is_an_error() -> None:
    kinds = [one for one in vars(pando).values() if isinstance(one, type) and issubclass(one, BaseException)]
    assert len(kinds) == 21 and all(issubclass(one, pando.Error) for one in kinds)
    assert len({one.kind for one in kinds}) == len(kinds)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_is_refused(db: pando.Database) -> None:
    table = db.table("t")
    table[b"k"] = b"v"
    snapshot, tx, keys, connection = db.snapshot(), db.write(), iter(table), db.sql()
    tx[table][b"tx"] = b"of the parent"
    calls: list[Callable[[], object]] = [
        lambda: table[b"k"], lambda: table.put(b"k", b"child"), lambda: snapshot[table][b"k"], db.stats, tx.commit,
        lambda: next(keys), db.snapshot, db.write, db.close, snapshot.close, lambda: connection.execute("SELECT 1"),
    ]  # fmt: skip
    child = os.fork()
    if child == 0:
        code = 0
        for number, call in enumerate(calls):
            try:
                call()
                code = number + 1
            except pando.ForkedError:
                continue
            except BaseException:
                code = number + 101
            break
        if code == 0:
            with pando.in_memory() as own:
                own.table("t")[b"k"] = b"v"
        os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, "the number of the first call that was not refused"
    tx.commit()
    assert table[b"tx"] == b"of the parent" and table[b"k"] == b"v"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
@pytest.mark.parametrize(
    "block",
    [
        "with db:",
        "with db.snapshot():",
        "with db.write() as tx:",
        "with db.write() as tx, tx.savepoint():",
        "with db.sql():",
        "with db.changes():",
        "with db.consumer('c'):",
        "with db.table('t').cursor():",
    ],
)
def test_a_forked_child_leaves_the_blocks_of_its_parent(block: str) -> None:
    program = f"""
import os, sys, pando
db = pando.in_memory()
child = 0
{block}
    child = os.fork()
    if child == 0 and sys.argv[1] == "exits":
        sys.exit(3)
if child == 0:
    sys.exit(4)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    for how, expected in (("exits", 3), ("goes on", 4)):
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", program, how], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (expected, ""), how


def test_errors_name_the_argument(db: pando.Database, tmp_path: Path) -> None:
    table: Any = db.table("t")
    consumer = db.consumer("c")
    typed: Any = db.typed(Row, key="id")
    calls: list[tuple[str, type[Exception], Callable[[], object]]] = [
        ("limit is -1: it must be from 0 to", pando.InvalidError, lambda: table.range(limit=-1)),
        ("limit is -1: it must be from 0 to", pando.InvalidError, lambda: table.range_keys(limit=-1)),
        ("limit is -1: it must be from 0 to", pando.InvalidError, lambda: table.range_values(limit=-1)),
        ("limit is -1: it must be from 0 to", pando.InvalidError, lambda: list(typed.scan(limit=-1))),
        ("limit must be an int, not float", TypeError, lambda: table.range(limit=1.5)),
        ("limit must be an int, not str", TypeError, lambda: table.range(limit="1")),
        ("after is -1: it must be from 0 to", pando.InvalidError, lambda: db.changes(after=-1)),
        ("after must be an int, not str", TypeError, lambda: db.changes(after="1")),  # type: ignore[arg-type]
        ("prefix must be bytes, not str", TypeError, lambda: db.changes(prefix="a")),  # type: ignore[arg-type]
        ("prefix must be bytes, not list", TypeError, lambda: db.changes(prefix=[1])),  # type: ignore[arg-type]
        ("prefix must be bytes, not str", TypeError, lambda: consumer.changes(prefix="a")),  # type: ignore[arg-type]
        ("commit is -1: it must be from 0 to", pando.InvalidError, lambda: consumer.acknowledge(-1)),
        ("commit must be an int, not NoneType", TypeError, lambda: consumer.acknowledge(None)),  # type: ignore[arg-type]
        ("parameters must be a sequence or a dict, not int", TypeError, lambda: db.sql("SELECT ?", 5)),  # type: ignore
        ("parameters must be a sequence or a dict, not str", TypeError, lambda: db.sql("SELECT ?", "5")),
        (
            "parameters must be an iterable of sequences or dicts, not int",
            TypeError,
            lambda: db.sql().executemany("SELECT ?", 5),  # type: ignore[arg-type]
        ),
        (
            "rate_bytes is -1: it must be from 0 to",
            pando.InvalidError,
            lambda: db.backup(tmp_path / "backups", rate_bytes=-1),
        ),
    ]
    for message, kind, call in calls:
        with pytest.raises(kind, match=message.replace("*", r"\*")):
            call()
    for prefix in (b"a", bytearray(b"a"), memoryview(b"a")):
        db.changes(prefix=prefix).close()
