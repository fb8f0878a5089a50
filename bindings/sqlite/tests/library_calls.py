"""Functions of SQLite's interface of C that Python's module has not, on Pando and on SQLite's own files."""

import ctypes
import os
import sqlite3

library = ctypes.CDLL(None)
library.sqlite3_errmsg.restype = ctypes.c_char_p
DATA_VERSION, RESET_DATABASE = 35, 1009
TAKES_ROW = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(ctypes.c_char_p)
)


class Connection:
    """A connection of which the functions of C are called."""

    def __init__(self, path, utf16=False):
        self.handle = ctypes.c_void_p()
        if utf16:
            code = library.sqlite3_open16(str(path).encode("utf-16-le") + b"\0\0", ctypes.byref(self.handle))
        else:
            code = library.sqlite3_open(os.fsencode(path), ctypes.byref(self.handle))
        assert code == 0, (path, code)

    def run(self, sql):
        """Returns the rows of a statement, or its error."""
        rows = []

        def take(_, count, values, names):
            rows.append(tuple(values[at] and values[at].decode() for at in range(count)))
            return 0

        code = library.sqlite3_exec(self.handle, sql.encode(), TAKES_ROW(take), None, None)
        return rows if code == 0 else library.sqlite3_errmsg(self.handle).decode()

    def data_version(self):
        value = ctypes.c_uint()
        assert library.sqlite3_file_control(self.handle, b"main", DATA_VERSION, ctypes.byref(value)) == 0
        return value.value

    def reset_next(self, is_on):
        assert library.sqlite3_db_config(self.handle, RESET_DATABASE, is_on, None) == 0

    def close(self):
        assert library.sqlite3_close(self.handle) == 0


def run(directory):
    data_versions(directory)
    reset(directory)
    utf16(directory)
    page_statistics(directory)


def data_versions(directory):
    """The number that `SQLITE_FCNTL_DATA_VERSION` returns is that of what was read last."""
    for name in ("versions.pando", "versions.db"):
        one, other = Connection(directory / name), Connection(directory / name)
        one.run("PRAGMA journal_mode = wal")
        one.run("CREATE TABLE t(a)")
        for count in range(3):
            assert other.run("SELECT count(*) FROM t") == [(str(count),)], name
            before = other.data_version()
            assert other.data_version() == before, name
            one.run("INSERT INTO t VALUES (1)")
            # It has not read the new state yet.
            assert other.data_version() == before, name
            other.run("BEGIN")
            other.run("SELECT * FROM t")
            changed = other.data_version()
            assert changed != before, name
            other.run("COMMIT")
            assert other.data_version() == changed, name
        before = one.data_version()
        assert one.run("INSERT INTO t VALUES (1)") == []
        assert one.data_version() != before, name
        one.close()
        other.close()


def reset(directory):
    """`VACUUM` with `SQLITE_DBCONFIG_RESET_DATABASE` leaves an empty database."""
    for name in ("reset.pando", "reset.db"):
        one, other = Connection(directory / name), Connection(directory / name)
        for _ in range(2):
            for sql in (
                "CREATE TABLE t(a UNIQUE)",
                "CREATE VIEW v AS SELECT * FROM t",
                "INSERT INTO t VALUES (1), (2)",
                "PRAGMA user_version = 7",
            ):
                assert one.run(sql) == [], (name, sql)
            assert other.run("SELECT count(*) FROM v") == [("2",)], name
            one.reset_next(1)
            assert one.run("VACUUM") == [], name
            one.reset_next(0)
            for connection in (one, other):
                assert connection.run("SELECT * FROM sqlite_schema") == [], name
                assert connection.run("SELECT * FROM t") == "no such table: t", name
                assert connection.run("PRAGMA user_version") == [("0",)], name
        other.run("BEGIN IMMEDIATE")
        one.reset_next(1)
        assert one.run("VACUUM").startswith("database is locked"), name
        one.reset_next(0)
        one.close()
        other.close()


def utf16(directory):
    """`sqlite3_open16` opens by a name in UTF-16. A new database on Pando is in UTF-8 all the same."""
    for name, encoding in (("sixteen.pando", "UTF-8"), ("sixteen.db", "UTF-16le")):
        for _ in range(2):
            connection = Connection(directory / name, utf16=True)
            connection.run("CREATE TABLE IF NOT EXISTS t(a TEXT UNIQUE)")
            assert connection.run("INSERT OR IGNORE INTO t VALUES ('x')") == [], name
            assert connection.run("SELECT * FROM t WHERE a = 'x'") == [("x",)], name
            assert connection.run("PRAGMA encoding") == [(encoding,)], name
            connection.close()
    connection = Connection(directory / "asked.pando")
    connection.run("PRAGMA encoding = 'UTF-16'")
    assert connection.run("CREATE TABLE t(a)") == "text in UTF-16 is not supported on Pando"
    connection.close()


def page_statistics(directory):
    """`dbstat` is about pages of a file, and says so elsewhere."""
    connection = sqlite3.connect(directory / "statistics.pando", isolation_level=None)
    connection.execute("CREATE TABLE t(a)")
    connection.execute("ATTACH ? AS stock", (str(directory / "statistics.db"),))
    connection.execute("CREATE TABLE stock.t(a)")
    assert len(connection.execute("SELECT * FROM dbstat('stock')").fetchall()) == 2
    assert len(connection.execute("SELECT * FROM dbstat WHERE schema = 'stock'").fetchall()) == 2
    of_table = "SELECT sum(pgsize) FROM dbstat WHERE name = 't'"
    for sql in ("SELECT * FROM dbstat", of_table, "SELECT * FROM dbstat('main', 1)"):
        try:
            raise AssertionError((sql, connection.execute(sql).fetchall()))
        except sqlite3.OperationalError as error:
            assert str(error).startswith("dbstat is not supported on Pando"), error
    connection.close()
