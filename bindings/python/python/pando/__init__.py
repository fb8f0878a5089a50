"""Pando: an embedded transactional database.

>>> import pando
>>> with pando.in_memory() as db:
...     fruit = db.table("fruit", key=str, value=str)
...     fruit["apple"] = "red"
...     with db.write() as tx:
...         tx[fruit]["lemon"] = "yellow"
...     print(list(fruit.items()))
[('apple', 'red'), ('lemon', 'yellow')]
"""

from __future__ import annotations

import os

from ._changes import Consumer, ConsumerInfo
from ._database import (
    Database,
    Snapshot,
    SnapshotTable,
    Table,
    Transaction,
    TransactionTable,
    create,
    in_memory,
    open,
)
from ._errors import (
    ClosedError,
    ConflictError,
    CorruptError,
    Error,
    ExistsError,
    ForeignError,
    ForkedError,
    FullError,
    IndeterminateError,
    InternalError,
    InvalidError,
    IoError,
    LatchedError,
    LockedError,
    MismatchError,
    MissingError,
    ReadOnlyError,
    SnapshotTooOldError,
    TooOldError,
    ThreadError,
    WouldWaitError,
)
from ._pando import Arrow, Change, ChangeFeed, Cursor, Operation, Savepoint, __version__, _after_fork, restore
from ._typed import TypedRows, TypedTable, UInt

__all__ = [
    "Arrow",
    "Change",
    "ChangeFeed",
    "ClosedError",
    "ConflictError",
    "Consumer",
    "ConsumerInfo",
    "CorruptError",
    "Cursor",
    "Database",
    "Error",
    "ExistsError",
    "ForeignError",
    "ForkedError",
    "FullError",
    "IndeterminateError",
    "InternalError",
    "InvalidError",
    "IoError",
    "LatchedError",
    "LockedError",
    "MismatchError",
    "MissingError",
    "Operation",
    "ReadOnlyError",
    "Savepoint",
    "Snapshot",
    "SnapshotTable",
    "SnapshotTooOldError",
    "TooOldError",
    "Table",
    "ThreadError",
    "Transaction",
    "TransactionTable",
    "TypedRows",
    "TypedTable",
    "UInt",
    "WouldWaitError",
    "__version__",
    "create",
    "in_memory",
    "open",
    "restore",
]

os.register_at_fork(after_in_child=_after_fork)
