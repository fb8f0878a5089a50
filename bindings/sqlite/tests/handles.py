"""Handles of blobs, and checks that are stopped: what the part of SQLite's interface below the statements must do."""

import ctypes
import os
import sqlite3
from random import Random


def run(path):
    connection = sqlite3.connect(path, isolation_level=None)
    if hasattr(connection, "blobopen"):
        blobs(connection)
        pieces(connection)
    stopped_check(connection)
    connection.close()
    names(path.parent)
    file_control(path.parent)
    expired(path.parent)


def file_control(directory):
    """What programs ask the file of a database: by the same words as of a file."""
    library = ctypes.CDLL(None)
    persist_wal, vfs_name, has_moved = 10, 12, 20
    for name in ("control.pando", "control.db"):
        path = directory / name
        connection = ctypes.c_void_p()
        assert library.sqlite3_open(os.fsencode(path), ctypes.byref(connection)) == 0
        assert library.sqlite3_exec(connection, b"PRAGMA journal_mode = wal; CREATE TABLE t(a)", None, None, None) == 0

        def ask(what, value):
            code = library.sqlite3_file_control(connection, b"main", what, ctypes.byref(value))
            assert code == 0, (name, what, code)
            return value.value

        ask(persist_wal, ctypes.c_int(1))
        assert ask(persist_wal, ctypes.c_int(-1)) == 1
        assert ask(vfs_name, ctypes.c_char_p()) == b"unix"
        assert ask(has_moved, ctypes.c_int(7)) == 0
        path.rename(directory / "moved")
        assert ask(has_moved, ctypes.c_int(7)) == 1
        (directory / "moved").rename(path)
        assert ask(has_moved, ctypes.c_int(7)) == 0
        assert library.sqlite3_close(connection) == 0


def expired(directory):
    """A handle whose row was changed or deleted neither reads nor writes, but goes on to another row, as in SQLite."""
    library, aborted = ctypes.CDLL(None), 4
    library.sqlite3_blob_reopen.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    library.sqlite3_errmsg.restype = ctypes.c_char_p
    for name in ("expired.pando", "expired.db"):
        connection, blob, byte = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.create_string_buffer(1)
        assert library.sqlite3_open(os.fsencode(directory / name), ctypes.byref(connection)) == 0

        def run_all(sql):
            assert library.sqlite3_exec(connection, sql, None, None, None) == 0, (name, sql)

        def open_at(rowid, may_write=0):
            arguments = (b"main", b"t", b"x", ctypes.c_int64(rowid), may_write, ctypes.byref(blob))
            assert library.sqlite3_blob_open(connection, *arguments) == 0, (name, rowid)

        run_all(b"CREATE TABLE t(id INTEGER PRIMARY KEY, x, y)")
        for change in (b"DELETE FROM t WHERE id = 1", b"UPDATE t SET y = 2 WHERE id = 1", b"DELETE FROM t WHERE id < 2"):
            run_all(b"REPLACE INTO t VALUES (1, zeroblob(10), 0), (2, x'0102', 0)")
            open_at(1)
            run_all(change)
            assert library.sqlite3_blob_reopen(blob, 2) == 0, (name, change)
            assert library.sqlite3_blob_read(blob, byte, 1, 1) == 0 and byte.raw == b"\x02", (name, change)
            run_all(b"UPDATE t SET y = 3 WHERE id = 2")
            assert library.sqlite3_blob_reopen(blob, 12) == 1, (name, change)
            assert library.sqlite3_errmsg(connection) == b"no such rowid: 12", (name, change)
            library.sqlite3_blob_close(blob)
            # Once it was used, it stays invalid.
            for use in (library.sqlite3_blob_read, library.sqlite3_blob_write):
                open_at(2)
                run_all(b"UPDATE t SET y = 4 WHERE id = 2")
                assert use(blob, byte, 1, 0) == aborted, (name, change)
                assert library.sqlite3_blob_reopen(blob, 2) == aborted, (name, change)
                library.sqlite3_blob_close(blob)
        assert library.sqlite3_close(connection) == 0


def names(directory):
    """How a database is named, and that a path with a mistake makes no directories."""
    try:
        sqlite3.connect(directory / "no" / "such" / "names.pando").execute("CREATE TABLE t(x)")
        raise AssertionError("it was created")
    except sqlite3.OperationalError as error:
        assert error.sqlite_errorcode == sqlite3.SQLITE_CANTOPEN, error
    assert not (directory / "no").exists()
    before = os.getcwd()
    os.chdir(directory)
    connection = sqlite3.connect("names.pando", isolation_level=None)
    os.chdir(before)
    connection.execute("CREATE TABLE t(x)")
    named = connection.execute("PRAGMA database_list").fetchone()[2]
    assert os.path.samefile(named, directory / "names.pando") and os.path.isabs(named), named
    reader = sqlite3.connect(f"file:{named}?mode=ro", uri=True)
    try:
        reader.execute("INSERT INTO t VALUES (1)")
        raise AssertionError("it was written")
    except sqlite3.OperationalError as error:
        assert str(error).startswith("attempt to write a readonly database"), error
    reader.close()
    connection.close()


def is_aborted(use):
    try:
        use()
    except sqlite3.OperationalError as error:
        return error.sqlite_errorcode == sqlite3.SQLITE_ABORT
    return False


def blobs(connection):
    content = os.urandom(200_000)
    connection.execute("CREATE TABLE files(id INTEGER PRIMARY KEY, name, data BLOB, note)")

    def fill():
        connection.execute("DELETE FROM files")
        rows = [(id, f"file {id}", content, f"note {id}") for id in range(5)]
        connection.executemany("INSERT INTO files VALUES (?, ?, ?, ?)", rows)

    fill()
    with connection.blobopen("files", "data", 3) as blob, connection.blobopen("files", "data", 3) as other:
        blob.seek(150_000)
        blob.write(b"hello")
        # Another row, and another handle on this one, change nothing.
        connection.execute("UPDATE files SET name = 'a longer name', note = NULL WHERE id = 4")
        other.seek(149_990)
        assert other.read(20) == content[149_990:150_000] + b"hello" + content[150_005:150_010]
        blob.seek(0)
        assert blob.read(10) == content[:10]
    changes = [
        "UPDATE files SET name = 'a name that is longer than it was' WHERE id = 3",
        "UPDATE files SET note = note WHERE id > 2",
        "DELETE FROM files WHERE id = 3",
        "DELETE FROM files",
        "INSERT OR REPLACE INTO files VALUES (3, 'x', zeroblob(200000), 'y')",
    ]
    for change in changes:
        fill()
        reader, writer = (connection.blobopen("files", "data", 3) for _ in range(2))
        assert reader.read(4) == content[:4]
        connection.execute(change)
        assert is_aborted(lambda: reader.read(4)), change
        assert is_aborted(lambda: writer.write(b"no")), change
        reader.close()
        writer.close()
        rows = connection.execute("SELECT count(*) FROM files WHERE data = ?", (content,)).fetchone()[0]
        assert rows == {"UPDATE": 5, "DELETE": 0 if change.endswith("files") else 4, "INSERT": 4}[change.split()[0]], change
    connection.execute("DROP TABLE files")


def pieces(connection):
    """Writes in pieces, with all kinds of things in between; `:memory:` is SQLite's own storage."""
    for seed in range(20):
        random, both = Random(seed), [connection, sqlite3.connect(":memory:", isolation_level=None)]
        for on in both:
            on.execute("CREATE TABLE files(id INTEGER PRIMARY KEY, name, data BLOB, note)")
            on.execute("INSERT INTO files VALUES (1, 'a', zeroblob(300000), 'b'), (2, 'c', zeroblob(50), 'd')")
            if seed % 2:
                on.execute("BEGIN")
        handles = [on.blobopen("files", "data", 1) for on in both]
        for _ in range(80):
            at, size, kind = random.randrange(290_000), random.randrange(9000), random.randrange(11)
            part = random.randbytes(size)
            results = []
            for on, handle in zip(both, handles):
                handle.seek(at)
                if kind < 6:
                    results.append(handle.write(part))
                elif kind < 8:
                    results.append(handle.read(size))
                elif kind == 8:
                    results.append(on.execute("SELECT *, substr(data, ?, 50) FROM files", (at,)).fetchall())
                elif kind == 9:
                    results.append(on.execute("UPDATE files SET note = ? WHERE id = 2", (part,)).rowcount)
                else:
                    with on.blobopen("files", "data", 1) as other:
                        other.seek(at)
                        results.append(other.read(size))
            assert results[0] == results[1], (seed, kind)
        for on, handle in zip(both, handles):
            handle.close()
            if seed % 2:
                on.execute(["COMMIT", "ROLLBACK"][seed // 2 % 2])
        rows = [on.execute("SELECT * FROM files").fetchall() for on in both]
        assert rows[0] == rows[1], seed
        connection.execute("DROP TABLE files")
    connection.execute("CREATE TABLE files(data BLOB)")
    for change in "DELETE FROM files", "DELETE FROM files WHERE rowid = 1", "UPDATE files SET data = 'x'":
        connection.execute("INSERT INTO files VALUES (zeroblob(100000))")
        blob = connection.blobopen("files", "data", 1)
        blob.write(b"a piece that waits")
        connection.execute(change)
        assert is_aborted(lambda: blob.read(1)), change
        blob.close()
        assert connection.execute("SELECT data FROM files").fetchall() == ([("x",)] if "'x'" in change else []), change
    connection.execute("DELETE FROM files")
    connection.execute("INSERT INTO files VALUES (zeroblob(?))", (8 << 20,))
    before = written()
    with connection.blobopen("files", "data", 1) as blob:
        for _ in range(256):
            blob.write(b"x" * (32 << 10))
    assert written() - before < 40 << 20, (written() - before) >> 20
    assert connection.execute("SELECT data FROM files").fetchone()[0] == b"x" * (8 << 20)
    connection.execute("DROP TABLE files")


def written():
    return next(int(line.split()[1]) for line in open("/proc/self/io") if line.startswith("wchar"))


def stopped_check(connection):
    connection.execute("CREATE TABLE many(id INTEGER PRIMARY KEY, x UNIQUE)")
    connection.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) INSERT INTO many SELECT i, i FROM n"
    )
    for call in range(1, 9):
        calls = iter(range(1, 1_000_000))
        connection.set_progress_handler(lambda: next(calls) == call, 3000)
        try:
            found = connection.execute("PRAGMA integrity_check").fetchall()
            assert found == [("ok",)], found
        except sqlite3.OperationalError as error:
            assert error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT, error
        connection.set_progress_handler(None, 0)
    connection.execute("DROP TABLE many")
