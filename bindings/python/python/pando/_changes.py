"""Changes: every commit in order, as iterators that wait, and named consumers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Union

from . import _pando, _typed
from ._errors import ClosedError
from ._pando import Change, ChangeFeed

if TYPE_CHECKING:
    from .aio import AsyncReads

# How long a thread waits for one asynchronous iterator before it looks whether somebody still wants to know. A change
# ends the wait at once; the interpreter's end may have to wait so long.
_SLICE_S = 0.5


class ConsumerInfo(NamedTuple):
    """What is known of a consumer that need not be open."""

    name: str
    position: int
    """The last commit that it acknowledged."""
    is_lost: bool
    """Whether more was kept for it than ``max_changes_bytes``, so that it has lost its place."""


AnyTable = Union[str, _pando.View[Any, Any], "AsyncReads[Any, Any]"]
Tables = Union[AnyTable, Sequence[AnyTable], AbstractSet[str]]
"""One table or several, each by its name or as an object; a set has names only, since tables compare as mappings do and
cannot be members. A typed table is refused with ``TypeError``."""


def names_of(tables: Tables) -> list[str]:
    """Returns the names of tables."""
    # A name is itself a sequence.
    if not isinstance(tables, str) and isinstance(tables, (Sequence, AbstractSet)):
        return [_name_of(table) for table in tables]
    return [_name_of(tables)]


def _name_of(table: object) -> str:
    from .aio import AsyncReads

    if isinstance(table, str):
        return table
    if isinstance(table, (_pando.View, AsyncReads)):
        return table.name
    if _typed.is_typed(table):
        raise TypeError(
            f"{table!r}: changes have the stored rows of a typed table, as operations on tables that are named "
            f"rows/ID.VERSION/{table.name}; give the names of those tables"
        )
    raise TypeError(f"tables must be names or tables, a list or tuple of them, or a set of names, not {type(table).__name__}")


class Consumer(_pando.Consumer):
    """A named consumer of changes, whose place survives restarts. Iterating over it waits for changes.

    ``acknowledge`` alone moves its place, so what was not acknowledged comes again after a restart.
    """

    __slots__ = ()

    def changes(self, *, tables: Tables = (), prefix: Optional[bytes] = None) -> ChangeFeed:
        """Returns an iterator over the changes after the last acknowledged commit."""
        return ChangeFeed(self, tables=names_of(tables), prefix=prefix)

    def __iter__(self) -> Iterator[Change]:
        return self.changes()


class AsyncChanges:
    """An asynchronous iterator over changes. It has a thread of its own, as it may wait for long."""

    def __init__(self, feed: ChangeFeed) -> None:
        self.blocking = feed
        """The iterator for threads that may block."""
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="pando-changes")
        self._pending: Optional[asyncio.Future[Optional[Change]]] = None
        self._is_waiting = False

    async def next(self, timeout: Optional[float] = None) -> Optional[Change]:
        """Returns the next change. Waits for at most ``timeout`` seconds; ``None`` after that, and at the end."""
        if self._is_waiting:
            raise RuntimeError("another task waits for a change of this iterator; open one for each task")
        self._is_waiting = True
        try:
            return await self._wait(timeout)
        finally:
            self._is_waiting = False

    async def _wait(self, timeout: Optional[float]) -> Optional[Change]:
        loop = asyncio.get_running_loop()
        until = None if timeout is None else loop.time() + timeout
        while self._pending is not None or not self.blocking.is_closed:
            left = None if until is None else max(until - loop.time(), 0.0)
            # What an earlier call has left can take longer than this call may wait. A new one looks at once, and takes
            # no longer than `left`.
            at_most = left
            if self._pending is None:
                slice_s = _SLICE_S if left is None else min(left, _SLICE_S)
                self._pending = loop.run_in_executor(self._executor, self.blocking.next, slice_s)
                at_most = None
            pending = self._pending
            # The task may be cancelled here. The thread goes on, and the next call gets what it finds.
            await asyncio.wait([pending], timeout=at_most)
            if pending.done():
                self._pending = None
                change = pending.result()
                if change is not None:
                    return change
            if until is not None and loop.time() >= until:
                break
        return None

    def __aiter__(self) -> AsyncChanges:
        return self

    async def __anext__(self) -> Change:
        change = await self.next()
        if change is None:
            raise StopAsyncIteration
        return change

    async def aclose(self) -> None:
        """Ends the iterator, also for a task that waits."""
        await asyncio.get_running_loop().run_in_executor(None, self.blocking.close)
        self._executor.shutdown(wait=False)

    async def __aenter__(self) -> AsyncChanges:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()


class AsyncConsumer:
    """A named consumer of changes; see ``pando.Consumer``."""

    def __init__(self, run: Callable[..., Any], inner: Consumer) -> None:
        self._run = run
        self.blocking = inner
        """The consumer for threads that may block."""

    @property
    def name(self) -> str:
        """The name of the consumer."""
        return self.blocking.name

    @property
    def position(self) -> int:
        """The number of the last commit that was acknowledged."""
        return self.blocking.position

    async def changes(self, *, tables: Tables = (), prefix: Optional[bytes] = None) -> AsyncChanges:
        """Returns an asynchronous iterator over the changes after the last acknowledged commit."""
        return AsyncChanges(await self._run(lambda: self.blocking.changes(tables=tables, prefix=prefix)))

    async def acknowledge(self, commit: Union[int, Change]) -> None:
        """Records durably that everything up to this commit is done."""
        await self._run(self.blocking.acknowledge, commit)

    async def close(self) -> None:
        """Closes the consumer. Its place is kept."""
        # A database that was closed meanwhile has ended its consumers.
        with suppress(ClosedError):
            await self._run(self.blocking.close)

    async def __aenter__(self) -> AsyncConsumer:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()
