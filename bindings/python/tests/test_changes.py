"""Changes: in order, without gaps, waiting without the interpreter's lock; consumers keep their place."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import pytest

import pando
from pando import aio


def kinds(change: pando.Change) -> list[tuple[Any, ...]]:
    """Returns what is known of each operation."""
    return [(one.kind, one.table, one.key, one.value, one.end, one.former) for one in change.operations]


def test_every_operation(db: pando.Database) -> None:
    feed = db.changes()
    before = time.time()
    table = db.table("t")
    with db.write() as tx:
        inside = tx[table]
        inside[b"a"] = b"1"
        inside[b"big"] = bytes(3 << 20)
        inside.delete(b"b")
    table.delete_range(b"c", b"d")
    table.delete_range(b"e", None)
    db.rename_table("t", "u")
    db.set_layout("u", "lsm")
    db.drop_table("u")
    found = [change for _ in range(7) if (change := feed.next(5))]
    assert [change.commit_number for change in found] == list(range(1, 8))
    assert feed.next(0) is None and feed.position == 7
    assert all(change.time is not None and before - 1 <= change.time <= time.time() + 1 for change in found)
    assert [kinds(change) for change in found] == [
        [("create_table", "t", None, None, None, None)],
        [
            ("put", "t", b"a", b"1", None, None),
            ("delete", "t", b"b", None, None, None),
            ("put", "t", b"big", bytes(3 << 20), None, None),
        ],
        [("delete_range", "t", b"c", None, b"d", None)],
        [("delete_range", "t", b"e", None, None, None)],
        [("rename_table", "u", None, None, None, "t")],
        [("alter_table", "u", None, None, None, None)],
        [("drop_table", "u", None, None, None, None)],
    ]


def test_a_model_follows_many_threads(db: pando.Database) -> None:
    """A dict to which a thread applies the changes ends up as the table."""
    table, other = db.table("t", key=int, value=str), db.table("other", key=int, value=str)
    model: dict[bytes, bytes] = {}
    numbers: list[int] = []
    feed = db.changes(tables=table)

    def follow() -> None:
        for change in feed:
            numbers.append(change.commit_number)
            for one in change.operations:
                assert one.table == "t" or one.kind == "create_table"
                if one.kind == "put":
                    assert one.key is not None and one.value is not None
                    model[one.key] = one.value
                elif one.kind == "delete":
                    assert one.key is not None
                    model.pop(one.key, None)
                if one.kind == "delete" and one.key == b"\xff":
                    return

    def write(first: int) -> None:
        for number in range(first, 400, 4):
            table[number % 97] = str(number)
            other[number] = ""
            table.delete((number + 1) % 97)

    follower = threading.Thread(target=follow)
    follower.start()
    writers = [threading.Thread(target=write, args=(first,)) for first in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    raw = db.table("t")
    raw.delete(b"\xff")
    follower.join(30)
    assert not follower.is_alive()
    assert dict(raw) == model and numbers == sorted(set(numbers)) and len(numbers) > 800


def test_filters_and_positions(db: pando.Database) -> None:
    table, other = db.table("t"), db.table("other")
    table[b"a"] = b""
    with db.snapshot() as snapshot:
        place = snapshot.commit_number
    table[b"b1"], other[b"b2"], table[b"c"] = b"", b"", b""
    feed = db.changes(after=place, tables=["t"], prefix=b"b")
    assert [one.key for one in feed.next(5).operations] == [b"b1"]  # type: ignore[union-attr]
    assert feed.next(0) is None
    keys = [one.key for one in db.changes(after=place, tables=[table, "other"]).next(5).operations]  # type: ignore[union-attr]
    assert keys == [b"b1"]
    assert db.oldest_change() == 0
    with pytest.raises(pando.InvalidError):
        db.changes(after=1000)
    feed.close()
    db.checkpoint()
    with pytest.raises(pando.TooOldError):
        db.changes(after=1)


def test_tables_are_names_or_objects(tmp_path: Path) -> None:
    @dataclass
    class Row:
        id: int

    with pando.create(tmp_path / "db", durability="buffered") as db:
        table, typed = db.table("t"), db.typed(Row, key="id")
        with db.snapshot() as snapshot:
            place = snapshot.commit_number
        table[b"k"] = b""
        with db.snapshot() as snapshot, db.write() as tx:
            many: list[Any] = [["t"], ("t", table), {"t", "x"}, frozenset({"t"}), snapshot[table], tx[table], [tx[table]]]
            for tables in many:
                found = [one.table for change in take(db.changes(after=place, tables=tables)) for one in change.operations]
                assert found == ["t"], tables
        typed.insert(Row(1))
        for wrong in (typed, [table, typed]):
            with pytest.raises(TypeError, match="rows/ID.VERSION/row"):
                db.changes(tables=wrong)  # type: ignore[arg-type]
        for none in (5, b"t", [5], None):
            with pytest.raises(TypeError, match="names or tables"):
                db.changes(tables=none)  # type: ignore[arg-type]
        names = {one.table for change in take(db.changes()) for one in change.operations}
        inner = [name for name in names if name.startswith("rows/") and name.endswith("/row")]
        assert [len(change.operations) for change in take(db.changes(tables=inner))][-1:] == [1]

    async def main() -> None:
        async with await aio.open(tmp_path / "db") as db:
            table = await db.table("t")
            async with await db.changes(tables=table) as feed, await db.changes(tables=[table, "x"]) as other:
                await table.put(b"new", b"")
                for one in (feed, other):
                    change = await one.next(5)
                    assert change is not None and change.operations[-1].table == "t"

    asyncio.run(main())


def take(feed: pando.ChangeFeed) -> list[pando.Change]:
    """Returns the changes that there are now."""
    found = []
    while (change := feed.next(0)) is not None:
        found.append(change)
    return found


def test_a_close_waits_for_an_acknowledgement(tmp_path: Path) -> None:
    with pando.create(tmp_path / "db", durability="buffered") as db:
        table = db.table("t")
        mails = db.consumer("mails")
        done: list[int] = []

        def acknowledge() -> None:
            with pytest.raises(pando.ClosedError):
                while True:
                    table[b"k"] = b""
                    with db.snapshot() as snapshot:
                        number = snapshot.commit_number
                    mails.acknowledge(number)
                    done.append(number)

        for _ in range(10):
            done.clear()
            thread = threading.Thread(target=acknowledge)
            thread.start()
            while len(done) < 3:
                time.sleep(0)
            mails.close()
            thread.join(30)
            assert not thread.is_alive()
            mails = db.consumer("mails")
            assert mails.position == done[-1]


def test_an_asynchronous_iterator_goes_on_after_an_error() -> None:
    class Feed:
        """Fails once, then is slow."""

        is_closed = False
        calls = 0

        def next(self, timeout: float) -> None:
            self.calls += 1
            if self.calls == 1:
                raise pando.FullError("no space")
            time.sleep(0.4)

        def close(self) -> None:
            self.is_closed = True

    async def main() -> None:
        feed: Any = Feed()
        changes = aio.AsyncChanges(feed)
        with pytest.raises(pando.FullError):
            await changes.next(timeout=0)
        waiting = asyncio.create_task(changes.next())
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.wait([waiting])
        # The thread of the cancelled call still waits.
        began = time.perf_counter()
        assert await changes.next(timeout=0.05) is None
        assert time.perf_counter() - began < 0.3 and feed.calls == 2
        await changes.aclose()

    asyncio.run(main())


def wait_in_thread(feed: pando.ChangeFeed) -> tuple[threading.Thread, list[Optional[pando.Change]]]:
    found: list[Optional[pando.Change]] = []

    def follow() -> None:
        while not feed.is_closed:
            try:
                for change in feed:
                    found.append(change)
            except pando.ThreadError:
                continue

    thread = threading.Thread(target=follow)
    thread.start()
    return thread, found


@pytest.mark.parametrize("ends", ["feed", "database"])
def test_a_close_ends_the_wait(db: pando.Database, ends: str) -> None:
    table = db.table("t")
    feed = db.changes()
    thread, found = wait_in_thread(feed)
    while not found:
        time.sleep(0.01)
    # Another thread goes on while this one waits: the interpreter's lock is not held.
    table[b"a"] = b"1"
    with pytest.raises(pando.ThreadError):
        while True:
            feed.next(0)
            time.sleep(0.001)
    began = time.perf_counter()
    (feed if ends == "feed" else db).close()
    thread.join(10)
    assert not thread.is_alive() and time.perf_counter() - began < 5
    assert feed.is_closed and feed.next() is None and list(feed) == []
    assert [change.commit_number for change in found if change] == [1, 2][: len(found)]
    if ends == "feed":
        with pytest.raises(pando.ClosedError):
            feed.position


def test_a_change_ends_the_wait_at_once(db: pando.Database) -> None:
    table = db.table("t")
    feed = db.changes(after=1)
    waited = []
    for number in range(20):
        threading.Timer(0.02, table.put, (b"%d" % number, b"")).start()
        began = time.perf_counter()
        assert feed.next(10) is not None
        waited.append(time.perf_counter() - began)
    # Less than the slice after which a thread looks at signals.
    assert sorted(waited)[10] < 0.09, waited


def test_ctrl_c_ends_the_wait() -> None:
    code = """
import os, signal, threading, pando
with pando.in_memory() as db:
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        next(db.changes())
    except KeyboardInterrupt:
        print("stopped")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, "stopped\n"), done.stderr


def test_consumers(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with pando.create(path, durability="buffered") as db:
        table = db.table("t")
        table[b"before"] = b""
        with db.consumer("mails") as mails:
            assert (mails.name, mails.position) == ("mails", 2)
            with pytest.raises(pando.LockedError):
                db.consumer("mails")
            for number in range(3):
                table[b"%d" % number] = b""
            changes = mails.changes(tables="t")
            first, second = changes.next(5), changes.next(5)
            assert first is not None and second is not None
            mails.acknowledge(first)
            assert mails.position == first.commit_number == 3
            with pytest.raises(pando.InvalidError):
                mails.acknowledge(1000)
        with pytest.raises(pando.ClosedError):
            mails.acknowledge(second)
        assert db.consumers() == [pando.ConsumerInfo("mails", 3, False)]
    with pando.open(path) as db:
        mails = db.consumer("mails")
        again = [change.commit_number for change in itertools.islice(mails, 2)]
        assert again == [4, 5]
        mails.acknowledge(5)
        mails.close()
        db.drop_consumer("mails")
        assert db.consumers() == []
        with pytest.raises(pando.MissingError):
            db.drop_consumer("mails")
        with pytest.raises(pando.InvalidError):
            db.consumer("")


def test_asyncio(tmp_path: Path) -> None:
    async def main() -> None:
        async with await aio.create(tmp_path / "db", durability="buffered", threads=2) as db:
            table = await db.table("t", key=int, value=str)
            feeds = [await db.changes(after=1) for _ in range(5)]
            seen: list[list[int]] = [[] for _ in feeds]

            async def follow(feed: aio.AsyncChanges, into: list[int]) -> None:
                async for change in feed:
                    into.append(change.commit_number)

            # More of them wait than the database has threads.
            tasks = [asyncio.create_task(follow(feed, into)) for feed, into in zip(feeds, seen)]
            for number in range(20):
                await table.put(number, str(number))
            while any(len(into) < 20 for into in seen):
                await asyncio.sleep(0.01)
            assert seen == [list(range(2, 22))] * 5
            for feed in feeds:
                await feed.aclose()
            await asyncio.wait_for(asyncio.gather(*tasks), 10)

            async with await db.consumer("mails") as mails, await mails.changes() as changes:
                assert (mails.name, mails.position) == ("mails", 21)
                assert await changes.next(timeout=0.05) is None
                # A task that is cancelled while it waits loses nothing.
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(changes.__anext__(), 0.05)
                first = asyncio.create_task(changes.next())
                await asyncio.sleep(0)
                with pytest.raises(RuntimeError):
                    await changes.next()
                first.cancel()
                await asyncio.wait([first])
                await table.put(100, "x")
                change = await asyncio.wait_for(changes.__anext__(), 10)
                assert change.commit_number == 22
                await mails.acknowledge(change)
            assert await db.consumers() == [pando.ConsumerInfo("mails", 22, False)]
            await db.drop_consumer("mails")
            last = await db.changes()
            waiting = asyncio.create_task(follow(last, []))
            await asyncio.sleep(0.05)
        await asyncio.wait_for(waiting, 10)

    asyncio.run(main())


def test_the_interpreter_ends_while_a_thread_waits(tmp_path: Path) -> None:
    code = f"""
import asyncio, pando
from pando import aio
async def main():
    db = await aio.create({str(tmp_path / "db")!r})
    changes = await db.changes()
    try:
        await asyncio.wait_for(changes.__anext__(), 0.1)
    except asyncio.TimeoutError:
        print("late")
asyncio.run(main())
"""
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, "late\n"), done.stderr
    assert time.perf_counter() - began < 20
