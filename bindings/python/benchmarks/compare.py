"""Compares Pando with py-lmdb, rocksdict and the standard library's sqlite3 from Python.

    pip install lmdb rocksdict
    python benchmarks/compare.py [--records 100000] [--repeat 5] [--dir DIRECTORY]

Each engine does the same work in a directory of its own, and the engines take turns in each repetition. Every answer is
checked. The table has the median rate of each; an engine that is not installed is left out.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

VALUE_BYTES = 100
BATCH = 1000
CACHE_BYTES = 512 << 20
Record = tuple[bytes, bytes]


class Pando:
    """A table of Pando."""

    name = "pando"

    def __init__(self, path: Path) -> None:
        import pando

        self.db = pando.create(path, memory_bytes=CACHE_BYTES)
        self.table = self.db.table("t")

    def put(self, key: bytes, value: bytes, durable: bool) -> None:
        if durable:
            self.table[key] = value
        else:
            with self.db.write(durability="buffered") as tx:
                tx[self.table][key] = value

    def batch(self, records: list[Record]) -> None:
        self.table.update(records)

    def get(self, key: bytes) -> Any:
        return self.table.get(key)

    def many(self, keys: list[bytes]) -> list[Any]:
        return self.table.multi_get(keys)

    def scan(self) -> Iterator[Record]:
        return self.table.range()

    def close(self) -> None:
        self.db.close()


class Lmdb:
    """LMDB with its defaults, so that each commit is flushed."""

    name = "py-lmdb"

    def __init__(self, path: Path) -> None:
        import lmdb

        self.env = lmdb.open(str(path), map_size=4 << 30)

    def put(self, key: bytes, value: bytes, durable: bool) -> None:
        with self.env.begin(write=True) as tx:
            tx.put(key, value)

    def batch(self, records: list[Record]) -> None:
        with self.env.begin(write=True) as tx, tx.cursor() as cursor:
            cursor.putmulti(records)

    def get(self, key: bytes) -> Any:
        with self.env.begin() as tx:
            return tx.get(key)

    def many(self, keys: list[bytes]) -> list[Any]:
        with self.env.begin() as tx, tx.cursor() as cursor:
            found = dict(cursor.getmulti(keys))
        return [found.get(key) for key in keys]

    def scan(self) -> Iterator[Record]:
        with self.env.begin() as tx, tx.cursor() as cursor:
            yield from cursor

    def close(self) -> None:
        self.env.close()


class Rocks:
    """RocksDB by rocksdict, with raw bytes and a cache as large as Pando's memory."""

    name = "rocksdict"

    def __init__(self, path: Path) -> None:
        import rocksdict

        self.module = rocksdict
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        tables = rocksdict.BlockBasedOptions()
        tables.set_block_cache(rocksdict.Cache(CACHE_BYTES))
        options.set_block_based_table_factory(tables)
        self.db = rocksdict.Rdict(str(path), options)
        self.durable = rocksdict.WriteOptions()
        self.durable.sync = True
        self.loose = rocksdict.WriteOptions()

    def put(self, key: bytes, value: bytes, durable: bool) -> None:
        self.db.put(key, value, self.durable if durable else self.loose)

    def batch(self, records: list[Record]) -> None:
        batch = self.module.WriteBatch(raw_mode=True)
        for key, value in records:
            batch.put(key, value)
        self.db.write(batch, self.durable)

    def get(self, key: bytes) -> Any:
        return self.db.get(key)

    def many(self, keys: list[bytes]) -> list[Any]:
        return self.db.get(keys)

    def scan(self) -> Iterator[Record]:
        return iter(self.db.items())

    def close(self) -> None:
        self.db.close()


class Sqlite:
    """The standard library's sqlite3: a table without row ids, in WAL mode."""

    name = "sqlite3"

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self.db = sqlite3.connect(path / "data", isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute(f"PRAGMA cache_size = -{CACHE_BYTES >> 10}")
        self.db.execute("PRAGMA synchronous = FULL")
        self.db.execute("CREATE TABLE t(k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID")
        self.is_durable = True

    def put(self, key: bytes, value: bytes, durable: bool) -> None:
        if durable != self.is_durable:
            self.db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self.is_durable = durable
        self.db.execute("INSERT OR REPLACE INTO t VALUES (?, ?)", (key, value))

    def batch(self, records: list[Record]) -> None:
        self.db.execute("BEGIN")
        self.db.executemany("INSERT OR REPLACE INTO t VALUES (?, ?)", records)
        self.db.execute("COMMIT")

    def get(self, key: bytes) -> Any:
        row = self.db.execute("SELECT v FROM t WHERE k = ?", (key,)).fetchone()
        return row and row[0]

    def many(self, keys: list[bytes]) -> list[Any]:
        return [self.get(key) for key in keys]

    def scan(self) -> Iterator[Record]:
        return iter(self.db.execute("SELECT k, v FROM t ORDER BY k"))

    def close(self) -> None:
        self.db.close()


ENGINES: list[Any] = [Pando, Lmdb, Rocks, Sqlite]


def rate(count: int, work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return count / (time.perf_counter() - began)


def measure(engine: Any, path: Path, records: list[Record], singles: int) -> dict[str, float]:
    """The rates of one engine, each answer checked."""
    one = engine(path)
    rates: dict[str, float] = {}
    model = dict(records)
    keys = list(model)
    random.Random(2).shuffle(keys)
    half = len(records) // 2

    def batches() -> None:
        for start in range(0, len(records), BATCH):
            one.batch(records[start : start + BATCH])

    def puts(durable: bool, chosen: list[Record]) -> None:
        for key, value in chosen:
            one.put(key, value, durable)

    def gets() -> None:
        for key in keys[:half]:
            assert one.get(key) == model[key]

    def absent() -> None:
        for key in keys[:half]:
            assert one.get(key + b"x") is None

    def many() -> None:
        for start in range(0, half, BATCH):
            chosen = keys[start : start + BATCH]
            assert one.many(chosen) == [model[key] for key in chosen]

    def scan() -> None:
        assert sum(1 for _ in one.scan()) == len(model)

    rates[f"puts, {BATCH} in each durable transaction"] = rate(len(records), batches)
    rates["puts, each a durable transaction"] = rate(singles, lambda: puts(True, records[:singles]))
    if engine is not Lmdb:
        loose = records[: 10 * singles]
        rates["puts, each a transaction, not flushed"] = rate(len(loose), lambda: puts(False, loose))
    rates["gets in random order"] = rate(half, gets)
    rates["gets of absent keys"] = rate(half, absent)
    rates[f"gets, {BATCH} in each call"] = rate(half, many)
    rates["records of a scan"] = rate(len(model), scan)
    one.close()
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--singles", type=int, default=1000, help="durable transactions of one put")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--dir", type=Path, help="where the databases are; default: a temporary directory")
    arguments = parser.parse_args()
    source = random.Random(1)
    records = [(source.randbytes(16), source.randbytes(VALUE_BYTES)) for _ in range(arguments.records)]
    found: dict[str, dict[str, list[float]]] = {}
    engines = list(ENGINES)
    for repetition in range(arguments.repeat):
        for engine in engines[repetition % len(engines) :] + engines[: repetition % len(engines)]:
            folder = Path(tempfile.mkdtemp(dir=arguments.dir))
            try:
                for name, value in measure(engine, folder / "db", records, arguments.singles).items():
                    found.setdefault(name, {}).setdefault(engine.name, []).append(value)
            except ImportError as error:
                print(f"{engine.name} is left out: {error}")
                ENGINES.remove(engine)
            finally:
                shutil.rmtree(folder)
    names = [engine.name for engine in ENGINES]
    print("| per second |", " | ".join(names), "|")
    print("|---|" + "---:|" * len(names))
    for work, rates in found.items():
        cells = [f"{statistics.median(rates[name]):,.0f}" if name in rates else "-" for name in names]
        print(f"| {work} |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
