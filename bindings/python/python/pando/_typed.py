"""Typed tables: rows as objects of a dataclass."""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Callable,
    Generic,
    Optional,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from . import _pando

if TYPE_CHECKING:
    from typing_extensions import TypeGuard

    from ._pando import Arrow

R = TypeVar("R")

UInt = Annotated[int, "uint"]
"""The type of a field whose column has unsigned integers of 64 bits. ``int`` is one of signed integers."""

_TYPES: dict[Any, str] = {
    bool: "bool",
    int: "int",
    float: "float",
    str: "text",
    bytes: "bytes",
    datetime.datetime: "timestamp",
    uuid.UUID: "uuid",
    dict: "json",
    list: "json",
    Any: "json",
}


def _column(field: str, hint: Any) -> tuple[str, bool]:
    """Returns the type of the column of a field, and whether it can be null."""
    kinds = get_args(hint) if get_origin(hint) is Union or type(hint).__name__ == "UnionType" else (hint,)
    rest = [kind for kind in kinds if kind is not type(None)]
    is_nullable = len(rest) < len(kinds)
    if len(rest) == 1:
        kind = rest[0]
        if get_origin(kind) is Annotated:
            base, *notes = get_args(kind)
            kind = "uint" if base is int and "uint" in notes else base
        if kind == "uint":
            return "uint", is_nullable
        found = _TYPES.get(get_origin(kind) or kind)
        if found is not None:
            return found, is_nullable or kind is Any
    names = "bool, int, float, str, bytes, datetime, UUID, dict, list, Any"
    raise TypeError(f"field {field!r} has type {hint!r}; a column is one of {names}, pando.UInt, or an Optional of these")


def _fields(row: Any) -> tuple[dataclasses.Field[Any], ...]:
    """Returns the fields of a dataclass."""
    if not isinstance(row, type) or not dataclasses.is_dataclass(row):
        raise TypeError(f"the rows of a typed table are a dataclass, not {row!r}")
    return dataclasses.fields(row)


class _Shape(Generic[R]):
    """How objects of a class become rows, and rows objects."""

    def __init__(self, row: type[R]) -> None:
        fields = _fields(row)
        hints = get_type_hints(row, include_extras=True)
        without = [field.name for field in fields if not field.init]
        if without:
            raise TypeError(f"field {without[0]!r} of {row.__name__} has init=False, so that a row cannot be made from it")
        if not fields:
            raise TypeError(f"{row.__name__} has no fields")
        self.row = row
        self.names = [field.name for field in fields]
        self.columns: list[tuple[str, str, bool, Any]] = []
        for field in fields:
            kind, is_nullable = _column(field.name, hints[field.name])
            default = None if field.default is dataclasses.MISSING else field.default
            self.columns.append((field.name, kind, is_nullable, default))
        get = attrgetter(*self.names)
        self._values: Callable[[R], tuple[Any, ...]] = get if len(fields) > 1 else lambda one: (get(one),)
        self._by_name = any(getattr(field, "kw_only", False) for field in fields)

    def values(self, row: R) -> tuple[Any, ...]:
        """Returns the values of an object."""
        if type(row) is not self.row:
            self._check_class(row)
        return self._values(row)

    def _check_class(self, row: R) -> None:
        """Refuses an object of another class, and one of a subclass whose further fields the table cannot keep."""
        if not isinstance(row, self.row):
            raise TypeError(f"a row must be {self.row.__name__}, not {type(row).__name__}")
        for field in _fields(type(row)):
            if field.name not in self.names:
                raise TypeError(
                    f"a row must be {self.row.__name__}, and {type(row).__name__} has the further field {field.name!r}, "
                    "for which the table has no column"
                )

    def make(self, values: tuple[Any, ...]) -> R:
        """Returns the object of these values."""
        return self.row(**dict(zip(self.names, values))) if self._by_name else self.row(*values)

    def check(self, view: _pando.TypedView) -> None:
        """Raises ``MismatchError`` if the table has other columns than the class has fields."""
        stored = view.columns
        wanted = [(name, kind, null) for name, kind, null, _ in self.columns]
        if stored != wanted:
            from ._errors import MismatchError

            raise MismatchError(f"table {view.name!r} has the columns {stored}, and {self.row.__name__} {wanted}")


class TypedRows(Generic[R]):
    """A typed table as a snapshot sees it. Its rows are objects of a dataclass, in the order of the primary key."""

    __slots__ = ("_shape", "_view")

    def __init__(self, view: _pando.TypedView, shape: _Shape[R]) -> None:
        self._view = view
        self._shape = shape

    @property
    def name(self) -> str:
        """The name of the table."""
        return self._view.name

    @property
    def key(self) -> list[str]:
        """The fields of the primary key."""
        return self._view.key

    @property
    def row(self) -> type[R]:
        """The class of the rows."""
        return self._shape.row

    def get(self, key: Any) -> Optional[R]:
        """Returns the row at a primary key, or ``None``. A key of several fields is a tuple."""
        values = self._view.get(key)
        return None if values is None else self._shape.make(values)

    def __contains__(self, key: object) -> bool:
        return key in self._view

    def __len__(self) -> int:
        """Counts the rows, in O(n)."""
        return self._view.count()

    def __bool__(self) -> bool:
        return bool(self._view.scan(limit=1).chunk())

    def __iter__(self) -> Iterator[R]:
        return self.scan()

    def scan(
        self,
        start: Any = None,
        stop: Any = None,
        *,
        prefix: Any = None,
        index: Optional[str] = None,
        reverse: bool = False,
        limit: Optional[int] = None,
    ) -> Iterator[R]:
        """Returns the rows from ``start`` on and before ``stop``, or those that begin with ``prefix``.

        Each is a value of the first field of the primary key, or a tuple of values of its first fields. With ``index``
        they are those of this index, and so is the order of the rows. ``None`` sets no bound; ``(None,)`` is the null of
        an index's first field.
        """
        scan = self._view.scan(start, stop, prefix=prefix, index=index, reverse=reverse, limit=limit)
        return map(self._shape.make, scan)

    def count(self, start: Any = None, stop: Any = None, *, prefix: Any = None, index: Optional[str] = None) -> int:
        """Counts the rows of a range, one by one. The range is given as to ``scan``."""
        return self._view.count(start, stop, prefix=prefix, index=index)

    def arrow(self) -> Arrow:
        """Returns all rows as a source of Arrow, a column for each field, for pandas, polars, DuckDB and pyarrow."""
        return self._view.arrow()

    def __repr__(self) -> str:
        return f"<pando.{type(self).__name__} {self.name!r} of {self._shape.row.__name__}>"


class TypedTable(TypedRows[R]):
    """A typed table of a database or of a transaction.

    Of a database, each write is a transaction by itself, and an iterator sees the moment of its beginning.
    """

    __slots__ = ()

    def insert(self, row: R) -> None:
        """Inserts a row; ``ExistsError`` if its primary key, or its values in a unique index, exist."""
        self._view.insert(self._shape.values(row))

    def insert_many(self, rows: Iterable[R]) -> int:
        """Inserts many rows in one transaction. Returns how many there were."""
        return self._view.insert_many(map(self._shape.values, rows))

    def upsert(self, row: R) -> None:
        """Puts a row, whether or not its primary key exists."""
        self._view.upsert(self._shape.values(row))

    def update(self, row: R) -> bool:
        """Replaces the row with the same primary key. Returns whether there was one; if not, nothing is written."""
        return self._view.update(self._shape.values(row))

    def delete(self, key: Any) -> bool:
        """Deletes the row at a primary key. Returns whether there was one."""
        return self._view.delete(key)

    def remove(self, key: Any) -> Optional[R]:
        """Deletes the row at a primary key and returns it, or ``None`` if there was none."""
        values = self._view.remove(key)
        return None if values is None else self._shape.make(values)

    def clear(self) -> None:
        """Deletes all rows."""
        self._view.clear()


def is_typed(table: object) -> TypeGuard[TypedRows[Any]]:
    """Returns whether this is a typed table."""
    return isinstance(table, TypedRows)


def ensure(
    db: _pando.Database,
    row: type[R],
    *,
    key: Union[str, Sequence[str]],
    name: Optional[str],
    indexes: Optional[Mapping[str, str]],
    unique: Optional[Mapping[str, str]],
) -> TypedTable[R]:
    """Creates, extends or opens the typed table of a dataclass."""
    shape = _Shape(row)
    parts = key.split(",") if isinstance(key, str) else list(key)
    asked = [(index, parts, False) for index, parts in (indexes or {}).items()]
    asked += [(index, parts, True) for index, parts in (unique or {}).items()]
    name = row.__name__.lower() if name is None else name
    view = _pando._ensure_typed(db, name, shape.columns, parts, asked)
    return TypedTable(view, shape)


def within(source: Union[_pando.Snapshot, _pando.Transaction], table: TypedRows[R]) -> TypedTable[R]:
    """Returns a table of the database as a transaction sees it."""
    return TypedTable(_pando.TypedView(source, table._view), table._shape)


def at(source: _pando.Snapshot, table: TypedRows[R]) -> TypedRows[R]:
    """Returns a table of the database as a snapshot sees it."""
    view = _pando.TypedView(source, table.name)
    table._shape.check(view)
    return TypedRows(view, table._shape)
