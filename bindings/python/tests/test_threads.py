"""Objects that several threads use at the same time: each call works, or raises a typed error that says what to do.

An interpreter with a lock runs the tests, too. There the threads take turns, and change as often as the interpreter allows.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Callable, TypeVar

import pytest

import pando
from pando import dbapi

T = TypeVar("T")
THREADS = 4
IS_FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


@pytest.fixture(autouse=True)
def short_turns() -> Iterator[None]:
    """Lets threads change often, where they take turns."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def together(work: Callable[[int], T], threads: int = THREADS) -> list[T]:
    """Runs ``work`` with the number of each thread, all beginning at once. Returns the results in the order of the threads."""
    barrier = threading.Barrier(threads)
    results: dict[int, T] = {}
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            barrier.wait(30)
            results[number] = work(number)
        except BaseException as error:
            failures.append(error)

    started = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join(100)
        assert not thread.is_alive()
    if failures:
        raise failures[0]
    return [results[number] for number in range(threads)]


def until_free(call: Callable[[], T]) -> T:
    """Repeats a call of an object that another thread may use at this moment."""
    while True:
        try:
            return call()
        except pando.ThreadError as error:
            assert "in use" in str(error) and "one for each thread" in str(error)


@pytest.mark.skipif(not IS_FREE_THREADED, reason="the interpreter has a lock")
def test_a_free_threaded_interpreter_stays_without_a_lock() -> None:
    script = "import sys, pando, pando.aio, pando.dbapi; print(sys._is_gil_enabled())"
    # With PYTHON_GIL=0 there would be no lock whatever the module says.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("False\n", "")


FIRST_USE = """
import threading
barrier = threading.Barrier(8)
failures = []
def use(number):
    try:
        barrier.wait()
        import pando
        with pando.in_memory() as db:
            table = db.table("t", key=int, value="json")
            table[number] = {"n": number}
            assert table[number] == {"n": number}
            try:
                db.table("none", create=False)
            except pando.MissingError:
                pass
            assert db.sql().execute("SELECT 1").fetchall() == [(1,)]
    except BaseException as error:
        failures.append(error)
threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failures, failures
"""


def test_threads_import_the_package_and_use_it_first() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_USE], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("layout", ["btree", "lsm"])
def test_one_mapping(db: pando.Database, layout: Any) -> None:
    table = db.create_table("t", key=str, value="json", layout=layout)
    table["n"] = 0
    rounds = 60

    def work(thread: int) -> dict[str, Any]:
        own: dict[str, Any] = {}
        for number in range(rounds):
            key = f"{thread}/{number % 20:02}"
            if number % 7 == 3:
                assert table.pop(key, None) == own.pop(key, None)
            else:
                table[key] = own[key] = [thread, number]
            assert table.get(key) == own.get(key) and (key in table) == (key in own)
            assert table.multi_get([key, "none"]) == [own.get(key), None]
            assert dict(table.range(prefix=f"{thread}/")) == own
            while not table.compare_and_swap("n", before := table["n"], before + 1):
                pass
        return own

    model = {key: value for own in together(work) for key, value in own.items()}
    assert table.pop("n") == THREADS * rounds
    assert dict(table) == model and len(table) == len(model)
    db.check()


def test_one_database(db: pando.Database) -> None:
    def work(thread: int) -> None:
        for number in range(10):
            name = f"t{thread}"
            table = db.create_table(name, key=int)
            with db.write() as tx:
                tx[table][number] = b"%d" % thread
            with db.snapshot() as snapshot:
                assert dict(snapshot[table]) == {number: b"%d" % thread}
            assert name in db.tables() and db.stats()["commits"] > 0
            db.rename_table(name, name + "x")
            db.drop_table(name + "x")

    together(work)
    assert db.tables() == []


def test_one_transaction(db: pando.Database) -> None:
    table = db.table("t", key=int)
    tx = db.write(check_same_thread=False)
    inside = tx[table]

    def work(thread: int) -> None:
        for number in range(100):
            key = thread * 100 + number
            until_free(lambda: inside.put(key, b"%d" % key))
            assert until_free(lambda: inside.get(key)) == b"%d" % key

    together(work)

    def commit(_: int) -> bool:
        try:
            tx.commit()
            return True
        except (pando.ThreadError, pando.ClosedError):
            return False

    assert sum(together(commit)) == 1
    assert dict(table) == {key: b"%d" % key for key in range(THREADS * 100)}


def test_one_savepoint(db: pando.Database) -> None:
    table = db.table("t", key=int)
    tx = db.write(check_same_thread=False)
    point = tx.savepoint()

    def work(thread: int) -> None:
        for _ in range(50):
            until_free(lambda: tx[table].put(thread, b""))
            until_free(point.rollback)

    together(work)
    assert dict(tx[table]) == {}
    tx.rollback()


@dataclass
class Row:
    id: int
    name: str


def drain(iterator: Iterator[T]) -> list[T]:
    """Returns what one of several threads gets from an iterator."""
    taken: list[T] = []
    end: Any = object()
    while True:
        one = until_free(lambda: next(iterator, end))
        if one is end:
            return taken
        taken.append(one)


def test_one_iterator(db: pando.Database) -> None:
    table = db.table("t", key=int, value="json")
    table.update((number, [number]) for number in range(3000))
    rows = db.typed(Row, key="id")
    rows.insert_many(Row(number, str(number)) for number in range(1500))
    with db.write(check_same_thread=False) as tx, db.snapshot() as snapshot:
        for of in (table, snapshot[table], tx[table]):
            items = of.range()
            found = [one for each in together(lambda _: drain(items)) for one in each]
            assert sorted(found) == [(number, [number]) for number in range(3000)], "each record once"
        for typed in (rows, snapshot[rows], tx[rows]):
            scan = typed.scan()
            made = [one for each in together(lambda _: drain(scan)) for one in each]
            assert sorted(made, key=lambda row: row.id) == [Row(number, str(number)) for number in range(1500)]


def test_one_typed_table(db: pando.Database) -> None:
    rows = db.typed(Row, key="id", unique={"by_name": "name"})

    def work(thread: int) -> int:
        won = 0
        for number in range(30):
            try:
                rows.insert(Row(thread * 100 + number, str(number)))
                won += 1
            except pando.ExistsError:
                pass
            assert rows.count() > 0
        return won

    assert sum(together(work)) == 30
    assert sorted(row.name for row in rows) == sorted(str(number) for number in range(30))


def test_one_value(db: pando.Database) -> None:
    table = db.table("t", key=str)
    value = b"".join(b"%08d" % number for number in range(100_000))
    table["long"] = value
    with table.open_value("long") as file:

        def work(_: int) -> list[bytes]:
            pieces = []
            while piece := file.read(8):
                pieces.append(piece)
            return pieces

        found = [piece for pieces in together(work) for piece in pieces]
        assert b"".join(sorted(found)) == value, "each piece once"


def test_one_feed_and_one_consumer(db: pando.Database) -> None:
    table = db.table("t", key=int)
    feed, consumer = db.changes(after=db.snapshot().commit_number), db.consumer("c")
    for number in range(300):
        table[number] = b""

    def work(thread: int) -> list[int]:
        seen = []
        while (change := until_free(lambda: feed.next(0))) is not None:
            seen.append(change.commit_number)
            if thread == 0:
                until_free(lambda: consumer.acknowledge(seen[-1]))
        return seen

    seen = [number for each in together(work) for number in each]
    assert len(seen) == len(set(seen)) == 300
    assert db.oldest_change() <= consumer.position <= max(seen)
    together(lambda _: (feed.close(), consumer.close()))
    assert feed.is_closed


def test_one_connection(db: pando.Database) -> None:
    connection = db.sql()
    connection.execute("CREATE TABLE t(thread INTEGER, number INTEGER)")
    connection.commit()
    rounds = 60

    def work(thread: int) -> None:
        for number in range(rounds):
            cursor = connection.cursor()
            cursor.execute("INSERT INTO t VALUES (?, ?)", (thread, number))
            assert cursor.rowcount == 1
            cursor.executemany("INSERT INTO t VALUES (?, ?)", [(thread, -number), (thread, -number)])
            assert cursor.rowcount == 2
            # The transaction is that of all threads: one begins it, and one commits it.
            connection.commit()
            found = cursor.execute("SELECT count(*) FROM t WHERE thread = ?", [thread]).fetchall()
            assert found == [(3 * (number + 1),)]

    together(work)
    connection.commit()
    assert connection.execute("SELECT count(*) FROM t").fetchall() == [(3 * THREADS * rounds,)]
    together(lambda _: connection.rollback())
    assert not connection.in_transaction
    together(lambda _: connection.close())
    with pytest.raises(dbapi.ProgrammingError):
        connection.cursor()


def test_one_cursor(db: pando.Database) -> None:
    cursor = db.sql().cursor()
    cursor.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) SELECT i FROM n")
    found = [row for rows in together(lambda _: list(cursor)) for row in rows]
    assert sorted(found) == [(number,) for number in range(1, 2001)], "each row once"

    def work(thread: int) -> None:
        for _ in range(100):
            try:
                cursor.execute("SELECT ?, ?", [thread, thread])
                rows = cursor.fetchall()
            except dbapi.ProgrammingError as error:
                assert "execute a query first" in str(error)
                continue
            # A statement of another thread may have replaced the rows, or their last may have been fetched.
            assert len(rows) <= 1 and all(first == second for first, second in rows)
            description = cursor.description
            assert description is None or len(description) == 2

    together(work)


def test_parameters_that_change(db: pando.Database) -> None:
    connection = db.sql()
    parameters: dict[str, int] = {"a": 1}
    ended = threading.Event()

    def work(thread: int) -> None:
        if thread > 0:
            try:
                for _ in range(200):
                    assert connection.execute("SELECT :a", parameters).fetchall() == [(1,)]
            finally:
                ended.set()
        while not ended.is_set():
            for number in range(50):
                parameters[f"x{number}"] = number
            for number in range(50):
                parameters.pop(f"x{number}", None)

    together(work, 2)


def test_a_close_while_others_work(db: pando.Database) -> None:
    table = db.table("t", key=int)
    table.update((number, b"") for number in range(5000))
    begun = threading.Barrier(THREADS * 2 + 1)

    def use(call: Callable[[], object]) -> None:
        begun.wait(30)
        while True:
            call()

    calls: list[Callable[[], object]] = [
        lambda: table.get(1),
        lambda: table.put(1, b""),
        lambda: list(table),
        lambda: db.transact(lambda tx: tx[table].put(2, b""), retries=1000),
        lambda: len(db.snapshot()[table]),
        lambda: db.sql().execute("SELECT 1").fetchall(),
        db.stats,
        db.checkpoint,
    ]
    assert len(calls) == THREADS * 2

    def work(thread: int) -> None:
        if thread == len(calls):
            begun.wait(30)
            db.close()
            return
        with pytest.raises((pando.ClosedError, dbapi.ProgrammingError), match="closed"):
            use(calls[thread])

    together(work, len(calls) + 1)
    db.close()


def test_a_close_while_connections_begin() -> None:
    for _ in range(30):
        db = pando.in_memory()

        def work(thread: int) -> None:
            if thread == 0:
                db.close()
                return
            with pytest.raises((pando.ClosedError, dbapi.ProgrammingError), match="closed"):
                while True:
                    db.sql().execute("SELECT 1")

        together(work, 2)


def test_a_feed_and_a_consumer_that_others_close(db: pando.Database) -> None:
    table = db.table("t", key=int)
    for _ in range(20):
        feed, consumer = db.changes(), db.consumer("c")

        def work(thread: int) -> None:
            if thread == 0:
                feed.close()
                consumer.close()
                return
            table[0] = b""
            for _ in feed:
                pass
            with pytest.raises(pando.ClosedError):
                while True:
                    consumer.acknowledge(db.snapshot().commit_number)

        together(work, 2)


@contextmanager
def in_a_call(tx: pando.Transaction, table: pando.Table[int, bytes]) -> Iterator[Callable[[], None]]:
    """Keeps another thread in a call of the transaction, which ends soon after what is yielded was called."""
    begun, may_end = threading.Event(), threading.Event()

    def records() -> Iterator[tuple[int, bytes]]:
        begun.set()
        may_end.wait(60)
        yield from ()

    thread = threading.Thread(target=lambda: tx[table].bulk_load(records()))
    thread.start()
    assert begun.wait(60)
    timer = threading.Timer(0.1, may_end.set)
    try:
        yield timer.start
    finally:
        may_end.set()
        timer.cancel()
        thread.join()


def test_a_step_that_was_refused(db: pando.Database) -> None:
    table, other = db.table("t", key=int), db.table("other", key=int)
    table.update((number, b"") for number in range(5))
    with db.write(check_same_thread=False) as tx:
        cursor = tx[table].cursor()
        for _ in range(5):
            assert cursor.next()
        with in_a_call(tx, other), pytest.raises(pando.ThreadError):
            cursor.prev()
        assert cursor.prev() and cursor.key == 3


def test_blocks_end_after_the_calls_of_other_threads(db: pando.Database) -> None:
    table, other = db.table("t", key=int), db.table("other", key=int)
    with db.write(check_same_thread=False) as tx, ExitStack() as stack:
        with pytest.raises(ZeroDivisionError), tx.savepoint():
            tx[table][1] = b"undone"
            stack.enter_context(in_a_call(tx, other))()
            raise ZeroDivisionError
    assert 1 not in table
    with ExitStack() as stack:
        with pytest.raises(ZeroDivisionError), db.write(check_same_thread=False) as tx:
            tx[table][1] = b"undone"
            stack.enter_context(in_a_call(tx, other))()
            raise ZeroDivisionError
        assert not tx.is_active and 1 not in table
    # Blocks that end without an exception wait, too.
    with ExitStack() as stack, db.write(check_same_thread=False) as tx:
        with tx.savepoint():
            tx[table][1] = b"kept"
            stack.enter_context(in_a_call(tx, other))()
        stack.enter_context(in_a_call(tx, other))()
    assert table[1] == b"kept"


def test_a_block_that_another_thread_ends(db: pando.Database) -> None:
    tx = db.write()
    point = tx.savepoint()
    refused = []

    def end(block: Any) -> None:
        try:
            block.__exit__(ValueError, ValueError(), None)
        except pando.ThreadError:
            refused.append(block)

    for block in (point, tx):
        thread = threading.Thread(target=end, args=(block,))
        thread.start()
        thread.join()
    assert refused == [point, tx] and tx.is_active
    tx.rollback()


def test_savepoints_that_have_ended_before_their_block(db: pando.Database) -> None:
    table = db.table("t", key=int)
    with db.write() as tx:
        with pytest.raises(ZeroDivisionError), tx.savepoint() as outer:
            with tx.savepoint():
                tx[table][1] = b"undone"
                outer.rollback()
                raise ZeroDivisionError
        with pytest.raises(ZeroDivisionError), tx.savepoint() as point:
            tx[table][2] = b"kept"
            point.release()
            raise ZeroDivisionError
    assert list(table) == [2]


def test_a_second_close_waits_for_the_first(tmp_path: Any) -> None:
    for attempt in range(2):
        path = tmp_path / str(attempt)
        db = pando.create(path, durability="lazy")
        table = db.table("t", key=int)
        table.update((number, bytes(200)) for number in range(20_000))
        first = threading.Thread(target=db.close)
        first.start()
        while not db.is_closed:
            pass
        db.close()
        pando.open(path).close()
        first.join()
