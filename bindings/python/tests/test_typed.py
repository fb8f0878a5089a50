"""Typed tables: rows are objects of a dataclass."""

from __future__ import annotations

import datetime
import random
import sys
import threading
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Optional

import pytest

import pando

UTC = datetime.timezone.utc


@dataclass
class Person:
    id: int
    name: str
    town: Optional[str] = None


@dataclass(frozen=True)
class Everything:
    id: int
    flag: bool
    n: pando.UInt
    x: float
    at: datetime.datetime
    token: uuid.UUID
    raw: bytes
    doc: dict[str, Any]
    tags: list[str]
    other: Any
    maybe: Optional[int] = None


ANN, BOB, CAT = Person(1, "Ann", "Ulm"), Person(2, "Bob"), Person(3, "Cat", "Ulm")


def test_rows_by_key_and_index(db: pando.Database) -> None:
    people = db.typed(Person, key="id", indexes={"by_town": "town, name desc"}, unique={"by_name": "name"})
    assert (people.name, people.key, people.row) == ("person", ["id"], Person)
    people.insert(ANN)
    assert people.insert_many([BOB, CAT]) == 2
    with pytest.raises(pando.ExistsError, match="primary key"):
        people.insert(ANN)
    with pytest.raises(pando.ExistsError, match="by_name"):
        people.insert(Person(4, "Ann"))
    assert people.get(1) == ANN and people.get(9) is None
    assert 1 in people and 9 not in people and len(people) == 3 and people
    assert list(people) == [ANN, BOB, CAT] and list(people.scan(reverse=True, limit=2)) == [CAT, BOB]
    assert list(people.scan(2)) == [BOB, CAT] and list(people.scan(stop=2)) == [ANN] and list(people.scan(2, 3)) == [BOB]
    assert list(people.scan(prefix="Ulm", index="by_town")) == [CAT, ANN]
    assert list(people.scan(prefix=("Ulm", "Ann"), index="by_town")) == [ANN]
    assert list(people.scan(prefix=None, index="by_town")) == [BOB, CAT, ANN]
    assert list(people.scan((None,), ("Ulm",), index="by_town")) == [BOB]
    assert people.count(prefix="Ulm", index="by_town") == 2
    assert people.update(replace(ANN, town="Bonn")) and not people.update(Person(9, "Zoe"))
    people.upsert(Person(4, "Dan", "Bonn"))
    assert [person.id for person in people.scan(prefix="Bonn", index="by_town")] == [4, 1]
    assert people.delete(4) and not people.delete(4)
    assert people.remove(3) == CAT and people.remove(3) is None
    people.clear()
    assert not people and list(people) == [] and people.count(index="by_town") == 0


def test_every_type(db: pando.Database) -> None:
    table = db.typed(Everything, key=["id"])
    now = datetime.datetime.now(datetime.timezone(datetime.timedelta(hours=5)))
    rows = [
        Everything(1, True, 2**64 - 1, 0.1, now, uuid.uuid4(), b"\0\xff", {"a": [1, None]}, ["x"], None, -(2**63)),
        Everything(2, False, 0, float("-inf"), datetime.datetime(1, 1, 1, tzinfo=UTC), uuid.UUID(int=0), b"", {}, [], "s"),
        Everything(3, False, 0, 3, datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), uuid.UUID(int=1), b"", {}, [], [{}]),
    ]
    table.insert_many(rows)
    assert list(table) == rows
    found = table.get(1)
    assert found is not None and found.at.tzinfo is UTC and type(found.x) is float


def refused(row: Any, match: str, table: Any, error: Any = TypeError) -> None:
    with pytest.raises(error, match=match):
        table.insert(row)


def test_values_that_do_not_fit(db: pando.Database) -> None:
    table = db.typed(Everything, key="id")
    good = Everything(1, True, 1, 1.0, datetime.datetime.now(UTC), uuid.uuid4(), b"", {}, [], None)
    refused(replace(good, id="1"), 'column "id" is of type int', table)  # type: ignore[arg-type]
    refused(replace(good, id=True), 'column "id"', table)
    refused(replace(good, id=2**63), 'column "id".*fit', table, OverflowError)
    refused(replace(good, n=-1), 'column "n"', table, OverflowError)
    refused(replace(good, flag=1), 'column "flag"', table)  # type: ignore[arg-type]
    refused(replace(good, at=datetime.datetime(2024, 1, 1)), "time zone", table, pando.InvalidError)
    refused(replace(good, at=5), 'column "at"', table)  # type: ignore[arg-type]
    refused(replace(good, raw="text"), "bytes", table)  # type: ignore[arg-type]
    refused(replace(good, doc={1, 2}), "JSON", table)  # type: ignore[arg-type]
    refused(replace(good, token=None), "null", table, pando.InvalidError)  # type: ignore[arg-type]
    refused(replace(good, x=2**53 + 1), 'column "x".*exactly', table, OverflowError)
    refused(replace(good, x=-(2**1100)), 'column "x"', table, OverflowError)
    refused(replace(good, doc={"x": [float("nan")]}), "JSON", table, ValueError)
    refused(ANN, "must be Everything", table)
    assert len(table) == 0
    with pytest.raises(TypeError):
        table.get("1")
    with pytest.raises(TypeError, match="key has 1 parts"):
        table.get((1, 2))
    with pytest.raises(pando.InvalidError):
        table.get(())
    with pytest.raises(pando.MissingError, match="no index"):
        table.scan(index="absent")
    with pytest.raises(TypeError, match="either"):
        table.scan(1, prefix=1)


def test_classes_that_are_no_rows(db: pando.Database) -> None:
    @dataclass
    class Computed:
        id: int
        late: int = field(init=False)

    class Plain:
        id: int

    @dataclass
    class Strange:
        id: int
        many: complex

    @dataclass
    class Empty:
        pass

    for row, match in [(Computed, "init=False"), (Plain, "dataclass"), (Strange, "complex"), (Empty, "no fields"), (ANN, "dataclass")]:
        with pytest.raises(TypeError, match=match):
            db.typed(row, key="id")  # type: ignore[arg-type]
    with pytest.raises(pando.InvalidError):
        db.typed(Person, key="absent")
    assert db.tables() == []


def test_transactions_and_snapshots(db: pando.Database) -> None:
    people = db.typed(Person, key="id", indexes={"by_town": "town"})
    people.insert(ANN)
    with db.snapshot() as snapshot, db.write() as tx:
        inside = tx[people]
        inside.insert(BOB)
        assert [one.id for one in inside] == [1, 2] and len(people) == 1
        with pytest.raises(pando.ExistsError):
            inside.insert(BOB)
        with tx.savepoint() as savepoint:
            inside.delete(1)
            assert 1 not in inside
            savepoint.rollback()
        assert [one.id for one in inside.scan(prefix=("Ulm",), index="by_town")] == [1]
        tx.commit()
        assert list(people) == [ANN, BOB] and list(snapshot[people]) == [ANN]
        assert snapshot[people].get(2) is None and not hasattr(snapshot[people], "insert")
    with pytest.raises(ZeroDivisionError), db.write() as tx:
        tx[people].clear()
        raise ZeroDivisionError
    assert len(people) == 2

    def failing() -> Any:
        yield CAT
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        people.insert_many(failing())
    assert len(people) == 2
    first, second = db.write(), db.write()
    for tx in (first, second):
        found = tx[people].get(1)
        assert found is not None
        tx[people].update(replace(found, name=found.name + "x"))
    first.commit()
    with pytest.raises(pando.ConflictError):
        second.commit()


def test_many_rows_against_a_model(db: pando.Database) -> None:
    """Scans in chunks return the rows of a sorted list, in both directions and through an index."""
    chance = random.Random(7)
    @dataclass
    class Citizen:
        id: int
        name: str
        town: str

    people = db.typed(Citizen, key=("town", "id"), indexes={"by_name": "name desc"}, name="folk")
    rows = [Citizen(number, f"n{chance.randrange(50)}", chance.choice("abc")) for number in range(3000)]
    people.insert_many(rows)
    model = sorted(rows, key=lambda one: (one.town, one.id))
    assert list(people) == model and list(people.scan(reverse=True)) == model[::-1]
    assert list(people.scan(("b", 100), ("c",))) == [one for one in model if ("b", 100) <= (one.town, one.id) < ("c",)]
    assert list(people.scan(prefix="b", limit=700)) == [one for one in model if one.town == "b"][:700]
    by_name = sorted(model, key=lambda one: one.name, reverse=True)
    assert list(people.scan(index="by_name")) == by_name
    assert list(people.scan(index="by_name", reverse=True)) == by_name[::-1]
    assert people.get(("b", 10**9)) is None and people.get((model[0].town, model[0].id)) == model[0]


def test_a_table_grows_with_its_class(tmp_path: Path) -> None:
    @dataclass
    class First:
        id: int
        name: str

    @dataclass
    class Second:
        id: int
        name: str
        town: str = "Ulm"
        age: Optional[int] = None

    @dataclass
    class Other:
        id: int
        name: int

    with pando.create(tmp_path / "db", durability="buffered") as db:
        old = db.typed(First, key="id", name="t")
        old.insert(First(1, "Ann"))
        new = db.typed(Second, key="id", name="t", indexes={"by_town": "town"})
        assert new.get(1) == Second(1, "Ann", "Ulm")
        assert list(new.scan(prefix="Ulm", index="by_town")) == [Second(1, "Ann")]
        # What was opened as the smaller class cannot make its rows of it.
        with pytest.raises(pando.MismatchError):
            old.get(1)
        for row, key in [(First, "id"), (Other, "id"), (Second, "name")]:
            with pytest.raises(pando.MismatchError):
                db.typed(row, key=key, name="t")
        with pytest.raises(pando.MismatchError, match="by_town"):
            db.typed(Second, key="id", name="t", indexes={"by_town": "name"})
    with pando.open(tmp_path / "db") as db:
        again = db.typed(Second, key="id", name="t")
        # SQL sees the same rows, and an index that it makes does not disturb the handle.
        with db.sql(autocommit=True) as connection:
            assert connection.execute("SELECT name, town FROM t").fetchall() == [("Ann", "Ulm")]
            connection.execute("INSERT INTO t(id, name) VALUES (2, 'Bob')")
            connection.execute("CREATE INDEX by_name ON t(name)")
        assert again.get(2) == Second(2, "Bob", "Ulm")
        again.insert(Second(3, "Cat"))
        with db.write() as tx:
            assert [one.name for one in tx[again].scan(prefix="Cat", index="by_town")] == []
        assert list(again.scan("B", "C", index="by_name")) == [Second(2, "Bob", "Ulm")]
        assert again.count(index="by_name") == 3


def test_keyword_only_fields_and_one_field(db: pando.Database) -> None:
    @dataclass
    class Word:
        word: str

    words = db.typed(Word, key="word")
    words.insert(Word("b"))
    words.insert(Word("a"))
    assert list(words) == [Word("a"), Word("b")] and words.get("a") == Word("a")

    if sys.version_info >= (3, 10):

        @dataclass(kw_only=True)
        class Named:
            id: int
            name: str

        named = db.typed(Named, key="id")
        named.insert(Named(name="a", id=1))
        assert named.get(1) == Named(id=1, name="a")


def test_threads_insert(db: pando.Database) -> None:
    people = db.typed(Person, key="id", unique={"by_name": "name"})
    taken: list[int] = []

    def work(first: int) -> None:
        for number in range(first, 400, 4):
            try:
                people.insert(Person(number, f"n{number % 100}"))
            except pando.ExistsError:
                taken.append(number)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(people) == 100 and len(taken) == 300


def test_other_databases_and_ends(db: pando.Database) -> None:
    people = db.typed(Person, key="id")
    people.insert(ANN)
    with pando.in_memory() as other:
        with other.write() as tx, pytest.raises(pando.InvalidError):
            tx[people]
        with other.snapshot() as snapshot, pytest.raises(pando.MissingError):
            snapshot[people]
    scan = people.scan()
    db.close()
    with pytest.raises(pando.ClosedError):
        people.get(1)
    with pytest.raises(pando.ClosedError):
        next(scan)


def test_a_subclass_loses_nothing(db: pando.Database) -> None:
    @dataclass
    class Worker(Person):
        wage: int = 0

    class Guest(Person):
        """Has the fields of a person."""

    people = db.typed(Person, key="id")
    people.insert(Guest(1, "Ann"))
    refused(Worker(2, "Bob"), "Worker has the further field 'wage'", people)
    with pytest.raises(TypeError, match="wage"):
        people.insert_many([Person(3, "Cat"), Worker(2, "Bob")])
    assert list(people) == [Person(1, "Ann")]


def test_a_large_integer_that_is_exact_fits_a_float(db: pando.Database) -> None:
    @dataclass
    class Point:
        id: int
        x: float

    points = db.typed(Point, key="id")
    for x in (2**53, -(2**60), 10**22):
        points.upsert(Point(1, x))
        found = points.get(1)
        assert found is not None and found.x == x and type(found.x) is float


def test_json_has_no_nan(db: pando.Database) -> None:
    table = db.table("t", value="json")
    for number in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="JSON"):
            table[b"k"] = {"n": number}
    assert b"k" not in table


def test_a_read_only_database_opens_what_fits(tmp_path: Path) -> None:
    @dataclass
    class Longer(Person):
        age: Optional[int] = None

    path = tmp_path / "db"
    with pando.create(path, durability="buffered") as db:
        db.typed(Person, key="id", indexes={"by_town": "town"}).insert(ANN)
    with pando.open(path, read_only=True) as db:
        people = db.typed(Person, key="id", indexes={"by_town": "town"})
        assert people.get(1) == ANN and people.count(prefix="Ulm", index="by_town") == 1
        with pytest.raises(pando.ReadOnlyError):
            people.insert(BOB)
        with pytest.raises(pando.MissingError, match="absent"):
            db.typed(Person, key="id", name="absent")
        with pytest.raises(pando.MismatchError, match="3 columns, not 4"):
            db.typed(Longer, key="id", name="person")
        with pytest.raises(pando.MismatchError, match='no complete index "by_name"'):
            db.typed(Person, key="id", unique={"by_name": "name"})
