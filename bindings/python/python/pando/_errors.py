"""Exceptions. Each kind of error of the engine has a class, and all of them are a ``pando.Error``."""

from __future__ import annotations

from typing import ClassVar, Optional

# Result codes of SQLite, as far as they decide the class of an exception.
_SQLITE_ERROR = 1
_SQLITE_INTERNAL = 2
_SQLITE_NOMEM = 7
_SQLITE_CORRUPT = 11
_SQLITE_FULL = 13
_SQLITE_TOOBIG = 18
_SQLITE_CONSTRAINT = 19
_SQLITE_MISMATCH = 20
_SQLITE_MISUSE = 21
_SQLITE_RANGE = 25
_SQLITE_NOTADB = 26
_SQLITE_BUSY_SNAPSHOT = 517


class Error(Exception):
    """The base of all exceptions of Pando."""

    kind: ClassVar[str] = "error"
    """The kind, as the engine and the command line name it."""


class ConflictError(Error):
    """Another transaction changed what this one has read. Nothing was written; run the transaction again."""

    kind = "conflict"

    def __init__(self, message: str, table: Optional[str] = None, key: Optional[bytes] = None) -> None:
        super().__init__(message)
        self.table = table
        """The name of the table, if it is known."""
        self.key = key
        """The key that was changed, as it is stored; ``None`` if the table itself was created or dropped."""


class SnapshotTooOldError(Error):
    """The snapshot or transaction has expired. Nothing was written; begin a new one."""

    kind = "snapshot too old"


class TooOldError(Error):
    """The changes after the asked commit are no longer kept. Begin again from a copy of the database."""

    kind = "too old"


class FullError(Error):
    """The disk, a quota or the memory budget is full. Nothing was written."""

    kind = "full"


class ExistsError(Error):
    """The key, table or database already exists."""

    kind = "exists"


class MissingError(Error):
    """The table or database does not exist."""

    kind = "missing"


class WouldWaitError(Error):
    """A call that must not wait needs something that is not in memory."""

    kind = "would wait"


class InvalidError(Error, ValueError):
    """An argument is out of range, or a call does not fit its object."""

    kind = "invalid"


class MismatchError(Error):
    """The options contradict the stored ones."""

    kind = "mismatch"


class LockedError(Error):
    """Another process, or this one, has the database open."""

    kind = "locked"


class ReadOnlyError(Error):
    """The database is read-only, and the call would write."""

    kind = "read only"


class ForeignError(Error):
    """The files are not a Pando database, or have a version that this program does not know."""

    kind = "foreign"


class CorruptError(Error):
    """Bytes differ from what was written. Restore a backup, or salvage the database."""

    kind = "corruption"


class IoError(Error):
    """A call of the operating system failed."""

    kind = "io"


class LatchedError(Error):
    """An earlier failure stopped all writing. Close the database, fix the cause, and open it again."""

    kind = "latched"


class IndeterminateError(Error):
    """The commit may or may not survive. Open the database again to find out."""

    kind = "indeterminate"


class ClosedError(Error):
    """The database, snapshot or transaction is closed."""

    kind = "closed"


class ForkedError(Error):
    """The object was inherited through a fork. Open the database in the child."""

    kind = "forked"


class ThreadError(Error):
    """The object belongs to another thread, or another thread uses it at this moment."""

    kind = "thread"


class InternalError(Error):
    """A defect in Pando. Please report it."""

    kind = "internal"


class SqlWarning(Exception):
    """The class ``Warning`` of PEP 249. Pando never raises it."""


class SqlError(Error):
    """The base of all exceptions of ``pando.dbapi``."""

    sqlite_code: Optional[int] = None
    """The extended result code of SQLite, if a statement failed with one."""


class InterfaceError(SqlError):
    """The module is used in a wrong way."""


class DatabaseError(SqlError):
    """The base of errors of the database."""


class DataError(DatabaseError):
    """A value is too long, or of the wrong type."""


class OperationalError(DatabaseError):
    """The statement could not be carried out, for a reason that is not in the statement."""


class IntegrityError(DatabaseError):
    """A constraint was violated."""


class SqlInternalError(DatabaseError):
    """The database is damaged."""


class ProgrammingError(DatabaseError):
    """The statement, its parameters or the order of calls is wrong."""


class NotSupportedError(DatabaseError):
    """The database does not support what was asked for."""


class SqlClosedError(ProgrammingError, ClosedError):
    """The connection or its database is closed."""

    kind = "closed"


class SqlConflictError(OperationalError, ConflictError):
    """The transaction had a conflict. Nothing was written; run it again."""

    kind = "conflict"


_CLASSES: dict[int, type[SqlError]] = {
    _SQLITE_ERROR: ProgrammingError,
    _SQLITE_MISUSE: ProgrammingError,
    _SQLITE_RANGE: ProgrammingError,
    _SQLITE_INTERNAL: SqlInternalError,
    _SQLITE_CORRUPT: SqlInternalError,
    _SQLITE_NOTADB: SqlInternalError,
    _SQLITE_TOOBIG: DataError,
    _SQLITE_MISMATCH: DataError,
    _SQLITE_CONSTRAINT: IntegrityError,
}


def of_sql(code: int, message: str, table: Optional[str] = None, key: Optional[bytes] = None) -> SqlError:
    """Returns the exception for an extended result code of SQLite; a conflict has a table and a key."""
    if code == _SQLITE_BUSY_SNAPSHOT:
        error: SqlError = SqlConflictError(message, table, key)
    else:
        error = _CLASSES.get(code & 0xFF, OperationalError)(message)
    error.sqlite_code = code
    return error


def programming_error(message: str) -> ProgrammingError:
    """Returns the exception for a wrong order of calls."""
    return ProgrammingError(message)
