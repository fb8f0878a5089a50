"""SQLAlchemy over Pando: the dialect of SQLite, on connections that share one open database.

``create_engine("pando:///shop")`` opens the directory ``shop`` or creates it, ``pando:////var/lib/shop`` one with an
absolute path, and ``pando://`` a database in memory. Options of the database are in the query:
``pando:///shop?memory_bytes=67108864&durability=lazy``. With ``read_only=true`` the directory must exist.

The database is open while engines have connections to it: ``engine.dispose()`` closes them. One in memory belongs to
its engine, and lives as long.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Optional

from sqlalchemy import pool
from sqlalchemy.dialects.sqlite.base import SQLiteDDLCompiler, SQLiteDialect
from sqlalchemy.engine import URL

from . import _database, dbapi
from ._errors import InterfaceError

__all__ = ["PandoDialect"]

_NUMBERS = frozenset(
    [
        "memory_bytes",
        "max_segment_bytes",
        "checkpoint_bytes",
        "checkpoint_records",
        "max_log_bytes",
        "max_log_records",
        "max_pinned_space_bytes",
        "max_changes_bytes",
        "page_bytes",
    ]
)
_SECONDS = frozenset(["lazy_interval", "max_snapshot_age"])


class _Shared:
    """A database, and how many connections use it. The last one closes it, unless it is in memory."""

    def __init__(self, path: Optional[str], options: dict[str, Any]) -> None:
        self.path = path
        self.options = options
        # The garbage collector can close a connection of a thread that holds the lock.
        self._lock = threading.RLock()
        self._db: Optional[_database.Database] = None
        self._count = 0
        self._is_inherited = False
        _ALL.add(self)

    def connect(self, options: dict[str, Any]) -> _Connection:
        """Opens the database, if no connection has it open, and returns a connection."""
        with self._lock:
            # Counted first, so that a connection that is closed meanwhile is not the last one.
            self._count += 1
            try:
                return _Connection(self._opened(options), self)
            except BaseException:
                self.leave()
                raise

    def _opened(self, options: dict[str, Any]) -> _database.Database:
        """Returns the database, and opens it if it is closed."""
        if self._db is None:
            self.options = options
            self._db = self._open(options)
        elif options != self.options:
            raise InterfaceError(
                f"{self.path} is open with the options {self.options}, and not with {options}: "
                "give every engine of a process the same ones"
            )
        return self._db

    def _open(self, options: dict[str, Any]) -> _database.Database:
        if self.path is None:
            return _database.in_memory(**options)
        # A reader must not create what it reads.
        begin = _database.open if options.get("read_only") else _database.create
        return begin(self.path, **options)

    def leave(self) -> None:
        """Notes that a connection was closed."""
        with self._lock:
            self._count -= 1
            if self._count == 0 and self.path is not None and not self._is_inherited:
                # A database whose close has failed is closed all the same: the next connection opens it anew.
                db, self._db = self._db, None
                if db is not None:
                    db.close()

    def after_fork(self) -> None:
        """Leaves an open database to the parent. A thread of the parent may have held the lock."""
        self._lock = threading.RLock()
        self._is_inherited = self._db is not None


_ALL: weakref.WeakSet[_Shared] = weakref.WeakSet()
# A process opens a directory once, so that its engines share what is open, by the path without links.
_OPEN: dict[str, _Shared] = {}
# What the parent has open is kept, and not freed: freeing it would close the parent's files in the child.
_INHERITED: list[_Shared] = []


def _after_fork() -> None:
    """Makes a fork's child open its directories itself."""
    _INHERITED.extend(_ALL)
    for shared in _INHERITED:
        shared.after_fork()
    _OPEN.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def _truth(name: str, word: Any) -> bool:
    """Returns the truth that a word of a URL means."""
    truth = _WORDS.get(word) if isinstance(word, str) else None
    if truth is None:
        raise ValueError(f"{name}={word!r} must be one of {', '.join(_WORDS)}")
    return truth


def _check_isolation(options: dict[str, Any]) -> None:
    """Refuses an isolation that SQLAlchemy would not know of."""
    isolation = options.get("isolation", "serializable")
    if isolation != "serializable":
        raise ValueError(
            f"isolation={isolation!r} contradicts the isolation level SERIALIZABLE of the engine; leave the option out"
        )


class _Connection(dbapi.Connection):
    """A connection of a pool."""

    def __init__(self, db: _database.Database, shared: _Shared) -> None:
        super().__init__(db)
        self._shared = shared

    def _after_close(self) -> None:
        self._shared.leave()


class _DdlCompiler(SQLiteDDLCompiler):
    """Leaves foreign keys out, if the engine is to ignore them."""

    def visit_foreign_key_constraint(self, constraint: Any, **kw: Any) -> Any:
        if getattr(self.dialect, "ignore_foreign_keys", False):
            return None
        visit: Any = super().visit_foreign_key_constraint
        return visit(constraint, **kw)


class PandoDialect(SQLiteDialect):
    """The dialect of SQLite for Pando. ``create_engine(..., ignore_foreign_keys=True)`` creates tables without the
    foreign keys that the models have, which Pando otherwise enforces."""

    driver = "pando"
    ddl_compiler = _DdlCompiler
    supports_statement_cache = True
    default_isolation_level = "SERIALIZABLE"

    def __init__(self, ignore_foreign_keys: bool = False, **kw: Any) -> None:
        super().__init__(**kw)
        self.ignore_foreign_keys = ignore_foreign_keys
        self._in_memory = _Shared(None, {})

    @classmethod
    def import_dbapi(cls) -> Any:
        return dbapi

    @classmethod
    def get_pool_class(cls, url: URL) -> type[pool.Pool]:
        return pool.QueuePool

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        if url.host or url.username or url.port:
            raise ValueError(f"{url!r} names a host; write pando:///path, or pando:////path for an absolute one")
        options: dict[str, Any] = dict(url.query)
        for name, value in options.items():
            if name in _NUMBERS:
                options[name] = int(value)
            elif name in _SECONDS:
                options[name] = float(value)
            elif name == "read_only":
                options[name] = _truth(name, value)
        _check_isolation(options)
        return [url.database or None], options

    def connect(self, *cargs: Any, **cparams: Any) -> Any:
        """Returns a connection. All engines of the process share the database of a directory."""
        # `connect_args` are not in the URL.
        _check_isolation(cparams)
        if cargs[0] is None:
            return self._in_memory.connect(cparams)
        path = os.path.realpath(cargs[0])
        # `setdefault` is atomic.
        return _OPEN.setdefault(path, _Shared(path, cparams)).connect(cparams)

    def get_isolation_level_values(self, dbapi_connection: Any) -> Any:
        return ["SERIALIZABLE", "AUTOCOMMIT"]

    def set_isolation_level(self, dbapi_connection: Any, level: Any) -> None:
        dbapi_connection.autocommit = level == "AUTOCOMMIT"

    def get_isolation_level(self, dbapi_connection: Any) -> Any:
        return "AUTOCOMMIT" if dbapi_connection.autocommit else "SERIALIZABLE"

    def get_default_isolation_level(self, dbapi_conn: Any) -> Any:
        return "SERIALIZABLE"

    def _get_server_version_info(self, connection: Any) -> tuple[int, ...]:
        return dbapi.sqlite_version_info
