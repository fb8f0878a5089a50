"""sqlite3_backup and sqlite3_serialize on directories of Pando, by Python's own sqlite3 module. Part of dropin.py."""

import ctypes
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

BUSY, DONE, LEGACY_FILE_FORMAT = 5, 101, 1016
SOURCE = """
CREATE TABLE owner(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT COLLATE NOCASE UNIQUE);
CREATE TABLE pet(owner REFERENCES owner, name, label AS (name || '!'), kept AS (length(name)) STORED);
CREATE INDEX pet_name ON pet(name DESC) WHERE name > 'B';
CREATE INDEX pet_upper ON pet(upper(name));
CREATE TABLE kv(k, v, PRIMARY KEY(v, k)) WITHOUT ROWID;
CREATE TABLE "odd 'name"(a ANY) STRICT;
CREATE VIEW pets AS SELECT * FROM pet JOIN owner ON owner.id = pet.owner;
CREATE TRIGGER added AFTER INSERT ON pet BEGIN INSERT INTO kv VALUES (new.rowid, new.name); END;
CREATE VIRTUAL TABLE notes USING fts5(body);
INSERT INTO owner(name) VALUES ('Ada'), ('Grace'), ('gone');
DELETE FROM owner WHERE name = 'gone';
INSERT INTO pet(rowid, owner, name) VALUES (7, 1, 'Rex'), (-3, 2, 'Bo'), (100, 1, 'Tom');
INSERT INTO "odd 'name" VALUES (zeroblob(100000)), (2.5), (NULL);
INSERT INTO notes VALUES ('a quick brown fox'), ('a lazy dog');
ANALYZE;
PRAGMA user_version = 11;
PRAGMA application_id = 77;
"""


def opened(path, sql=SOURCE):
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.executescript(sql)
    return connection


def everything(connection):
    """Definitions and rows, with the rowids that no column has, and what the header has."""
    definitions = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name").fetchall()
    tables = [name for kind, name, _, sql in definitions if kind == "table" and not sql.startswith("CREATE VIRTUAL")]
    rows = {}
    for name in tables:
        quoted = '"' + name.replace('"', '""') + '"'
        try:
            rows[name] = connection.execute(f"SELECT rowid, * FROM {quoted} ORDER BY rowid").fetchall()
        except sqlite3.OperationalError:
            rows[name] = connection.execute(f"SELECT * FROM {quoted} ORDER BY 1").fetchall()
    header = [connection.execute(f"PRAGMA {name}").fetchone() for name in ("user_version", "application_id")]
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return definitions, rows, header


def refused(kind, words, call):
    try:
        call()
    except kind as error:
        assert words in str(error), error
        return
    raise AssertionError(f"it was not refused: {words}")


def out(directory):
    source = opened(directory / "out.pando")
    expected = everything(source)
    # A half-read statement and another connection's transaction do not hold it up.
    reading = source.execute("SELECT name FROM pet")
    reading.fetchone()
    beside = sqlite3.connect(directory / "out.pando", isolation_level=None)
    beside.execute("BEGIN IMMEDIATE")
    beside.execute("INSERT INTO owner(name) VALUES ('not committed')")
    steps = []
    memory = sqlite3.connect(":memory:")
    source.backup(memory, pages=2, progress=lambda status, remaining, total: steps.append((status, remaining, total)))
    assert everything(memory) == expected
    assert len(steps) > 10 and steps[-1][1] == 0 and steps[0][1] == steps[0][2] - 2, steps
    beside.execute("ROLLBACK")
    # A file that has something else.
    file = opened(directory / "out.db", "CREATE TABLE other(a); INSERT INTO other VALUES (1);")
    source.backup(file)
    assert everything(file) == expected
    assert reading.fetchall() == [("Rex",), ("Tom",)]
    refused(sqlite3.OperationalError, "unknown database nothing", lambda: source.backup(file, name="nothing"))
    source.execute("ATTACH ? AS second", (str(directory / "second.pando"),))
    source.execute("CREATE TABLE second.t AS SELECT 5 AS five")
    source.commit()
    source.backup(file, name="second")
    assert file.execute("SELECT * FROM t").fetchall() == [(5,)]
    # The same by serialize().
    if hasattr(source, "serialize"):
        image = source.serialize()
        assert image[:15] == b"SQLite format 3"
        memory.deserialize(image)
        assert everything(memory) == expected
        refused(sqlite3.OperationalError, "nothing", lambda: source.serialize(name="nothing"))
        # A connection that becomes one to memory leaves Pando as it is.
        other = sqlite3.connect(directory / "second.pando")
        other.deserialize(image)
        assert everything(other) == expected
        other.execute("DROP TABLE kv")
        other.close()
        second = sqlite3.connect(directory / "second.pando")
        assert second.execute("SELECT * FROM t").fetchall() == [(5,)]


def back(directory):
    for name, source in [("file", opened(directory / "in.db")), ("pando", opened(directory / "source.pando"))]:
        path = directory / f"in-{name}.pando"
        goal = opened(path, "CREATE TABLE pet(a, b); CREATE TABLE old(a UNIQUE); INSERT INTO old VALUES (1), (2);")
        beside = sqlite3.connect(path, isolation_level=None)
        beside.execute("BEGIN")
        assert beside.execute("SELECT count(*) FROM old").fetchone() == (2,)
        source.backup(goal, pages=3)
        expected = everything(source)
        assert everything(goal) == expected
        # A transaction that had begun reads on, and cannot write.
        assert beside.execute("SELECT count(*) FROM old").fetchone() == (2,)
        refused(sqlite3.OperationalError, "locked", lambda: beside.execute("INSERT INTO old VALUES (3)") and beside.execute("COMMIT"))
        if beside.in_transaction:
            beside.execute("ROLLBACK")
        assert everything(beside) == expected
        goal.execute("INSERT INTO owner(name) VALUES ('next')")
        goal.execute("INSERT INTO pet(owner, name) VALUES (1, 'Max')")
        goal.commit()
        assert beside.execute("SELECT id FROM owner WHERE name = 'NEXT'").fetchone() == (4,)
        assert beside.execute("SELECT k FROM kv WHERE v = 'Max'").fetchone() == (101,)
        # Once more, over what a backup has made.
        source.backup(goal)
        assert everything(beside) == expected
        goal.close()
        beside.close()
        assert everything(sqlite3.connect(path)) == expected


def waits(directory):
    """While another connection excludes writers, the last step waits as the destination does, and is busy then."""
    for timeout in (0, 30):
        path = directory / f"waits-{timeout}.pando"
        opened(path, "CREATE TABLE old(a);").close()
        goal = sqlite3.connect(path, timeout=timeout)
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        other.execute("INSERT INTO old VALUES (1)")
        statuses = []
        ending = threading.Timer(0.6, lambda: other.execute("COMMIT"))
        ending.start()
        source = opened(":memory:")
        # Python's module repeats a step that is busy.
        source.backup(goal, progress=lambda status, remaining, total: statuses.append(status), sleep=0.05)
        ending.join()
        assert (BUSY in statuses) == (timeout == 0) and statuses[-1] == DONE, statuses
        assert everything(goal) == everything(source)
        goal.execute("BEGIN")
        goal.execute("INSERT INTO owner(name) VALUES ('x')")
        refused(sqlite3.OperationalError, "in use", lambda: source.backup(goal))
        # Of a transaction that has written, only a part would be in the copy.
        memory = sqlite3.connect(":memory:")
        refused(sqlite3.OperationalError, "commit it first", lambda: goal.backup(memory))
        if hasattr(goal, "serialize"):
            refused(sqlite3.OperationalError, "unable to serialize", goal.serialize)
        goal.rollback()


def given_up(directory):
    """A program that does not repeat a busy step learns from sqlite3_backup_finish that nothing was copied."""
    lib = ctypes.CDLL(None)
    for function in ("sqlite3_backup_init", "sqlite3_errmsg"):
        getattr(lib, function).restype = ctypes.c_void_p
    path = directory / "given-up.pando"
    opened(path, "CREATE TABLE old(a); INSERT INTO old VALUES (1);").close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    goal, source = ctypes.c_void_p(), ctypes.c_void_p()
    assert lib.sqlite3_open(str(path).encode(), ctypes.byref(goal)) == 0
    assert lib.sqlite3_open(b":memory:", ctypes.byref(source)) == 0
    assert lib.sqlite3_exec(source, b"CREATE TABLE new(a)", None, None, None) == 0
    for outcome in (BUSY, 0):
        backup = ctypes.c_void_p(lib.sqlite3_backup_init(goal, b"main", source, b"main"))
        assert lib.sqlite3_backup_step(backup, -1) == (outcome or DONE)
        if outcome:
            assert lib.sqlite3_backup_step(backup, -1) == BUSY
        found = lib.sqlite3_backup_finish(backup), lib.sqlite3_errcode(goal)
        assert found == (outcome, outcome), found
        tables = [name for (name,) in sqlite3.connect(path).execute("SELECT name FROM sqlite_schema")]
        assert tables == (["old"] if outcome else ["new"]), tables
        other.execute("ROLLBACK") if other.in_transaction else None
    # One that is left before its last page has no error.
    backup = ctypes.c_void_p(lib.sqlite3_backup_init(goal, b"main", source, b"main"))
    assert lib.sqlite3_backup_step(backup, 1) == 0 and lib.sqlite3_backup_finish(backup) == 0
    assert [lib.sqlite3_close(connection) for connection in (goal, source)] == [0, 0]


def empty(directory):
    """A database without tables replaces others, too."""
    (directory / "empty.db").touch()
    with_version = opened(directory / "version.db", "PRAGMA user_version = 5;")
    bare = sqlite3.connect(directory / "bare.pando")
    for number, source in enumerate([sqlite3.connect(directory / "empty.db"), sqlite3.connect(":memory:"), with_version, bare]):
        goal = opened(directory / f"empty-{number}.pando", "CREATE TABLE old(a); INSERT INTO old VALUES (1);")
        source.backup(goal)
        assert everything(goal) == everything(source)
        goal.executescript("CREATE TABLE t(a); INSERT INTO t VALUES (1);")
        file = opened(directory / f"empty-{number}.db", "CREATE TABLE old(a);")
        bare.backup(file)
        assert everything(file) == everything(bare)
    bare.execute("VACUUM INTO ?", (str(directory / "vacuumed.pando"),))


def old_format(directory):
    """Before format 4 of SQLite's files, DESC of an index had no effect. Rowids and rows stay as they are all the same."""
    lib, rows = ctypes.CDLL(None), """
        CREATE TABLE t(a, b); CREATE INDEX d ON t(a DESC); INSERT INTO t(rowid, a) VALUES (5, 1), (10, 2), (20, 3);
        CREATE TABLE g(a, b AS (a + 1), c AS (a) STORED); CREATE INDEX gd ON g(a DESC); INSERT INTO g(a) VALUES (1), (2);"""
    sources = [opened(directory / "new.db", rows), opened(directory / "new.pando", rows)]
    for name in ("old.db", "old.pando"):
        old = ctypes.c_void_p()
        assert lib.sqlite3_open(str(directory / name).encode(), ctypes.byref(old)) == 0
        assert lib.sqlite3_db_config(old, LEGACY_FILE_FORMAT, 1, None) == 0
        assert lib.sqlite3_exec(old, rows.encode(), None, None, None) == 0
        assert lib.sqlite3_close(old) == 0
        sources.append(sqlite3.connect(directory / name))
    assert (directory / "old.db").read_bytes()[47] == 1
    goal = sqlite3.connect(directory / "goal.pando")
    for source in sources + sources[::-1]:
        copy = sqlite3.connect(":memory:")
        source.backup(goal)
        goal.backup(copy)
        assert everything(goal) == everything(copy) == everything(source)
        assert goal.execute("SELECT a FROM t ORDER BY a DESC").fetchall() == [(3,), (2,), (1,)]


def not_supported(directory):
    """What Pando has no place for is refused, and everything stays."""
    goal = opened(directory / "refused.pando", "CREATE TABLE old(a); INSERT INTO old VALUES (1);")
    before = everything(goal)
    source = sqlite3.connect(":memory:")
    source.create_collation("backwards", lambda one, two: (one < two) - (one > two))
    source.executescript("CREATE TABLE a(a); CREATE TABLE t(a COLLATE backwards); CREATE INDEX i ON t(a);")
    refused(sqlite3.OperationalError, "an index on Pando cannot have the collation backwards", lambda: source.backup(goal))
    assert everything(goal) == before
    source.execute("DROP INDEX i")
    source.backup(goal)
    assert everything(goal)[0] == everything(source)[0]
    wide = opened(":memory:", "PRAGMA encoding = 'UTF-16le'; CREATE TABLE t(a);")
    refused(sqlite3.DatabaseError, "", lambda: wide.backup(goal))
    assert everything(goal)[0] == everything(source)[0]
    # A function of the program's in an index.
    for connection in (source, goal):
        connection.create_function("half", 1, lambda value: value / 2, deterministic=True)
    source.executescript("CREATE TABLE n(a, b AS (half(a)) STORED); CREATE INDEX n_half ON n(half(a)); INSERT INTO n VALUES (4), (6);")
    source.backup(goal)
    assert goal.execute("SELECT a FROM n INDEXED BY n_half WHERE half(a) = 3").fetchall() == [(6,)]
    memory = sqlite3.connect(":memory:")
    goal.backup(memory)
    memory.create_function("half", 1, lambda value: value / 2, deterministic=True)
    assert everything(memory) == everything(goal)
    # VACUUM INTO writes to what is empty only.
    refused(sqlite3.OperationalError, "refused.pando", lambda: source.execute("VACUUM INTO ?", (str(directory / "refused.pando"),)))
    source.execute("VACUUM INTO ?", (str(directory / "vacuumed.pando"),))
    vacuumed = sqlite3.connect(directory / "vacuumed.pando")
    vacuumed.create_function("half", 1, lambda value: value / 2, deterministic=True)
    assert everything(vacuumed) == everything(source)


def killed(directory):
    """A process that is killed while it restores leaves the database of before, or the whole copy."""
    path = directory / "killed.pando"
    opened(directory / "killed.db", "CREATE TABLE t(a UNIQUE, b); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1"
           " FROM n WHERE i < 20000) INSERT INTO t SELECT i, i * 2 FROM n;").close()
    outcomes, delay = set(), 0.0
    while outcomes != {"old", "t"} or delay < 0.5:
        opened(path, "DROP TABLE IF EXISTS t; CREATE TABLE IF NOT EXISTS old(a UNIQUE); INSERT OR IGNORE INTO old VALUES (1);").close()
        child = subprocess.Popen([sys.executable, __file__, str(directory)], stdout=subprocess.PIPE, text=True)
        assert child.stdout.readline() == "begins\n"
        time.sleep(delay)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        delay = delay * 1.3 + 0.03
        assert delay < 60, "it never ends"
        connection = sqlite3.connect(path)
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        assert tables in ({"old"}, {"t"}), tables
        if tables == {"t"}:
            assert connection.execute("SELECT count(*), sum(b) FROM t").fetchone() == (20000, 400020000)
        outcomes |= tables
        connection.close()


def run(directory):
    for step in (out, back, waits, given_up, empty, old_format, not_supported, killed):
        place = directory / step.__name__
        place.mkdir()
        step(place)


if __name__ == "__main__":
    # The process that is killed.
    directory = Path(sys.argv[1])
    goal, source = sqlite3.connect(directory / "killed.pando"), sqlite3.connect(directory / "killed.db")
    print("begins", flush=True)
    source.backup(goal)
    time.sleep(60)
