"""SQL as PEP 249 describes it: the suite `dbapi-compliance`, and what it does not cover."""

from __future__ import annotations

import datetime
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import dbapi20
import pytest

import pando
from pando import dbapi


class TestCompliance(dbapi20.DatabaseAPI20Test):  # type: ignore[misc]
    """The suite of others, whole, except for what the test cases below give their reasons for."""

    driver = dbapi

    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.connect_args = (self.folder.name,)
        self.connect_kw_args = {"durability": "buffered"}

    def tearDown(self) -> None:
        self.folder.cleanup()

    # SQLite has no stored procedures, and a statement has one result.
    def test_callproc(self) -> None:
        assert not hasattr(dbapi.Cursor, "callproc")

    def test_nextset(self) -> None:
        connection = dbapi.connect(self.folder.name)
        assert connection.cursor().nextset() is None
        connection.close()

    # The type of a column is that of its first value, and the suite's table is empty.
    def test_description(self) -> None:
        connection = dbapi.connect(self.folder.name)
        cursor = connection.execute("CREATE TABLE booze(name varchar(20))")
        assert cursor.description is None
        for types in (None, dbapi.STRING):
            cursor.execute("SELECT name FROM booze")
            assert cursor.description == (("name", types, None, None, None, None, None),)
            cursor.execute("INSERT INTO booze VALUES ('Victoria Bitter')")
        connection.close()

    # Closing twice has no effect, as in the standard library's sqlite3.
    def test_non_idempotent_close(self) -> None:
        connection = dbapi.connect(self.folder.name)
        connection.close()
        connection.close()

    # The suite asks each driver for a test of its own.
    def test_setoutputsize(self) -> None:
        connection = dbapi.connect(self.folder.name)
        connection.cursor().setoutputsize(1000)
        connection.close()


@pytest.fixture
def connection(db: pando.Database) -> dbapi.Connection:
    """A connection with a table."""
    made = db.sql()
    made.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT UNIQUE, b)")
    made.commit()
    return made


def test_values(connection: dbapi.Connection) -> None:
    values: list[Any] = [
        None, 0, -(2**63), 2**63 - 1, 1.5, "é", "", b"", b"\x00\xff", True, bytearray(b"x"), memoryview(b"y"),
    ]  # fmt: skip
    for value in values:
        row = connection.execute("SELECT ?", [value]).fetchone()
        assert row is not None and row[0] == value, value
    times: list[Any] = [datetime.date(2024, 2, 3), datetime.datetime(2024, 2, 3, 4, 5, 6)]
    assert connection.execute("SELECT ?, ?", times).fetchall() == [("2024-02-03", "2024-02-03 04:05:06")]
    assert connection.execute("SELECT date(?)", [times[1]]).fetchone() == ("2024-02-03",)
    for value in (object(), [1], 2**63):
        with pytest.raises((TypeError, OverflowError)):
            connection.execute("SELECT ?", [value])


def test_parameters(connection: dbapi.Connection) -> None:
    insert = connection.execute("INSERT INTO t(a, b) VALUES (:name, :name)", {"name": "x", "unused": 1})
    assert (insert.rowcount, insert.lastrowid, insert.description) == (1, 1, None)
    assert connection.execute("SELECT a, b FROM t").fetchall() == [("x", "x")]
    for sql, parameters in (
        ("SELECT ?", []), ("SELECT ?", [1, 2]), ("SELECT :a", {"b": 1}), ("SELECT 1; SELECT 2", []),
        ("SELECT nothing FROM t", []), ("SELEC", []),
    ):  # fmt: skip
        with pytest.raises(dbapi.ProgrammingError):
            connection.execute(sql, parameters)
    for wrong in ("x", b"x", 7, None, {1: 2}):
        with pytest.raises(TypeError):
            connection.execute("SELECT ?", wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        connection.execute(7)  # type: ignore[arg-type]


def test_fetching(connection: dbapi.Connection) -> None:
    cursor = connection.executemany("INSERT INTO t(id) VALUES (?)", ([number] for number in range(10)))
    assert cursor.rowcount == 10
    cursor.execute("SELECT id AS number FROM t ORDER BY id")
    assert cursor.rowcount == 10 and cursor.description is not None and cursor.description[0][:2] == ("number", dbapi.NUMBER)
    assert cursor.fetchone() == (0,)
    assert cursor.fetchmany() == [(1,)] and cursor.fetchmany(2) == [(2,), (3,)] and cursor.fetchmany(0) == []
    assert list(cursor) == [(number,) for number in range(4, 10)]
    assert cursor.fetchone() is None and cursor.fetchall() == []
    cursor.execute("SELECT id FROM t WHERE id > 100")
    assert cursor.fetchall() == [] and cursor.description is not None
    returned = connection.execute("INSERT INTO t(a) VALUES ('new') RETURNING id, a")
    assert returned.fetchall() == [(10, "new")]


def test_transactions(db: pando.Database, connection: dbapi.Connection) -> None:
    assert not connection.in_transaction
    connection.execute("INSERT INTO t(a) VALUES ('x')")
    assert connection.in_transaction
    other = db.sql()
    assert other.execute("SELECT count(*) FROM t").fetchall() == [(0,)]
    connection.commit()
    assert other.execute("SELECT count(*) FROM t").fetchall() == [(0,)], "the transaction sees its beginning"
    other.rollback()
    assert other.execute("/* now */ -- \n SELECT count(*) FROM t").fetchall() == [(1,)]
    connection.execute("DELETE FROM t")
    connection.rollback()
    assert connection.execute("SELECT count(*) FROM t").fetchall() == [(1,)]
    automatic = db.sql(autocommit=True)
    automatic.execute("INSERT INTO t(a) VALUES ('y')")
    assert not automatic.in_transaction
    with pytest.raises(ZeroDivisionError), db.sql() as third:
        third.execute("DELETE FROM t")
        raise ZeroDivisionError
    with db.sql() as third:
        third.execute("INSERT INTO t(a) VALUES ('z')")
    assert automatic.execute("SELECT a FROM t ORDER BY a").fetchall() == [("x",), ("y",), ("z",)]
    third.close()
    with pytest.raises(dbapi.ProgrammingError):
        third.cursor()


def test_errors(db: pando.Database, connection: dbapi.Connection) -> None:
    connection.execute("INSERT INTO t(id, a) VALUES (1, 'x')")
    connection.commit()
    with pytest.raises(dbapi.IntegrityError) as caught:
        connection.execute("INSERT INTO t(a) VALUES ('x')")
    assert caught.value.sqlite_code == 2067 and isinstance(caught.value, pando.Error)
    connection.rollback()
    first, second = db.sql(), db.sql()
    for one in (first, second):
        one.execute("UPDATE t SET b = coalesce(b, 0) + 1 WHERE id = 1")
    first.commit()
    with pytest.raises(dbapi.OperationalError) as conflict:
        second.commit()
    assert isinstance(conflict.value, pando.ConflictError) and not second.in_transaction
    assert conflict.value.table == "t" and conflict.value.key is not None and conflict.value.key[-1] == 1
    read_only = db.sql()
    read_only.execute("SELECT 1")
    with pytest.raises(dbapi.ProgrammingError):
        read_only.cursor().fetchone()
    assert {one.__name__ for one in dbapi.DatabaseError.__subclasses__()} == {
        "DataError", "OperationalError", "IntegrityError", "SqlInternalError", "ProgrammingError", "NotSupportedError",
    }  # fmt: skip


def test_interrupt(db: pando.Database) -> None:
    connection = db.sql()
    timer = threading.Thread(target=lambda: (time.sleep(0.2), connection.interrupt()))
    timer.start()
    began = time.monotonic()
    with pytest.raises(dbapi.OperationalError):
        connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000) SELECT max(i) FROM n"
        )
    timer.join()
    assert time.monotonic() - began < 30
    assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_scripts_and_dictionaries_of_tables(db: pando.Database, tmp_path: Path) -> None:
    connection = db.sql()
    connection.cursor().executescript(
        "CREATE TABLE a(id INTEGER PRIMARY KEY, n TEXT); INSERT INTO a(n) VALUES ('x'), ('y');"
    )
    assert connection.execute("SELECT n FROM a ORDER BY id").fetchall() == [("x",), ("y",)]
    with dbapi.connect(tmp_path / "other") as made:
        made.execute("CREATE TABLE a(id INTEGER PRIMARY KEY)")
    with dbapi.connect(tmp_path / "other") as made:
        assert made.execute("SELECT count(*) FROM a").fetchone() == (0,)


def test_a_savepoint_begins_a_transaction(connection: dbapi.Connection) -> None:
    connection.execute("CREATE TABLE saved(id INTEGER PRIMARY KEY)")
    connection.commit()
    connection.execute("SAVEPOINT one")
    assert connection.in_transaction
    connection.execute("INSERT INTO saved VALUES (1)")
    connection.execute("RELEASE one")
    connection.rollback()
    assert connection.execute("SELECT count(*) FROM saved").fetchall() == [(0,)]


def test_one_statement(db: pando.Database) -> None:
    db.sql("CREATE TABLE fruit(id INTEGER PRIMARY KEY, name TEXT)")
    assert db.sql("INSERT INTO fruit(name) VALUES (?), (?)", ["apple", "lemon"]).rowcount == 2
    assert db.sql("SELECT name FROM fruit ORDER BY id").fetchall() == [("apple",), ("lemon",)]
    assert [name for (name,) in db.sql("SELECT name FROM fruit WHERE id > :id", {"id": 1})] == ["lemon"]
    assert db.sql("SELECT count(*) AS n FROM fruit").arrow().column_names == ["n"]
    with pytest.raises(dbapi.ProgrammingError):
        db.sql("SELECT nothing FROM fruit")
    with pytest.raises(TypeError):
        db.sql("SELECT 1", autocommit=True)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        db.sql(7)  # type: ignore[call-overload]
    # A transaction that the statement begins ends with its connection.
    db.sql("BEGIN")
    db.sql("DELETE FROM fruit")
    assert db.sql("SELECT count(*) FROM fruit").fetchone() == (0,)


def test_a_close_beside_statements() -> None:
    for _ in range(10):
        db = pando.in_memory()
        db.sql("CREATE TABLE s(k INTEGER PRIMARY KEY, n INT)")
        failures: list[BaseException] = []

        def use(statement: str) -> None:
            try:
                while True:
                    try:
                        db.sql(statement)
                    except pando.ConflictError:
                        pass
            except BaseException as failure:
                failures.append(failure)

        statements = ["INSERT INTO s(n) VALUES (1)", "SELECT count(*) FROM s a, s b", "INSERT INTO s(n) SELECT n FROM s LIMIT 9"]
        threads = [threading.Thread(target=use, args=(statement,)) for statement in statements * 2]
        for thread in threads:
            thread.start()
        time.sleep(0.005)
        db.close()
        for thread in threads:
            thread.join()
        assert len(failures) == len(threads)
        assert all(isinstance(failure, pando.ClosedError) for failure in failures), failures


def test_what_is_closed_is_of_both_kinds() -> None:
    db = pando.in_memory()
    connection, other = db.sql(), db.sql()
    cursor = other.cursor()
    cursor.close()
    connection.close()
    for call in (connection.cursor, connection.commit, cursor.fetchone):
        for kind in (dbapi.ProgrammingError, pando.ClosedError):
            with pytest.raises(kind, match="closed"):
                call()
    db.close()
    for kind in (dbapi.ProgrammingError, pando.ClosedError):
        with pytest.raises(kind, match="closed"):
            other.execute("SELECT 1")


LONG_INSERT = (
    "INSERT INTO t(a) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000000) SELECT i FROM n"
)


def interrupted(connection: dbapi.Connection, sql: str) -> None:
    """Executes a statement that another thread stops."""
    timer = threading.Timer(0.2, connection.interrupt)
    timer.start()
    with pytest.raises(dbapi.OperationalError):
        connection.execute(sql)
    timer.join()


def test_an_interrupt_that_ends_the_transaction(connection: dbapi.Connection) -> None:
    def count() -> Any:
        return connection.execute("SELECT count(*) FROM t").fetchone()[0]

    connection.execute("INSERT INTO t(a) VALUES ('undone')")
    interrupted(connection, LONG_INSERT)
    # Everything fails until the program has rolled back: it would be a transaction without what came before.
    assert connection.in_transaction
    for call in (
        lambda: connection.execute("INSERT INTO t(a) VALUES ('refused')"),
        lambda: connection.executemany("INSERT INTO t(a) VALUES (?)", [("refused",)]),
        lambda: connection.execute("SELECT 1"),
        lambda: connection.execute("COMMIT"),
    ):
        with pytest.raises(dbapi.OperationalError, match="rolled back"):
            call()
    connection.rollback()
    assert not connection.in_transaction and count() == 0
    connection.rollback()
    # A commit fails, and ends it as well.
    for end in (connection.commit, lambda: connection.cursor().executescript("INSERT INTO t(a) VALUES ('refused')")):
        connection.execute("INSERT INTO t(a) VALUES ('undone')")
        interrupted(connection, LONG_INSERT)
        with pytest.raises(dbapi.OperationalError, match="rolled back"):
            end()
        assert not connection.in_transaction and count() == 0
        connection.commit()
    # So does ROLLBACK as a statement. SQLite says that none is open.
    connection.execute("INSERT INTO t(a) VALUES ('undone')")
    interrupted(connection, LONG_INSERT)
    with pytest.raises(dbapi.Error, match="no transaction"):
        connection.execute("rollback")
    assert count() == 0
    # A statement that reads is stopped alone, and so is the first one of a transaction.
    connection.execute("INSERT INTO t(a) VALUES ('kept')")
    interrupted(connection, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n")
    connection.commit()
    interrupted(connection, LONG_INSERT)
    connection.execute("INSERT INTO t(a) VALUES ('also kept')")
    connection.commit()
    assert count() == 2


def test_a_block_whose_database_was_closed() -> None:
    for end in ("database", "connection"):
        db = pando.in_memory()
        with pytest.raises(ZeroDivisionError), db.sql() as connection:
            connection.execute("CREATE TABLE t(a)")
            db.close() if end == "database" else connection.close()
            raise ZeroDivisionError
    db = pando.in_memory()
    with pytest.raises(dbapi.SqlClosedError), db.sql() as connection:
        db.close()
