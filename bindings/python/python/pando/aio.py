"""Pando for asyncio. Calls that can wait run on a few threads, and the event loop goes on meanwhile.

>>> import asyncio
>>> from pando import aio
>>> async def main():
...     async with await aio.in_memory() as db:
...         fruit = await db.table("fruit", key=str, value=str)
...         await fruit.put("apple", "red")
...         async with db.write() as tx:
...             await tx[fruit].put("lemon", "yellow")
...         return [pair async for pair in fruit.range()]
>>> asyncio.run(main())
[('apple', 'red'), ('lemon', 'yellow')]
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Any, Callable, Generic, Literal, Optional, TypeVar, Union

from . import _database as blocking
from ._changes import AsyncChanges, AsyncConsumer, ConsumerInfo, Tables
from ._database import (
    Compression,
    Durability,
    Isolation,
    KeyType,
    Layout,
    Path,
    Seconds,
    SnapshotTable,
    Table,
    TransactionTable,
    ValueType,
)
from ._errors import ClosedError

__all__ = [
    "AsyncChanges",
    "AsyncConsumer",
    "AsyncDatabase",
    "AsyncReads",
    "AsyncSnapshot",
    "AsyncTable",
    "AsyncTransaction",
    "create",
    "in_memory",
    "open",
]

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

DEFAULT_THREADS = 8
"""How many threads run the calls of one database, unless it is opened with another number."""


class AsyncReads(Generic[K, V]):
    """The reads of a table: of the database, of a snapshot, or of a transaction."""

    def __init__(
        self,
        db: Union[AsyncDatabase, AsyncTransaction],
        table: Union[SnapshotTable[K, V], Table[K, V], TransactionTable[K, V]],
    ) -> None:
        # What runs its calls.
        self._db = db
        self._table: Any = table

    @property
    def name(self) -> str:
        """The name of the table."""
        name: str = self._table.name
        return name

    async def get(self, key: K, default: Optional[V] = None) -> Optional[V]:
        """Returns the value of ``key``, or ``default``."""
        return await self._db.run(self._table.get, key, default)

    async def contains(self, key: K) -> bool:
        """Returns whether ``key`` exists."""
        return await self._db.run(self._table.__contains__, key)

    async def multi_get(self, keys: Iterable[K]) -> list[Optional[V]]:
        """Returns the values of many keys; ``None`` for keys that do not exist."""
        return await self._db.run(self._table.multi_get, list(keys))

    async def expiry(self, key: K) -> float:
        """Returns how many seconds the entry of ``key`` still lives; infinity if it never expires."""
        return await self._db.run(self._table.expiry, key)

    async def count(self) -> int:
        """Counts the keys, in O(n)."""
        return await self._db.run(self._table.__len__)

    async def range(
        self,
        start: Optional[K] = None,
        stop: Optional[K] = None,
        *,
        prefix: Optional[K] = None,
        reverse: bool = False,
        limit: Optional[int] = None,
    ) -> AsyncIterator[tuple[K, V]]:
        """Yields pairs in key order, from ``start`` on and before ``stop``. A thread reads a chunk at a time."""
        scan = await self._db.run(
            lambda: self._table.range(start, stop, prefix=prefix, reverse=reverse, limit=limit)
        )
        while chunk := await self._db.run(scan.chunk):
            for pair in chunk:
                scan.check()
                yield pair


class AsyncTable(AsyncReads[K, V]):
    """A table of a database or of a transaction."""

    async def put(self, key: K, value: V, *, ttl: Optional[Seconds] = None) -> None:
        """Sets ``key`` to ``value``. With ``ttl`` the entry expires after so many seconds."""
        await self._db.run(lambda: self._table.put(key, value, ttl=ttl))

    async def set_expiry(self, key: K, ttl: Optional[Seconds]) -> None:
        """Lets the entry of ``key`` expire after ``ttl`` seconds; ``None``: never. ``KeyError`` if it does not exist."""
        await self._db.run(self._table.set_expiry, key, ttl)

    async def insert(self, key: K, value: V) -> None:
        """Sets ``key`` to ``value`` if the key does not exist; ``ExistsError`` if it does."""
        await self._db.run(self._table.insert, key, value)

    async def delete(self, key: K) -> None:
        """Deletes ``key``, whether or not it exists."""
        await self._db.run(self._table.delete, key)

    async def remove(self, key: K) -> Optional[V]:
        """Deletes ``key`` and returns the value that it had, or ``None``."""
        return await self._db.run(self._table.remove, key)

    async def compare_and_swap(self, key: K, expected: Optional[V], new: Optional[V]) -> bool:
        """Sets ``key`` to ``new`` if its value is ``expected``; ``None`` means absent. Returns whether it did.

        The stored bytes are compared: JSON with another order of keys differs, and 1 differs from 1.0.
        """
        return await self._db.run(self._table.compare_and_swap, key, expected, new)

    async def put_many(self, records: Union[Mapping[K, V], Iterable[tuple[K, V]]]) -> int:
        """Puts many records in one transaction. Returns how many there were."""
        return await self._db.run(self._table.put_many, records)

    async def delete_range(
        self, start: Optional[K] = None, stop: Optional[K] = None, *, prefix: Optional[K] = None
    ) -> None:
        """Deletes every key of a range without reading it."""
        await self._db.run(lambda: self._table.delete_range(start, stop, prefix=prefix))


class AsyncSnapshot:
    """A read-only view of one moment."""

    def __init__(self, db: AsyncDatabase) -> None:
        self._db = db
        self._inner: Optional[blocking.Snapshot] = None

    async def __aenter__(self) -> AsyncSnapshot:
        self._inner = await self._db.run(self._db.blocking.snapshot)
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._inner is not None:
            # A database that was closed meanwhile has ended its snapshots.
            with suppress(ClosedError):
                await self._db.run(self._inner.close)

    def __getitem__(self, table: AsyncTable[K, V]) -> AsyncReads[K, V]:
        if self._inner is None:
            raise RuntimeError("use the snapshot within `async with`")
        inner: Any = self._inner
        return AsyncReads(self._db, inner[table._table])


class AsyncTransaction:
    """A read-write transaction: ``async with`` commits it at the end, and rolls back after an exception.

    Tasks can share it: their calls run one after another. A task that is cancelled leaves ``async with`` when the call
    that runs has ended and the transaction is rolled back.
    """

    def __init__(self, db: AsyncDatabase, durability: Optional[Durability], isolation: Optional[Isolation]) -> None:
        self._db = db
        self._options = (durability, isolation)
        self._inner: Optional[blocking.Transaction] = None
        self._turn: Optional[asyncio.Lock] = None

    async def __aenter__(self) -> AsyncTransaction:
        durability, isolation = self._options
        self._turn = asyncio.Lock()
        # Each call can run on another thread of the executor; `run` makes them take turns.
        self._inner = await self._db.run(
            lambda: self._db.blocking.write(durability=durability, isolation=isolation, check_same_thread=False)
        )
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        exception: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        inner = self._begun()
        if kind is None:
            try:
                if inner.is_active:
                    await self.run(inner.commit)
            except asyncio.CancelledError:
                # If the commit has begun, it goes on, and there is nothing left to undo after it.
                await self._roll_back(inner)
                raise
        else:
            await self._roll_back(inner)

    async def _roll_back(self, inner: blocking.Transaction) -> None:
        """Rolls back after the calls that have been made, even if the task is cancelled meanwhile."""
        ending = asyncio.ensure_future(self.run(inner.rollback))
        cancelled: Optional[asyncio.CancelledError] = None
        while not ending.done():
            try:
                await asyncio.wait([ending])
            except asyncio.CancelledError as error:
                cancelled = error
        # The exception in flight matters more than that the database was closed meanwhile.
        with suppress(ClosedError):
            ending.result()
        if cancelled is not None:
            raise cancelled

    async def run(self, call: Callable[..., T], *arguments: Any) -> T:
        """Runs a blocking call on one of the threads, when the other calls of the transaction have ended."""
        turn = self._turn
        if turn is None:
            raise RuntimeError("use the transaction within `async with`")
        await turn.acquire()
        running = asyncio.ensure_future(self._db.run(call, *arguments))
        running.add_done_callback(lambda _: turn.release())
        # If the task is cancelled, the thread goes on, and its call keeps the turn until it has ended.
        return await asyncio.shield(running)

    def _begun(self) -> blocking.Transaction:
        if self._inner is None:
            raise RuntimeError("use the transaction within `async with`")
        return self._inner

    def __getitem__(self, table: AsyncTable[K, V]) -> AsyncTable[K, V]:
        inner: Any = self._begun()
        return AsyncTable(self, inner[table._table])

    async def commit(self) -> int:
        """Commits all changes or none. Returns the number of the commit."""
        return await self.run(self._begun().commit)

    async def rollback(self) -> None:
        """Undoes all changes and ends the transaction."""
        await self.run(self._begun().rollback)


class AsyncDatabase:
    """An open database, and the threads that its calls run on."""

    def __init__(self, inner: blocking.Database, executor: ThreadPoolExecutor) -> None:
        self.blocking = inner
        """The database for calls that may block."""
        self._executor = executor
        self._has_ended = False

    async def run(self, call: Callable[..., T], *arguments: Any) -> T:
        """Runs a blocking call on one of the threads. Raises ``ClosedError`` once the database is closed."""
        if self._has_ended:
            raise ClosedError("the database is closed")
        return await asyncio.get_running_loop().run_in_executor(self._executor, call, *arguments)

    async def table(self, name: str, *, key: Any = bytes, value: Any = bytes, create: bool = True) -> AsyncTable[Any, Any]:
        """Returns a table, and creates it if it does not exist and ``create`` is true."""
        return AsyncTable(
            self, await self.run(lambda: self.blocking.table(name, key=key, value=value, create=create))
        )

    async def create_table(
        self,
        name: str,
        *,
        layout: Layout = "btree",
        ttl: Union[Seconds, Literal["by-key"], None] = None,
        compression: Compression = "none",
        key: KeyType = bytes,
        value: ValueType = bytes,
    ) -> AsyncTable[Any, Any]:
        """Creates a table with options, which are stored; see ``Database.create_table``."""
        create = self.blocking.create_table
        options: dict[str, Any] = {"layout": layout, "ttl": ttl, "compression": compression}
        return AsyncTable(self, await self.run(lambda: create(name, key=key, value=value, **options)))

    async def changes(
        self, *, after: int = 0, tables: Tables = (), prefix: Optional[bytes] = None
    ) -> AsyncChanges:
        """Returns an asynchronous iterator over every commit after the one of number ``after``, in order."""
        return AsyncChanges(await self.run(lambda: self.blocking.changes(after=after, tables=tables, prefix=prefix)))

    async def consumer(self, name: str) -> AsyncConsumer:
        """Opens the consumer of this name, or creates it after the newest commit."""
        return AsyncConsumer(self.run, await self.run(self.blocking.consumer, name))

    async def consumers(self) -> list[ConsumerInfo]:
        """Returns what is known of each consumer, by name."""
        return await self.run(self.blocking.consumers)

    async def drop_consumer(self, name: str) -> None:
        """Removes a consumer, and what is kept for it."""
        await self.run(self.blocking.drop_consumer, name)

    def write(
        self, *, durability: Optional[Durability] = None, isolation: Optional[Isolation] = None
    ) -> AsyncTransaction:
        """Begins a transaction, for ``async with``."""
        return AsyncTransaction(self, durability, isolation)

    def snapshot(self) -> AsyncSnapshot:
        """Takes a snapshot, for ``async with``."""
        return AsyncSnapshot(self)

    async def transact(self, work: Callable[[blocking.Transaction], T], *, retries: int = 10) -> T:
        """Runs ``work``, a function that may block, in a transaction on one of the threads; see ``Database.transact``.

        ``work`` must not be ``async def``: await within ``async with db.write() as tx:`` instead.
        """
        return await self.run(lambda: self.blocking.transact(work, retries=retries))

    async def close(self) -> None:
        """Closes the database and ends the threads. A second time has no effect."""
        if not self._has_ended:
            await self.run(self.blocking.close)
            self._has_ended = True
            self._executor.shutdown(wait=False)

    async def __aenter__(self) -> AsyncDatabase:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()


async def _start(begin: Callable[[], blocking.Database], threads: int) -> AsyncDatabase:
    executor = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="pando")
    try:
        inner = await asyncio.get_running_loop().run_in_executor(executor, begin)
    except BaseException:
        executor.shutdown(wait=False)
        raise
    return AsyncDatabase(inner, executor)


async def open(path: Path, *, threads: int = DEFAULT_THREADS, **options: Any) -> AsyncDatabase:
    """Opens the existing database in the directory ``path``. ``threads`` run its calls."""
    return await _start(lambda: blocking.open(path, **options), threads)


async def create(path: Path, *, threads: int = DEFAULT_THREADS, **options: Any) -> AsyncDatabase:
    """Opens the database in the directory ``path``, or creates it."""
    return await _start(lambda: blocking.create(path, **options), threads)


async def in_memory(*, threads: int = DEFAULT_THREADS, **options: Any) -> AsyncDatabase:
    """Creates a database in memory."""
    return await _start(lambda: blocking.in_memory(**options), threads)
