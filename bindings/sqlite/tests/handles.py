"""Handles of blobs, and checks that are stopped: what the part of SQLite's interface below the statements must do."""

import os
import sqlite3


def run(path):
    connection = sqlite3.connect(path, isolation_level=None)
    if hasattr(connection, "blobopen"):
        blobs(connection)
    stopped_check(connection)
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
