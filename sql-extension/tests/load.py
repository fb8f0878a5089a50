"""A Pando database in Python's own sqlite3: load.py LIBRARY DIRECTORY. The directory must not be there yet.

With `write` after these, it is the process beside which another one reads: it moves prices until it is killed.
"""

import atexit
import sqlite3
import subprocess
import sys
import time

library, directory = sys.argv[1:3]


def connect(name=":memory:"):
    connection = sqlite3.connect(name, isolation_level=None, uri=True)
    connection.enable_load_extension(True)
    connection.load_extension(library)
    return connection


def refused(connection, sql, says):
    try:
        connection.execute(sql).fetchall()
    except sqlite3.Error as error:
        assert says in str(error), error
    else:
        raise AssertionError(f"{sql} was not refused")


def writes():
    connection = connect()
    connection.execute("SELECT pando_open(?)", [directory]).fetchone()
    connection.execute("UPDATE fruit SET price = 1")
    print("writing", flush=True)
    for n in range(1, 1 << 30):
        connection.execute("BEGIN")
        connection.execute("UPDATE fruit SET price = price - ? WHERE id = 1", [n % 7])
        connection.execute("UPDATE fruit SET price = price + ? WHERE id = 2", [n % 7])
        connection.execute("COMMIT")


if sys.argv[3:] == ["write"]:
    writes()

connection = connect()
refused(connection, "SELECT pando_schema()", "no Pando database is open")
refused(connection, "SELECT pando_open('/nowhere/at/all')", "nowhere")
assert connection.execute("SELECT pando_open(?, 'create')", [directory]).fetchone() == (0,)
fruit = "CREATE TABLE fruit(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, price REAL)"
assert connection.execute("SELECT pando_sql(?)", [fruit]).fetchone() == (0,)
connection.execute("INSERT INTO fruit VALUES(1, 'apple', 0.5), (2, 'lemon', 0.75)")
refused(connection, f"SELECT pando_open('{directory}')", "already")

# Reads go by keys and indexes.
assert connection.execute("SELECT name FROM fruit WHERE id = 2").fetchall() == [("lemon",)]
plan = connection.execute("EXPLAIN QUERY PLAN SELECT * FROM fruit WHERE name = 'apple'").fetchall()
assert "INDEX" in plan[0][3], plan

# Changes are transactions of Pando's; a statement that fails is undone whole.
connection.execute("BEGIN")
connection.executemany("INSERT INTO fruit VALUES(?, ?, ?)", [(n, f"fruit {n}", n / 4) for n in range(3, 1003)])
connection.execute("SAVEPOINT s")
connection.execute("DELETE FROM fruit")
connection.execute("ROLLBACK TO s")
refused(connection, "INSERT INTO fruit VALUES(5000, 'x', 1), (5001, 'apple', 1)", "UNIQUE constraint failed: fruit.name")
connection.execute("COMMIT")
assert connection.execute("SELECT count(*), max(id) FROM fruit").fetchone() == (1002, 1002)
connection.execute("BEGIN")
connection.execute("UPDATE fruit SET price = 0")
connection.execute("ROLLBACK")
assert connection.execute("SELECT sum(price) > 0 FROM fruit").fetchone() == (1,)

# Joins with tables of the program's own.
# What would be gone with the program's database, which is in memory, is refused.
for lost in [
    "CREATE TABLE mine(fruit INTEGER)",
    "CREATE TABLE IF NOT EXISTS main.mine AS SELECT 1",
    "CREATE VIEW mine AS SELECT * FROM fruit",
    "CREATE VIRTUAL TABLE mine USING fts5(fruit)",
    "PRAGMA user_version = 5",
    "PRAGMA main.Application_Id(5)",
]:
    refused(connection, lost, "not authorized")
assert connection.execute("PRAGMA user_version").fetchone() == (0,)
connection.execute("CREATE TEMP VIEW cheap AS SELECT name FROM fruit WHERE price < 0.6")
connection.execute("DROP VIEW cheap")
connection.execute("CREATE TEMP TABLE mine(fruit INTEGER)")
connection.execute("INSERT INTO mine VALUES(1), (2)")
names = connection.execute("SELECT name FROM mine JOIN fruit ON fruit.id = mine.fruit ORDER BY 1").fetchall()
assert names == [("apple",), ("lemon",)], names

# Rows without ids, which SQLite names by their key.
connection.execute("SELECT pando_sql('CREATE TABLE word(text TEXT, n INTEGER, PRIMARY KEY(n DESC, text))')").fetchall()
connection.executemany("INSERT INTO word VALUES(?, ?)", [(f"word {n:04}", n) for n in range(1000)])
assert connection.execute("UPDATE word SET n = n + 1, text = text || 's' WHERE n % 2 = 0").rowcount == 500
assert connection.execute("SELECT count(*), sum(n) FROM word WHERE text LIKE '%s'").fetchone() == (500, 250000)
assert connection.execute("DELETE FROM word WHERE n = 1 OR text = 'word 0002s'").rowcount == 3
assert connection.execute("DELETE FROM word").rowcount == 997

# What SQLite has no answer for with virtual tables.
connection.execute("SELECT pando_sql('CREATE TABLE town(id INTEGER PRIMARY KEY, name TEXT DEFAULT ''Ulm'')')").fetchall()
assert connection.execute("SELECT pando_sql('INSERT INTO town DEFAULT VALUES')").fetchone() == (1,)
assert connection.execute("SELECT * FROM town").fetchall() == [(1, "Ulm")]
refused(connection, "INSERT INTO town(id) VALUES(2)", "has a default")
refused(connection, "INSERT INTO town(name) VALUES('Bonn') RETURNING id", "RETURNING")
connection.execute("INSERT INTO town(name) VALUES('Bonn')")
assert connection.execute("SELECT last_insert_rowid()").fetchone() == (2,)
connection.execute("SELECT pando_sql('DELETE FROM town WHERE id = 2')").fetchall()

# A savepoint that begins a transaction, and the descriptions of tables.
connection.execute("SAVEPOINT outermost")
connection.execute("INSERT INTO town VALUES(7, 'Jena')")
connection.execute("ROLLBACK TO outermost")
connection.execute("RELEASE outermost")
assert connection.execute("SELECT count(*) FROM town").fetchone() == (1,)
named = connection.execute("SELECT name FROM pando_sqlite_schema WHERE type = 'table' ORDER BY 1").fetchall()
assert named == [("fruit",), ("town",), ("word",)], named
upsert = "INSERT INTO fruit VALUES(1, 'apple', 9) ON CONFLICT(id) DO UPDATE SET price = excluded.price"
assert connection.execute("SELECT pando_sql(?)", [upsert]).fetchone() == (1,)
assert connection.execute("SELECT price FROM fruit WHERE id = 1").fetchone() == (9.0,)
connection.execute("INSERT INTO fruit VALUES(2000, 'last', 1)")
assert "CREATE TABLE" in connection.execute("SELECT pando_schema()").fetchone()[0]
refused(connection, "SELECT pando_sql('SELECT pando_schema()')", "within pando_sql")

# What an object-relational mapper does, on each kind of database that is not in a file: nothing is stored silently.
names = [":memory:", "", "file:shared?mode=memory&cache=shared", "file:/named?vfs=memdb"]
for n, name in enumerate(names):
    mapper = connect(name)
    mapper.execute("SELECT pando_open(?, 'create')", [directory + "-mapper"]).fetchall()
    refused(mapper, f"CREATE TABLE users{n}(id INTEGER PRIMARY KEY, name TEXT)", "not authorized")
    refused(mapper, f"INSERT INTO users{n}(name) VALUES('ann')", "no such table")
    mapper.execute(f"SELECT pando_sql('CREATE TABLE users{n}(id INTEGER PRIMARY KEY, name TEXT)')").fetchall()
    refused(mapper, f"INSERT INTO users{n}(name) VALUES('ann') RETURNING id", "use last_insert_rowid()")
    mapper.execute(f"INSERT INTO users{n}(name) VALUES('ann')")
    mapper.close()
mapper = connect()
assert mapper.execute("SELECT pando_open(?)", [directory + "-mapper"]).fetchone() == (len(names),)
for n in range(len(names)):
    assert mapper.execute(f"SELECT id, name FROM users{n}").fetchall() == [(1, "ann")]
mapper.close()

# Another connection cannot open it before this one is closed; then it finds everything.
refused(connect(), f"SELECT pando_open('{directory}')", "")
connection.close()
again = connect()
assert again.execute("SELECT pando_open(?, 'read')", [directory]).fetchone() == (3,)
assert again.execute("SELECT count(*) FROM fruit").fetchone() == (1003,)
refused(again, "DELETE FROM fruit", "read-only")
again.close()

# While another process writes, each statement reads one of its commits.
writer = subprocess.Popen([sys.executable, __file__, library, directory, "write"], stdout=subprocess.PIPE, text=True)
atexit.register(writer.kill)
assert writer.stdout.readline() == "writing\n"
beside = connect()
refused(beside, f"SELECT pando_open('{directory}')", "is locked by process")
assert beside.execute("SELECT pando_open(?, 'read')", [directory]).fetchone() == (3,)
seen, deadline = set(), time.monotonic() + 30
while len(seen) < 20:
    assert time.monotonic() < deadline, f"the reader has seen {len(seen)} commits"
    total, first = beside.execute("SELECT sum(price), min(price) FROM fruit").fetchone()
    assert total == 1003, total
    seen.add(first)
refused(beside, "DELETE FROM fruit", "read-only")
writer.kill()
writer.wait()
assert beside.execute("SELECT sum(price) FROM fruit").fetchone() == (1003,)
beside.close()
print("python", sqlite3.sqlite_version, "passed")
