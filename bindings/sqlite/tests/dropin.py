"""Python's own sqlite3 module on a directory of Pando.

    LD_PRELOAD=libpando_sqlite3.so python dropin.py DIRECTORY
    LD_PRELOAD=libpando_sqlite3.so python dropin.py DIRECTORY (write | read)

The second form is a process of the first one: `write` commits until it is killed, and prints the last number each time;
`read` tries to write beside a writer.
"""

import errno
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path

import backups
import handles
import library_calls

SCHEMA = """
CREATE TABLE owner(id INTEGER PRIMARY KEY, name TEXT NOT NULL COLLATE NOCASE UNIQUE);
CREATE TABLE pet(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner INTEGER REFERENCES owner(id) ON DELETE CASCADE,
    name TEXT CHECK(length(name) > 0),
    weight REAL,
    label TEXT GENERATED ALWAYS AS (name || ' of ' || owner) STORED
);
CREATE INDEX pet_owner ON pet(owner);
CREATE INDEX pet_heavy ON pet(weight DESC) WHERE weight > 10;
CREATE INDEX pet_lower ON pet(lower(name));
CREATE TABLE log(at INTEGER PRIMARY KEY, what TEXT) STRICT;
CREATE TABLE kv(k TEXT PRIMARY KEY, v) WITHOUT ROWID;
CREATE TRIGGER pet_gone AFTER DELETE ON pet BEGIN INSERT INTO log(what) VALUES (old.name); END;
CREATE VIEW heavy AS SELECT owner.name AS owner, pet.name FROM pet JOIN owner ON owner.id = pet.owner WHERE weight > 10;
CREATE VIRTUAL TABLE notes USING fts5(body);
"""


def connect(path, **options):
    connection = sqlite3.connect(path, **options)
    connection.execute("PRAGMA foreign_keys = 1")
    return connection


def check(connection):
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


def schema_and_rows(path):
    connection = connect(path)
    connection.executescript(SCHEMA)
    with connection:
        connection.executemany("INSERT INTO owner VALUES (?, ?)", [(1, "Ada"), (2, "Grace")])
        connection.executemany(
            "INSERT INTO pet(owner, name, weight) VALUES (?, ?, ?)", [(1, "Rex", 30.5), (1, "Tom", 4), (2, "Bo", 12)]
        )
        connection.execute("INSERT INTO notes VALUES ('a quick brown fox')")
        connection.execute("INSERT INTO kv VALUES ('blob', ?)", (b"\0\1" * 100_000,))
    try:
        connection.execute("INSERT INTO owner(name) VALUES ('ADA')")
        raise AssertionError("the name exists")
    except sqlite3.IntegrityError as error:
        assert str(error) == "UNIQUE constraint failed: owner.name", error
    try:
        connection.execute("INSERT INTO pet(owner, name) VALUES (9, 'x')")
        raise AssertionError("there is no such owner")
    except sqlite3.IntegrityError as error:
        assert str(error) == "FOREIGN KEY constraint failed", error
    connection.rollback()
    connection.execute("DELETE FROM owner WHERE name = 'grace'")
    connection.commit()
    assert connection.execute("SELECT * FROM heavy").fetchall() == [("Ada", "Rex")]
    assert connection.execute("SELECT what FROM log").fetchall() == [("Bo",)]
    assert connection.execute("SELECT label FROM pet WHERE lower(name) = 'tom'").fetchone() == ("Tom of 1",)
    assert connection.execute("SELECT body FROM notes('quick')").fetchone() == ("a quick brown fox",)
    check(connection)
    names = [row[1:] for row in connection.execute("PRAGMA database_list")]
    assert names[0] == ("main", str(path)), names
    connection.create_collation("backwards", lambda one, two: (one < two) - (one > two))
    assert connection.execute("SELECT name FROM pet ORDER BY name COLLATE backwards").fetchall() == [("Tom",), ("Rex",)]
    try:
        connection.execute("CREATE INDEX pet_backwards ON pet(name COLLATE backwards)")
        raise AssertionError("an index needs an order of bytes")
    except sqlite3.OperationalError as error:
        assert str(error) == "an index on Pando cannot have the collation backwards", error
    copy = path.with_suffix(".db")
    connection.execute("VACUUM INTO ?", (str(copy),))
    connection.execute("VACUUM")
    connection.close()
    assert copy.read_bytes()[:15] == b"SQLite format 3"
    stock = connect(copy)
    assert stock.execute("SELECT * FROM heavy").fetchall() == [("Ada", "Rex")]
    check(stock)
    stock.close()


def reopened(path):
    connection = connect(path)
    for mode in "wal", "delete", "off":
        assert connection.execute(f"PRAGMA journal_mode = {mode}").fetchall() == [("wal",)]
    connection.execute("ATTACH ':memory:' AS other")
    assert connection.execute("PRAGMA other.journal_mode = wal").fetchall() == [("memory",)]
    connection.execute("DETACH other")
    connection.execute("INSERT INTO pet(owner, name) VALUES (1, 'Kit')")
    assert connection.execute("SELECT id, name FROM pet ORDER BY id").fetchall() == [(1, "Rex"), (2, "Tom"), (4, "Kit")]
    connection.commit()
    assert len(connection.execute("SELECT v FROM kv").fetchone()[0]) == 200_000
    check(connection)
    connection.close()


def several_connections(path):
    first = connect(path, isolation_level=None)
    first.execute("CREATE TABLE queue(id INTEGER PRIMARY KEY, by TEXT)")
    first.execute("CREATE TABLE counter(n)")
    first.execute("INSERT INTO counter VALUES (0)")

    def work(name):
        connection = connect(path, isolation_level=None, timeout=60)
        for _ in range(50):
            connection.execute("INSERT INTO queue(by) VALUES (?)", (name,))
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("UPDATE counter SET n = n + 1")
            connection.execute("COMMIT")
        connection.close()

    threads = [threading.Thread(target=work, args=(f"thread {at}",)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert first.execute("SELECT count(*), count(DISTINCT by) FROM queue").fetchone() == (200, 4)
    assert first.execute("SELECT n FROM counter").fetchone() == (200,)
    # A connection that waits for nobody gets SQLite's error at once.
    first.execute("BEGIN IMMEDIATE")
    second = connect(path, timeout=0)
    try:
        second.execute("INSERT INTO queue(by) VALUES ('second')")
        raise AssertionError("the first connection excludes it")
    except sqlite3.OperationalError as error:
        assert str(error).startswith("database is locked"), error
    first.execute("COMMIT")
    # A conflict at COMMIT says where it was.
    second.rollback()
    first.execute("BEGIN")
    first.execute("UPDATE counter SET n = n + 1")
    second.execute("UPDATE counter SET n = n + 1")
    first.execute("COMMIT")
    try:
        second.commit()
        raise AssertionError("the row has changed")
    except sqlite3.OperationalError as error:
        assert "conflict in table counter at rowid 1" in str(error), error
        assert error.sqlite_errorname == "SQLITE_BUSY_SNAPSHOT", error.sqlite_errorname
    first.close()
    second.close()


def repeated_statements(path):
    """A statement outside of BEGIN is repeated after a conflict, unless that could be noticed."""
    first = connect(path, isolation_level=None)
    other = connect(path, isolation_level=None, timeout=0)
    first.execute("CREATE TABLE tally(n)")
    first.execute("INSERT INTO tally VALUES (0)")
    left = 0

    def interfere():
        nonlocal left
        if left > 0:
            left -= 1
            try:
                other.execute("UPDATE tally SET n = n + 1")
            except sqlite3.OperationalError as error:
                assert error.sqlite_errorname == "SQLITE_BUSY", error.sqlite_errorname
        return 10

    first.create_function("interfere", 0, interfere)
    add = "UPDATE tally SET n = n + interfere()"
    # The seventh repetition excludes the other connection. It cannot wait in the same thread, and gives up.
    for left, times in ((1, 1), (3, 3), (100, 7)):
        first.execute(add)
        assert other.execute("SELECT n FROM tally").fetchone() == (10 + times,)
        other.execute("UPDATE tally SET n = 0")

    def conflicts(sql):
        nonlocal left
        left = 1
        try:
            first.execute(sql).fetchall()
            raise AssertionError(f"{sql} is repeated")
        except sqlite3.OperationalError as error:
            assert error.sqlite_errorname == "SQLITE_BUSY_SNAPSHOT", error.sqlite_errorname
        assert other.execute("SELECT n FROM tally").fetchone() == (1,)
        other.execute("UPDATE tally SET n = 0")

    # A row is returned once its commit is certain. From then on others are excluded, until the statement has ended.
    left = 3
    rows = first.execute(f"{add} RETURNING n")
    try:
        other.execute("UPDATE tally SET n = 0")
        raise AssertionError("it is excluded")
    except sqlite3.OperationalError as error:
        assert error.sqlite_errorname == "SQLITE_BUSY", error.sqlite_errorname
    assert rows.fetchall() == [(13,)]
    assert other.execute("SELECT n FROM tally").fetchone() == (13,)
    other.execute("UPDATE tally SET n = 0")
    # One of two databases may have been committed.
    first.execute("ATTACH ? AS second", (str(path.with_name("second.pando")),))
    conflicts(add)
    first.close()
    other.close()


def writes(path):
    connection = connect(path, isolation_level=None)
    connection.execute("CREATE TABLE IF NOT EXISTS work(id INTEGER PRIMARY KEY, twice UNIQUE)")
    connection.execute("CREATE INDEX IF NOT EXISTS work_text ON work('number ' || twice)")
    while True:
        id = connection.execute("INSERT INTO work(twice) VALUES ((SELECT count(*) * 2 FROM work))").lastrowid
        print(id, flush=True)


def reads_beside(path):
    connection = connect(path, isolation_level=None)
    before = connection.execute("SELECT count(*) FROM work").fetchone()[0]
    try:
        connection.execute("INSERT INTO work(twice) VALUES (-1)")
        raise AssertionError("another process writes")
    except sqlite3.OperationalError as error:
        assert "another process has the database open for writing" in str(error), error
    while connection.execute("SELECT count(*) FROM work").fetchone()[0] <= before:
        pass
    print("read beside the writer")


def spawn(path, role):
    return subprocess.Popen([sys.executable, __file__, str(path.parent), role], stdout=subprocess.PIPE, text=True)


def killed(path):
    done = 0
    for _ in range(5):
        writer = spawn(path, "write")
        last = done
        for _ in range(30):
            last = int(writer.stdout.readline())
        beside = spawn(path, "read")
        assert beside.communicate(timeout=60)[0] == "read beside the writer\n"
        assert beside.returncode == 0
        os.kill(writer.pid, signal.SIGKILL)
        for line in writer.stdout:
            last = int(line) if line.endswith("\n") else last
        writer.wait()
        connection = connect(path)
        found, twice = connection.execute("SELECT max(id), max(twice) FROM work").fetchone()
        assert found >= last and twice == 2 * (found - 1), (found, last, twice)
        assert connection.execute("SELECT count(*) FROM work WHERE 'number ' || twice >= ''").fetchone()[0] == found
        check(connection)
        connection.close()
        done = found


def stock_files(directory):
    """Ordinary files, and databases in memory, are SQLite's."""
    file = directory / "plain.db"
    connection = connect(file)
    connection.execute("CREATE TABLE t(a)")
    connection.execute("INSERT INTO t VALUES (1)")
    connection.commit()
    memory = sqlite3.connect(":memory:")
    connection.backup(memory)
    assert memory.execute("SELECT a FROM t").fetchone() == (1,)
    assert len(memory.serialize()) > 0
    assert file.is_file()
    # A directory of something else is not opened, and nothing is written into it.
    other = directory / "other"
    other.mkdir()
    try:
        connect(other)
        raise AssertionError("there is no database")
    except sqlite3.OperationalError as error:
        assert str(error) == "unable to open database file", error
    assert list(other.iterdir()) == []
    # A database in memory has a name, which may also be that of a directory.
    before = os.getcwd()
    os.chdir(directory)
    (directory / "x").mkdir()
    if hasattr(memory, "deserialize"):
        memory.deserialize(memory.serialize())
        assert memory.execute("SELECT a FROM t").fetchone() == (1,)
    named = sqlite3.connect(f"file:{directory}?vfs=memdb", uri=True)
    named.execute("CREATE TABLE t(a)")
    named.close()
    os.chdir(before)
    # Both kinds at once.
    connection.execute("ATTACH ? AS pando", (str(directory / "attached.pando"),))
    connection.execute("CREATE TABLE pando.t AS SELECT a + 1 AS a FROM main.t")
    assert connection.execute("SELECT a FROM pando.t").fetchone() == (2,)
    assert (directory / "attached.pando").is_dir()
    connection.commit()
    connection.close()
    read_only = sqlite3.connect(f"file:{directory / 'attached.pando'}?mode=ro", uri=True)
    try:
        read_only.execute("INSERT INTO t VALUES (3)")
        raise AssertionError("it only reads")
    except sqlite3.OperationalError as error:
        assert "read-only" in str(error), error


def forked(path):
    """A child of a fork opens the database itself, beside its parent."""
    connection = connect(path)
    child = os.fork()
    if child == 0:
        own = connect(path)
        found = own.execute("SELECT count(*) FROM owner").fetchone()[0]
        os._exit(0 if found == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert connection.execute("SELECT count(*) FROM owner").fetchone() == (1,)
    connection.close()


def read_only(path):
    """What the user may only read is opened for reading, and so is what the program says will not change."""
    directory = Path(tempfile.mkdtemp(dir="/tmp"))
    path = directory / "read.pando"
    connection = connect(path, isolation_level=None)
    connection.execute("CREATE TABLE t(a)")
    connection.close()

    def fails(connection, code, sql):
        try:
            connection.execute(sql)
            raise AssertionError(f"{sql} succeeds")
        except sqlite3.OperationalError as error:
            assert error.sqlite_errorname == code, error.sqlite_errorname

    immutable = sqlite3.connect(f"file:{path}?immutable=1", uri=True, isolation_level=None)
    fails(immutable, "SQLITE_READONLY", "INSERT INTO t VALUES (1)")
    immutable.close()
    directory.chmod(0o555)
    path.chmod(0o555)
    for file in path.iterdir():
        file.chmod(0o444)
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                # The rights do not bind root.
                os.setuid(65534)
            connection = connect(path, isolation_level=None)
            assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)
            fails(connection, "SQLITE_READONLY", "INSERT INTO t VALUES (1)")
            try:
                connect(directory / "new.pando")
                raise AssertionError("it is created")
            except sqlite3.OperationalError as error:
                assert error.sqlite_errorname == "SQLITE_CANTOPEN", error.sqlite_errorname
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    directory.chmod(0o755)
    path.chmod(0o755)
    shutil.rmtree(directory)


def files_run_out(path):
    """A database for which the process has no file left cannot be opened, as one of SQLite."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, before[1]))
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        assert error.errno == errno.EMFILE, error
    for _ in range(2):
        try:
            connect(path)
            raise AssertionError("it is opened")
        except sqlite3.OperationalError as error:
            assert error.sqlite_errorname == "SQLITE_CANTOPEN", error.sqlite_errorname
        os.close(held.pop())
    for file in held:
        os.close(file)
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
    connect(path).close()


def deleted(path):
    """Tests delete a database that they have left open, and make a new one of its name."""
    path = path.with_name("deleted.pando")
    old = connect(path)
    old.execute("CREATE TABLE old(a)")
    old.commit()
    shutil.rmtree(path)
    new = connect(path)
    new.execute("CREATE TABLE new(a)")
    new.execute("INSERT INTO new VALUES (1)")
    new.commit()
    # What the old connection writes is gone with its directory, whether it notices that or not.
    try:
        old.execute("INSERT INTO old VALUES (1)")
        old.commit()
    except sqlite3.OperationalError:
        pass
    old.close()
    other = connect(path)
    assert other.execute("SELECT name FROM sqlite_schema").fetchall() == [("new",)]
    assert other.execute("SELECT a FROM new").fetchall() == [(1,)]
    check(other)
    other.close()
    new.close()


def main():
    directory = Path(sys.argv[1])
    path = directory / "test.pando"
    if len(sys.argv) > 2:
        return {"write": writes, "read": reads_beside}[sys.argv[2]](path)
    steps = [schema_and_rows, reopened, several_connections, repeated_statements, handles.run, killed, forked, deleted]
    steps += [read_only, files_run_out]
    for step in steps:
        step(path)
    stock_files(directory)
    backups.run(directory)
    library_calls.run(directory)
    print(f"Python {sys.version.split()[0]} passed: {len(steps) + 3} parts")


if __name__ == "__main__":
    main()
