"""Transactions, snapshots, savepoints, conflicts and threads."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import pando


@dataclass
class Person:
    id: int


def test_a_block_commits_or_rolls_back(db: pando.Database) -> None:
    table = db.table("t", key=str, value=str)
    with db.write() as tx:
        tx[table]["a"] = "1"
        assert "a" not in table
    assert table["a"] == "1" and not tx.is_active
    with pytest.raises(ZeroDivisionError), db.write() as tx:
        tx[table]["a"] = "2"
        raise ZeroDivisionError
    assert table["a"] == "1"
    with db.write() as tx:
        tx[table]["a"] = "3"
        tx.rollback()
    assert table["a"] == "1"
    first = db.write()
    first[table]["b"] = "1"
    number = first.commit()
    assert db.snapshot().commit_number == number
    with pytest.raises(pando.ClosedError):
        first.commit()
    with pytest.raises(pando.ClosedError):
        first[table]["b"] = "2"


def test_savepoints(db: pando.Database) -> None:
    table = db.table("t", key=str, value=str)
    with db.write() as tx:
        inside = tx[table]
        inside["kept"] = ""
        with pytest.raises(ZeroDivisionError), tx.savepoint():
            inside["undone"] = ""
            raise ZeroDivisionError
        with tx.savepoint():
            inside["kept too"] = ""
        point = tx.savepoint()
        inside["undone"] = ""
        point.rollback()
        point.release()
        with pytest.raises(pando.InvalidError):
            point.rollback()
    assert list(table) == ["kept", "kept too"]


def test_conflicts_name_their_place(db: pando.Database) -> None:
    table = db.table("accounts")
    first, second = db.write(), db.write()
    for tx in (first, second):
        tx[table].insert(b"k", b"v")
    first.commit()
    with pytest.raises(pando.ConflictError) as caught:
        second.commit()
    assert (caught.value.table, caught.value.key, caught.value.kind) == ("accounts", b"k", "conflict")
    assert "accounts" in str(caught.value)
    with pytest.raises(pando.ConflictError), db.write() as tx:
        assert tx[table][b"k"] == b"v"
        table[b"k"] = b"w"
        tx[table][b"other"] = b""
    # Under snapshot isolation, a key that was only read may change.
    with db.write(isolation="snapshot") as tx:
        assert tx[table][b"k"] == b"w"
        table[b"k"] = b"x"
        tx[table][b"other"] = b""


def test_transact_runs_again(db: pando.Database) -> None:
    table = db.table("counts", key=str, value="json")
    table["n"] = 0

    def add(tx: pando.Transaction) -> None:
        inside = tx[table]
        now = inside["n"]
        time.sleep(0.0001)
        inside["n"] = now + 1

    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(25):
                db.transact(add, retries=1000)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and table["n"] == 100
    assert db.stats()["conflicts"] > 0, "the threads did meet"


def test_transact_gives_up_and_passes_errors_on(db: pando.Database) -> None:
    table = db.table("t")
    runs = []

    def meets(tx: pando.Transaction) -> None:
        runs.append(tx[table].get(b"k"))
        table[b"k"] = b"%d" % len(runs)
        tx[table][b"other"] = b""

    with pytest.raises(pando.ConflictError):
        db.transact(meets, retries=3)
    assert len(runs) == 4

    def fails(tx: pando.Transaction) -> None:
        tx[table][b"lost"] = b""
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        db.transact(fails)
    assert b"lost" not in table


def test_a_transaction_belongs_to_its_thread(db: pando.Database) -> None:
    table = db.table("t")
    with db.write() as tx:
        inside = tx[table]
        caught: list[BaseException] = []

        def use() -> None:
            for call in (lambda: inside.get(b"k"), tx.commit, tx.rollback, tx.savepoint):
                try:
                    call()
                except pando.ThreadError as error:
                    caught.append(error)

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        assert len(caught) == 4
        inside[b"k"] = b"v"
    assert table[b"k"] == b"v"
    shared = db.write(check_same_thread=False)
    thread = threading.Thread(target=lambda: shared[table].put(b"k", b"w"))
    thread.start()
    thread.join()
    shared.commit()
    assert table[b"k"] == b"w"


def test_a_transaction_within_its_own_call_is_refused(db: pando.Database) -> None:
    table = db.table("t")
    with db.write() as tx:
        inside = tx[table]

        def records() -> object:
            yield b"a", b""
            inside.get(b"a")

        with pytest.raises(pando.ThreadError):
            inside.bulk_load(records())  # type: ignore[arg-type]
        inside[b"b"] = b""
    assert list(table) == [b"b"]


def test_threads_share_a_snapshot_and_an_iterator(db: pando.Database) -> None:
    table = db.table("t", key=int)
    table.update((number, b"%d" % number) for number in range(5000))
    snapshot = db.snapshot()
    view = snapshot[table]
    failures: list[BaseException] = []

    def read() -> None:
        try:
            for number in range(0, 5000, 7):
                assert view[number] == b"%d" % number
            assert len(view.multi_get(range(1000))) == 1000 and len(view) == 5000
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    seen: list[int] = []
    keys = iter(table)

    def drain() -> None:
        while True:
            try:
                seen.append(next(keys))
            except StopIteration:
                return
            except pando.ThreadError:
                continue

    threads = [threading.Thread(target=drain) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(5000)), "each key once"


def test_tables_are_created_within_transactions(db: pando.Database) -> None:
    with pytest.raises(ZeroDivisionError), db.write() as tx:
        tx.create_table("t")
        raise ZeroDivisionError
    assert db.tables() == []
    with db.write() as tx:
        table = tx.create_table("t", layout="lsm", compression="lz4", key=int, value=str)
        table[1] = "one"
        assert db.tables() == []
    assert db.tables() == ["t"]
    opened = db.table("t", key=int, value=str)
    assert (opened.layout, opened.compression, opened.ttl, opened[1]) == ("lsm", "lz4", None, "one")
    with db.write() as tx:
        tx.drop_table("t")
        with pytest.raises(pando.MissingError):
            tx.drop_table("t")
    assert db.tables() == []


@pytest.mark.parametrize("durability", ["sync", "buffered", "lazy"])
def test_commits_survive_closing(tmp_path: Path, durability: pando._database.Durability) -> None:
    with pando.create(tmp_path) as db:
        table = db.table("t")
        with db.write(durability=durability) as tx:
            tx[table][b"k"] = b"v"
    with pando.open(tmp_path) as db:
        assert dict(db.table("t", create=False)) == {b"k": b"v"}


@pytest.mark.parametrize("end", ["rollback", "commit", "close"])
@pytest.mark.parametrize("taken", [0, 1, 20])
def test_iterators_end_with_their_source(db: pando.Database, end: str, taken: int) -> None:
    table = db.table("t", key=int, value=str)
    people = db.typed(Person, key="id")
    table.update({number: "old" for number in range(20)})
    people.insert_many(Person(number) for number in range(20))
    source: Any = db.snapshot() if end == "close" else db.write()
    if end != "close":
        source[table].update({number: "new" for number in range(20)})
    iterators = [iter(source[table]), source[table].range(reverse=True), iter(source[people])]
    for iterator in iterators:
        for _ in range(taken):
            next(iterator)
    getattr(source, end)()
    for iterator in iterators:
        with pytest.raises(pando.ClosedError):
            next(iterator)


def test_an_iterator_of_a_transaction_belongs_to_its_thread(db: pando.Database) -> None:
    table = db.table("t", key=int)
    table.update({number: b"" for number in range(20)})
    raised: list[BaseException] = []
    with db.write() as tx:
        iterator = iter(tx[table])
        next(iterator)

        def use_elsewhere() -> None:
            try:
                next(iterator)
            except pando.ThreadError as error:
                raised.append(error)

        thread = threading.Thread(target=use_elsewhere)
        thread.start()
        thread.join()
        assert len(raised) == 1 and next(iterator) == 1


def test_work_that_does_not_run_before_it_returns(db: pando.Database) -> None:
    table = db.table("t")

    async def coroutine(tx: pando.Transaction) -> None:
        tx[table][b"k"] = b"v"

    def generator(tx: pando.Transaction) -> Iterator[None]:
        tx[table][b"k"] = b"v"
        yield

    async def both(tx: pando.Transaction) -> AsyncIterator[None]:
        tx[table][b"k"] = b"v"
        yield

    def leaves_a_coroutine(tx: pando.Transaction) -> object:
        tx[table][b"l"] = b"v"
        return coroutine(tx)

    for work in (coroutine, generator, both, functools.partial(coroutine), leaves_a_coroutine):
        with pytest.raises(TypeError, match="before it returns"):
            db.transact(work)
    assert not table
    assert list(db.transact(lambda tx: iter([1]))) == [1]


def test_the_last_attempts_hold_back_others() -> None:
    """Without a turn of its own, a transaction that takes long loses against many short ones each time."""
    with pando.in_memory() as db:
        table = db.table("t", key=str, value="json")
        table["n"] = 0
        done = threading.Event()
        failures: list[BaseException] = []

        def count() -> None:
            try:
                while not done.is_set():
                    db.transact(increment, retries=40)
            except BaseException as failure:
                failures.append(failure)

        def increment(tx: pando.Transaction) -> None:
            tx[table]["n"] += 1

        def slow(tx: pando.Transaction) -> None:
            value = tx[table]["n"]
            time.sleep(0.01)
            tx[table]["n"] = value + 1

        threads = [threading.Thread(target=count) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for retries in (10, 5, 10):
                db.transact(slow, retries=retries)
        finally:
            done.set()
            for thread in threads:
                thread.join()
        assert not failures


def test_a_commit_within_the_last_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that commits in another way, or waits for somebody who does, goes on when its turn is over."""
    from pando import _database

    monkeypatch.setattr(_database, "_MOST_HELD_S", 0.05)
    with pando.in_memory() as db:
        table = db.table("t", key=str, value="json")
        table["n"] = 0
        attempts = 0

        def work(tx: pando.Transaction) -> None:
            nonlocal attempts
            attempts += 1
            value = tx[table]["n"]
            if attempts < 3:
                table["n"] = attempts
            tx[table]["n"] = value + 1

        db.transact(work, retries=3)
        assert (attempts, table["n"]) == (3, 3)

        def always(tx: pando.Transaction) -> None:
            tx[table]["n"] += 1
            table["n"] = 7

        with pytest.raises(pando.ConflictError):
            db.transact(always, retries=2)
        hold = db._try_hold_commits()
        assert hold is not None and db._try_hold_commits() is None
        hold.release()
        hold.release()
        table["n"] = 2
