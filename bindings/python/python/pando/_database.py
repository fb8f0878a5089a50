"""The classes that a program uses: thin over the native ones, with what is quicker said in Python."""

from __future__ import annotations

import inspect
import random
import threading
import time
from collections.abc import ItemsView, Iterable, Iterator, Mapping, MutableMapping, Sequence, ValuesView
from datetime import timedelta
from io import BufferedReader
from os import PathLike
from typing import TYPE_CHECKING, Any, Callable, Literal, Optional, Protocol, TypeVar, Union, overload

from . import _pando, _typed
from ._changes import Consumer, ConsumerInfo, Tables, names_of
from ._errors import ConflictError, SnapshotTooOldError
from ._pando import ChangeFeed
from ._typed import TypedRows, TypedTable
from ._values import file_of

if TYPE_CHECKING:
    from .dbapi import Connection, Cursor, Parameters

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")
R = TypeVar("R")
T = TypeVar("T")

Path = Union[str, "PathLike[str]"]
Seconds = Union[float, timedelta]
Durability = Literal["sync", "buffered", "lazy"]
Isolation = Literal["serializable", "snapshot"]
Layout = Literal["btree", "lsm"]
Compression = Literal["none", "lz4"]
KeyType = Union[type[bytes], type[str], type[int]]
ValueType = Union[type[bytes], type[str], Literal["json"]]

W = TypeVar("W", covariant=True)


class Keyed(Protocol[K, W]):
    """An object whose values are found by its keys, as ``dict.update`` takes it."""

    def keys(self) -> Iterable[K]: ...
    def __getitem__(self, key: K, /) -> W: ...


# What `dict.update` takes: a mapping, an object with keys, or pairs, each a tuple or a list.
Records = Union[Mapping[K, V], Keyed[K, V], Iterable[tuple[K, V]], Iterable[list[Any]]]

_ABSENT: Any = object()
# The pause before a second attempt is at most so long, and doubles with each further one.
_FIRST_PAUSE_S = 0.00005
_LONGEST_PAUSE_S = 0.05
# How many attempts hold back other commits, and for how long at most. A work that waits for one of these goes on then.
_GATED_ATTEMPTS = 4
_MOST_HELD_S = 0.5
# How long an attempt waits for others that do so, and how often it asks.
_LONGEST_WAIT_S = 5.0
_ASK_AGAIN_S = 0.001


class _Items(ItemsView[K, V]):
    """Pairs in key order, read in chunks."""

    _mapping: _pando.View[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return self._mapping.range()

    def __reversed__(self) -> Iterator[tuple[K, V]]:
        return self._mapping.range(reverse=True)


class _Values(ValuesView[V]):
    """Values in the order of their keys, read in chunks."""

    _mapping: _pando.View[Any, V]

    def __iter__(self) -> Iterator[V]:
        return self._mapping.range_values()

    def __reversed__(self) -> Iterator[V]:
        return self._mapping.range_values(reverse=True)


class SnapshotTable(_pando.View[K, V], Mapping[K, V]):
    """A table as a snapshot sees it: a ``Mapping`` in key order."""

    __slots__ = ()

    def open_value(self, key: K) -> BufferedReader:
        """Returns the bytes of a value of any length as a binary file; ``KeyError`` if the key does not exist."""
        return file_of(self._open_value(key))

    def items(self) -> ItemsView[K, V]:
        return _Items(self)

    def values(self) -> ValuesView[V]:
        return _Values(self)


class _Writable(_pando.WritableView[K, V], MutableMapping[K, V]):
    """What the tables of databases and of transactions have in common."""

    __slots__ = ()

    def open_value(self, key: K) -> BufferedReader:
        """Returns the bytes of a value of any length as a binary file; ``KeyError`` if the key does not exist."""
        return file_of(self._open_value(key))

    def items(self) -> ItemsView[K, V]:
        return _Items(self)

    def values(self) -> ValuesView[V]:
        return _Values(self)

    @overload
    def pop(self, key: K, /) -> V: ...
    @overload
    def pop(self, key: K, /, default: V) -> V: ...
    @overload
    def pop(self, key: K, /, default: D) -> Union[V, D]: ...
    def pop(self, key: K, /, default: Any = _ABSENT) -> Any:
        """Deletes ``key`` and returns its value, in one transaction."""
        # JSON has a value that looks like an absent one.
        found = self._pop(key)
        if found is not None:
            return found[0]
        if default is _ABSENT:
            raise KeyError(key)
        return default

    def popitem(self, last: bool = True) -> tuple[K, V]:
        """Deletes the record with the largest key, or the smallest one, and returns it, in one transaction."""
        popped = self._pop_end(last)
        if popped is None:
            raise KeyError("popitem(): the table is empty")
        return popped

    def setdefault(self, key: K, default: Any = None) -> V:
        """Sets ``key`` to ``default`` if it does not exist, and returns its value, in one transaction."""
        return self._get_or_put(key, default)

    def update(self, other: Records[K, V] = (), /, **more: V) -> None:
        """Puts many records, in one transaction."""
        if more:
            given: Any = other
            merged: dict[Any, Any] = dict(given)
            merged.update(more)
            other = merged
        self.put_many(other)


class Table(_Writable[K, V]):
    """A table of a database: a ``MutableMapping`` in key order.

    Each read sees the newest state, each write is a transaction by itself, and an iterator sees the moment of its
    beginning. ``len`` counts the keys, in O(n).
    """

    __slots__ = ()


class TransactionTable(_Writable[K, V]):
    """A table within a transaction: a ``MutableMapping`` in key order.

    An iterator sees the writes that the transaction made before the iterator read its current chunk.
    """

    __slots__ = ()


class Snapshot(_pando.Snapshot):
    """A read-only view of everything that was committed at one moment. Threads can share it."""

    __slots__ = ()

    @overload
    def __getitem__(self, table: str, /) -> SnapshotTable[bytes, bytes]: ...
    @overload
    def __getitem__(self, table: Table[K, V], /) -> SnapshotTable[K, V]: ...
    @overload
    def __getitem__(self, table: TypedTable[R], /) -> TypedRows[R]: ...
    def __getitem__(self, table: Any, /) -> Any:
        """Returns a table, by its name or as the database's."""
        if _typed.is_typed(table):
            return _typed.at(self, table)
        view: SnapshotTable[Any, Any] = SnapshotTable(self, table)
        return view


class Transaction(_pando.Transaction):
    """A read-write transaction. As a context manager it commits at the end, and rolls back after an exception."""

    __slots__ = ()

    @overload
    def __getitem__(self, table: str, /) -> TransactionTable[bytes, bytes]: ...
    @overload
    def __getitem__(self, table: Table[K, V], /) -> TransactionTable[K, V]: ...
    @overload
    def __getitem__(self, table: TransactionTable[K, V], /) -> TransactionTable[K, V]: ...
    @overload
    def __getitem__(self, table: TypedTable[R], /) -> TypedTable[R]: ...
    def __getitem__(self, table: Any, /) -> Any:
        """Returns a table, by its name or as the database's."""
        if _typed.is_typed(table):
            return _typed.within(self, table)
        view: TransactionTable[Any, Any] = TransactionTable(self, table)
        return view

    def create_table(
        self,
        name: str,
        *,
        layout: Layout = "btree",
        ttl: Union[Seconds, Literal["by-key"], None] = None,
        compression: Compression = "none",
        key: KeyType = bytes,
        value: ValueType = bytes,
    ) -> TransactionTable[Any, Any]:
        """Creates a table. Others see it after the commit."""
        self._create_table(name, layout=layout, ttl=ttl, compression=compression)
        return TransactionTable(self, name, key=key, value=value)


class _Turn:
    """Holds back the commits of all others for the last attempts of a transaction, for at most ``_MOST_HELD_S``."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._hold: Optional[_pando.CommitHold] = None
        self._timer: Optional[threading.Timer] = None

    @property
    def is_taken(self) -> bool:
        return self._hold is not None

    def take(self) -> None:
        """Waits until no other transaction holds back commits, and then does so. Does nothing if that takes too long."""
        until = time.monotonic() + _LONGEST_WAIT_S
        hold = self._db._try_hold_commits()
        while hold is None and time.monotonic() < until:
            time.sleep(random.uniform(0, _ASK_AGAIN_S))
            hold = self._db._try_hold_commits()
        if hold is None:
            return
        try:
            self._timer = threading.Timer(_MOST_HELD_S, hold.release)
            self._timer.daemon = True
            self._timer.start()
        except RuntimeError:
            # There can be no further thread. Without a limit of time, others could wait forever.
            hold.release()
            return
        self._hold = hold

    def commit(self, tx: Transaction) -> None:
        """Commits a transaction, unless it has ended, past the commits that are held back."""
        if self._hold is not None and tx.is_active:
            self._hold.commit(tx)

    def __enter__(self) -> _Turn:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._hold is not None:
            self._hold.release()


class Database(_pando.Database):
    """An open database. As a context manager it is closed at the end."""

    __slots__ = ()

    @overload
    def table(self, name: str, *, create: bool = True) -> Table[bytes, bytes]: ...
    @overload
    def table(self, name: str, *, key: type[K], create: bool = True) -> Table[K, bytes]: ...
    @overload
    def table(self, name: str, *, key: type[K], value: type[V], create: bool = True) -> Table[K, V]: ...
    @overload
    def table(self, name: str, *, value: type[V], create: bool = True) -> Table[bytes, V]: ...
    @overload
    def table(self, name: str, *, key: type[K], value: Literal["json"], create: bool = True) -> Table[K, Any]: ...
    @overload
    def table(self, name: str, *, value: Literal["json"], create: bool = True) -> Table[bytes, Any]: ...
    def table(self, name: str, *, key: Any = bytes, value: Any = bytes, create: bool = True) -> Any:
        """Returns a table, and creates it with default options if it does not exist and ``create`` is true.

        ``key`` is ``bytes``, ``str`` or ``int``, and ``value`` is ``bytes``, ``str`` or ``"json"``. Neither is
        stored: use the same ones each time.
        """
        view: Table[Any, Any] = Table(self, name, key=key, value=value, create=create)
        return view

    def create_table(
        self,
        name: str,
        *,
        layout: Layout = "btree",
        ttl: Union[Seconds, Literal["by-key"], None] = None,
        compression: Compression = "none",
        key: KeyType = bytes,
        value: ValueType = bytes,
    ) -> Table[Any, Any]:
        """Creates a table with options, which are stored. ``ttl`` is how many seconds an entry lives,
        or ``"by-key"``: as its ``put(key, value, ttl=seconds)`` says."""
        self._create_table(name, layout=layout, ttl=ttl, compression=compression)
        return Table(self, name, key=key, value=value)

    def typed(
        self,
        row: type[R],
        *,
        key: Union[str, Sequence[str]],
        name: Optional[str] = None,
        indexes: Optional[Mapping[str, str]] = None,
        unique: Optional[Mapping[str, str]] = None,
    ) -> TypedTable[R]:
        """Returns the table whose rows are objects of the dataclass ``row``, and creates it if it does not exist.

        ``key`` names the fields of the primary key, and ``indexes`` and ``unique`` those of each index: ``"town, name
        desc"``. ``name`` is the name of the class in lower case, unless you give another one. Fields that are added at
        the end of the class later, with a default or ``Optional``, are added to the table, and so are indexes. A table
        that differs in another way raises ``MismatchError``.
        """
        return _typed.ensure(self, row, key=key, name=name, indexes=indexes, unique=unique)

    def changes(
        self, *, after: int = 0, tables: Tables = (), prefix: Optional[bytes] = None
    ) -> ChangeFeed:
        """Returns an iterator over every commit after the one of number ``after``, in order; 0: as far back as possible.

        It waits for the next commit, and ends when it or the database is closed. ``tables`` and ``prefix`` leave out
        what concerns other tables and keys.
        """
        return ChangeFeed(self, after=after, tables=names_of(tables), prefix=prefix)

    def consumer(self, name: str) -> Consumer:
        """Opens the consumer of this name, or creates it after the newest commit. One can be open at a time."""
        return Consumer(self, name)

    def consumers(self) -> list[ConsumerInfo]:
        """Returns what is known of each consumer, by name."""
        return [ConsumerInfo(*info) for info in self._consumers()]

    def write(
        self,
        *,
        durability: Optional[Durability] = None,
        isolation: Optional[Isolation] = None,
        check_same_thread: bool = True,
    ) -> Transaction:
        """Begins a transaction. ``with db.write() as tx:`` commits it at the end of the block.

        Only the thread that began it may use it, unless ``check_same_thread`` is false.
        """
        return Transaction(
            self, durability=durability, isolation=isolation, check_same_thread=check_same_thread
        )

    def snapshot(self) -> Snapshot:
        """Takes a snapshot of everything that is committed."""
        return Snapshot(self)

    def transact(
        self,
        work: Callable[[Transaction], T],
        *,
        retries: int = 10,
        durability: Optional[Durability] = None,
        isolation: Optional[Isolation] = None,
    ) -> T:
        """Runs ``work`` in a transaction and commits it, and again after a conflict, up to ``retries`` times.

        While the last four attempts run, other commits wait, for half a second at most. So ``work`` should not commit in
        another way, or wait for somebody who does.

        ``work`` can run several times, so its effects outside of the transaction must be safe to repeat. It must do its
        work before it returns: a coroutine or a generator function raises ``TypeError``.
        """
        _check_work(work)
        pause_s = _FIRST_PAUSE_S
        last = max(retries, 0)
        with _Turn(self) as turn:
            for attempt in range(last + 1):
                if attempt == max(last + 1 - _GATED_ATTEMPTS, 1):
                    turn.take()
                try:
                    with self.write(durability=durability, isolation=isolation) as tx:
                        result = _finished(work(tx))
                        turn.commit(tx)
                        return result
                except (ConflictError, SnapshotTooOldError):
                    if attempt == last:
                        raise
                if not turn.is_taken:
                    time.sleep(random.uniform(0, pause_s))
                    pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        raise AssertionError("unreachable: the last attempt returns or raises")

    @overload
    def sql(self, *, autocommit: bool = False) -> Connection: ...
    @overload
    def sql(self, statement: str, parameters: Parameters = ()) -> Cursor: ...
    def sql(
        self, statement: Optional[str] = None, parameters: Optional[Parameters] = None, *, autocommit: bool = False
    ) -> Union[Connection, Cursor]:
        """Opens a connection for SQL, as PEP 249 describes it; or executes one statement, and returns its result.

        ``db.sql("SELECT …", [value])`` executes the statement as a transaction by itself, on a connection of its own.
        The result is a cursor: ``db.sql(…).fetchall()``, ``db.sql(…).arrow()``.
        """
        from .dbapi import Connection

        if statement is None:
            return Connection(self, autocommit=autocommit)
        if autocommit:
            raise TypeError("autocommit is for connections: a statement is a transaction by itself")
        return Connection(self, autocommit=True).execute(statement, () if parameters is None else parameters)


def _check_work(work: Callable[..., Any]) -> None:
    """Refuses functions whose calls only make an object: nothing of them would run before the commit."""
    for is_lazy in (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction):
        if is_lazy(work):
            raise _unfinished(work)


def _finished(result: T) -> T:
    """Returns what the function of a transaction has returned, unless it is a coroutine: nothing of it has run."""
    if inspect.iscoroutine(result):
        result.close()
        raise _unfinished(result)
    if inspect.isasyncgen(result):
        raise _unfinished(result)
    return result


def _unfinished(what: object) -> TypeError:
    return TypeError(
        f"{what!r} runs after the commit: pass a function that does its work before it returns, neither async nor with "
        f"yield; in async code, await within `async with db.write() as tx`"
    )


def _check(path: object) -> None:
    """Refuses what is not a path. The native class takes ``None``, and is then a database in memory."""
    if not isinstance(path, (str, PathLike)):
        raise TypeError(
            f"path must be str or os.PathLike, not {type(path).__name__}; pando.in_memory() is a database in memory"
        )


def open(path: Path, **options: Any) -> Database:
    """Opens the existing database in the directory ``path``; ``MissingError`` if there is none.

    The options are those of ``docs/options.md``, by name; times are in seconds.
    """
    _check(path)
    return Database(path, create=False, **options)


def create(path: Path, **options: Any) -> Database:
    """Opens the database in the directory ``path``, or creates it. The options are those of ``open``."""
    _check(path)
    return Database(path, create=True, **options)


def in_memory(**options: Any) -> Database:
    """Creates a database in memory, which is gone once it is closed. The options are those of ``open``."""
    return Database(None, create=True, **options)


