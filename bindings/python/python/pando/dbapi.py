"""SQL over Pando's tables, as PEP 249 (DB-API 2.0) describes it.

>>> import pando
>>> with pando.in_memory() as db, db.sql() as connection:
...     cursor = connection.cursor()
...     _ = cursor.execute("CREATE TABLE fruit(id INTEGER PRIMARY KEY, name TEXT)")
...     _ = cursor.execute("INSERT INTO fruit(name) VALUES (?)", ["apple"])
...     connection.commit()
...     cursor.execute("SELECT id, name FROM fruit").fetchall()
[(1, 'apple')]
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _pando
from ._errors import (
    DatabaseError,
    DataError,
    ForkedError,
    IntegrityError,
    InterfaceError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    SqlClosedError,
    SqlConflictError,
)
from ._errors import SqlError as Error
from ._errors import SqlInternalError as InternalError
from ._errors import SqlWarning as Warning

if TYPE_CHECKING:
    from ._database import Database, Path

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "SqlClosedError",
    "SqlConflictError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "sqlite_version",
    "sqlite_version_info",
    "threadsafety",
]

apilevel = "2.0"
# Threads may share the module. They can share a connection without harm, but then they share its transaction as well.
threadsafety = 1
paramstyle = "qmark"

if not hasattr(_pando, "SqlConnection"):
    raise ImportError("this build of pando has no SQL: build it with the feature `sql`, which is on by default")

sqlite_version: str = _pando.sqlite_version()
"""The version of SQLite."""
sqlite_version_info: tuple[int, ...] = tuple(int(part) for part in sqlite_version.split("."))

Parameters = Union[Sequence[Any], Mapping[str, Any]]
Row = tuple[Any, ...]

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = memoryview


def DateFromTicks(ticks: float) -> datetime.date:
    """Returns the local date of a time in seconds since 1970."""
    return Date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:
    """Returns the local time of day of a time in seconds since 1970."""
    return Time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:
    """Returns the local date and time of a time in seconds since 1970."""
    return Timestamp(*time.localtime(ticks)[:6])


class _TypeObject:
    """A type of values, as the description of a result has it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


STRING = _TypeObject("STRING")
BINARY = _TypeObject("BINARY")
NUMBER = _TypeObject("NUMBER")
DATETIME = _TypeObject("DATETIME")
ROWID = _TypeObject("ROWID")

Description = tuple[str, Optional[_TypeObject], None, None, None, None, None]
_TYPES = {"STRING": STRING, "BINARY": BINARY, "NUMBER": NUMBER}
# Statements before which no transaction is begun. SAVEPOINT is none of them: the RELEASE of a savepoint outside of a
# transaction would commit.
_NO_TRANSACTION = frozenset(
    ["BEGIN", "COMMIT", "END", "ROLLBACK", "RELEASE", "PRAGMA", "EXPLAIN", "VACUUM", "ATTACH", "DETACH"]
)


def connect(path: Path, *, autocommit: bool = False, **options: Any) -> Connection:
    """Opens the database in the directory ``path``, or creates it, and connects to it.

    The database is closed with the connection. Use ``pando.create(path).sql()`` for several connections.
    """
    from ._database import create

    db = create(path, **options)
    try:
        return Connection(db, autocommit=autocommit, closes=True)
    except BaseException:
        db.close()
        raise


def _first_word(sql: str) -> str:
    """Returns the first word of a statement in capitals, without the comments before it."""
    rest = sql.lstrip("; \t\r\n\f")
    while rest.startswith(("--", "/*")):
        end = "\n" if rest.startswith("--") else "*/"
        _, _, rest = rest.partition(end)
        rest = rest.lstrip("; \t\r\n\f")
    return rest[:10].split(None, 1)[0].rstrip("(;").upper() if rest else ""


def _check_statement(sql: object) -> None:
    if not isinstance(sql, str):
        raise TypeError(f"a statement must be str, not {type(sql).__name__}")


class Connection:
    """A connection with one transaction at a time.

    A transaction begins with the first statement, and ends with ``commit`` or ``rollback``. With ``autocommit``, each
    statement is a transaction by itself, unless you execute ``BEGIN``.
    """

    Warning = Warning
    Error = Error
    InterfaceError = InterfaceError
    DatabaseError = DatabaseError
    DataError = DataError
    OperationalError = OperationalError
    IntegrityError = IntegrityError
    InternalError = InternalError
    ProgrammingError = ProgrammingError
    NotSupportedError = NotSupportedError

    def __init__(self, db: Database, *, autocommit: bool = False, closes: bool = False) -> None:
        self._db = db
        self._closes = closes
        self._native: Optional[_pando.SqlConnection] = _pando.SqlConnection(db)
        self.autocommit = autocommit

    def _open(self) -> _pando.SqlConnection:
        if self._native is None:
            raise SqlClosedError("the connection is closed")
        return self._native

    def _begins(self, sql: str) -> bool:
        """Returns whether the statement begins a transaction if none is open."""
        return not self.autocommit and _first_word(sql) not in _NO_TRANSACTION

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, or has ended with a statement that failed and is to be rolled back."""
        return not self._open().is_autocommit

    def cursor(self) -> Cursor:
        """Returns a new cursor."""
        self._open()
        return Cursor(self)

    def execute(self, sql: str, parameters: Parameters = ()) -> Cursor:
        """Executes a statement on a new cursor, which is returned."""
        return self.cursor().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Parameters]) -> Cursor:
        """Executes a statement on a new cursor for each of many parameters."""
        return self.cursor().executemany(sql, parameters)

    def commit(self) -> None:
        """Commits the transaction, if there is one. A conflict raises ``SqlConflictError``, and rolls it back.

        If a statement that was stopped has ended the transaction, it raises ``OperationalError``.
        """
        self._open().commit()

    def rollback(self) -> None:
        """Rolls the transaction back, if there is one."""
        self._open().rollback()

    def interrupt(self) -> None:
        """Stops the statement that another thread executes. It raises ``OperationalError``.

        A statement that writes ends its transaction when it is stopped: what came before it is undone, too. Unless it was
        the first one, every further statement and ``commit`` then raise ``OperationalError``, until ``rollback``.
        """
        self._open().interrupt()

    def close(self) -> None:
        """Closes the connection. Its transaction is rolled back."""
        native, self._native = self._native, None
        if native is None:
            return
        was_open = True
        try:
            # Two threads can get here with the same connection. The first to close it does the rest.
            was_open = native.close()
        finally:
            if was_open:
                self._after_close()

    def _after_close(self) -> None:
        """Does what follows the close of the connection. It is called once."""
        if self._closes:
            self._db.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        exception: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        """Commits, or rolls back after an exception, and closes the connection."""
        try:
            if self._native is not None:
                self.commit() if kind is None else self.rollback()
        except ForkedError:
            # The child of a fork has written nothing, and exits as it means to.
            return
        except SqlClosedError:
            # The exception in flight matters more than that the connection or its database was closed meanwhile.
            if kind is None:
                raise
        finally:
            with suppress(ForkedError):
                self.close()


class Cursor:
    """Executes statements and holds the rows of the last one, all of them in memory.

    Use a cursor from one thread: a statement of another thread replaces its rows. Threads that only fetch get each row
    once.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self._result: Optional[_pando.SqlResult] = None
        self._rowcount = -1
        self._lastrowid: Optional[int] = None
        self._closed = False

    @property
    def description(self) -> Optional[tuple[Description, ...]]:
        """For each column its name, the type of its first value, and five times ``None``.

        The type is ``None`` if the value is NULL or there is no row. The whole is ``None`` after a statement that
        returns no rows.
        """
        result = self._result
        if result is None or result.columns is None:
            return None
        types: list[Optional[str]] = result.types or [None] * len(result.columns)
        return tuple(
            (name, _TYPES[kind] if kind is not None else None, None, None, None, None, None)
            for name, kind in zip(result.columns, types)
        )

    @property
    def rowcount(self) -> int:
        """How many rows the last statement changed or returned; -1 before the first one."""
        return self._rowcount

    @property
    def lastrowid(self) -> Optional[int]:
        """The id of the row that was inserted last."""
        return self._lastrowid

    def _check(self) -> None:
        if self._closed:
            raise SqlClosedError("the cursor is closed")
        self.connection._open()

    def execute(self, sql: str, parameters: Parameters = ()) -> Cursor:
        """Executes one statement, with values for its ``?``, or a mapping for names such as ``:name``."""
        self._check()
        _check_statement(sql)
        self._result = None
        self._rowcount = -1
        connection = self.connection
        result = connection._open().execute(sql, parameters, connection._begins(sql))
        self._result = result
        self._rowcount = result.row_count if result.columns is not None else result.changes
        self._lastrowid = result.last_row_id
        return self

    def executemany(self, sql: str, parameters: Iterable[Parameters]) -> Cursor:
        """Executes one statement for each of many parameters. It must not return rows."""
        self._check()
        _check_statement(sql)
        self._result = None
        self._rowcount = -1
        connection = self.connection
        self._rowcount = connection._open().execute_many(sql, parameters, connection._begins(sql))
        return self

    def executescript(self, sql: str) -> Cursor:
        """Executes several statements one after another, without parameters. An open transaction is committed first."""
        self._check()
        self.connection.commit()
        self._result = None
        self.connection._open().execute_script(sql)
        return self

    def _rows(self) -> _pando.SqlResult:
        """Returns the result of the last statement, if it returns rows."""
        self._check()
        # Read once: another thread can execute a statement on this cursor meanwhile.
        result = self._result
        if result is None or result.columns is None:
            raise ProgrammingError("there are no rows: execute a query first")
        return result

    def fetchone(self) -> Optional[Row]:
        """Returns the next row, or ``None`` at the end."""
        rows = self._rows().fetch(1)
        return rows[0] if rows else None

    def fetchmany(self, size: Optional[int] = None) -> list[Row]:
        """Returns the next ``size`` rows, or ``arraysize``."""
        return self._rows().fetch(self.arraysize if size is None else max(size, 0))

    def fetchall(self) -> list[Row]:
        """Returns all remaining rows."""
        result = self._rows()
        return result.fetch(result.row_count)

    def arrow(self) -> _pando.Arrow:
        """Returns all rows of the result as a source of Arrow, for pandas, polars, DuckDB and pyarrow.

        The type of a column is that of its values. Values of different types raise ``DataError``: ``CAST`` them. A
        column without values has its declared type.
        """
        return self._rows().arrow()

    def nextset(self) -> None:
        """Returns ``None``: a statement has one result."""
        self._check()

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Has no effect."""

    def setoutputsize(self, size: int, column: Optional[int] = None) -> None:
        """Has no effect."""

    def close(self) -> None:
        """Closes the cursor."""
        self._closed = True
        self._result = None

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
