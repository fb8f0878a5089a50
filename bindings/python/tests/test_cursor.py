"""Cursors beside a sorted list: every move, in both directions, with each kind of keys."""

from __future__ import annotations

import bisect
import gc
import random
import threading
from typing import Any, Callable, Optional

import pytest

import pando

Pairs = list[tuple[Any, Any]]

MAKES: dict[Any, Callable[[int], Any]] = {
    bytes: lambda number: b"%03d" % number,
    str: lambda number: f"\u00e4{number:03}",
    int: lambda number: number - 200,
}


class Model:
    """What a cursor over sorted pairs does."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        # The index of the current record, or a place between records: the index of the one after it.
        self.on: Optional[int] = None
        self.gap: Optional[int] = None

    def _to(self, index: int) -> bool:
        found = 0 <= index < len(self.pairs)
        self.on, self.gap = (index, None) if found else (None, max(0, min(index, len(self.pairs))))
        return found

    def _keys(self) -> list[Any]:
        return [key for key, _ in self.pairs]

    def first(self) -> bool:
        return self._to(0)

    def last(self) -> bool:
        return self._to(len(self.pairs) - 1)

    def next(self) -> bool:
        return self._to(self.on + 1 if self.on is not None else self.gap or 0)

    def prev(self) -> bool:
        if self.on is not None:
            return self._to(self.on - 1)
        return self._to((len(self.pairs) if self.gap is None else self.gap) - 1)

    def seek(self, key: Any) -> bool:
        return self._to(bisect.bisect_left(self._keys(), key))

    def seek_for_prev(self, key: Any) -> bool:
        return self._to(bisect.bisect_right(self._keys(), key) - 1)

    def changed(self, pairs: Pairs) -> None:
        """The pairs are others now; the place remains between the same keys."""
        key = None if self.on is None else self.pairs[self.on][0]
        at_end = self.gap is not None and self.gap > 0
        self.pairs = pairs
        if key is not None:
            index = bisect.bisect_left(self._keys(), key)
            if index < len(pairs) and pairs[index][0] == key:
                self.on = index
            else:
                self.on, self.gap = None, index
        elif at_end:
            self.gap = len(pairs)


def move(cursor: Any, model: Model, dice: random.Random, make: Callable[[int], Any]) -> None:
    """Makes the same move with both, and compares where they are."""
    name = dice.choice(["next"] * 6 + ["prev"] * 6 + ["seek", "seek_for_prev", "first", "last"])
    arguments = [make(dice.randrange(400))] if name.startswith("seek") else []
    for _ in range(dice.choice([1, 1, 1, 2, 40]) if not arguments else 1):
        found = getattr(cursor, name)(*arguments)
        assert found == getattr(model, name)(*arguments) == cursor.is_on_record, (name, arguments)
        if found:
            assert model.on is not None
            assert cursor.item() == (cursor.key, cursor.value) == model.pairs[model.on]
        else:
            with pytest.raises(LookupError, match="not on a record"):
                cursor.key


def filled(db: pando.Database, key: Any, dice: random.Random, layout: Any) -> tuple[pando.Table[Any, Any], dict[Any, str]]:
    table = db.create_table(f"{key.__name__}-{layout}", key=key, value=str, layout=layout)
    content = {MAKES[key](number): str(number) for number in dice.sample(range(400), 150)}
    table.update(content)
    return table, content


@pytest.mark.parametrize("layout", ["btree", "lsm"])
@pytest.mark.parametrize("key", MAKES, ids=lambda key: key.__name__)
def test_a_cursor_moves_as_in_a_sorted_list(db: pando.Database, key: Any, layout: Any) -> None:
    dice = random.Random(7)
    table, content = filled(db, key, dice, layout)
    with db.snapshot() as snapshot:
        for view in (table, snapshot[table]):
            with view.cursor() as cursor:
                model = Model(sorted(content.items()))
                for _ in range(400):
                    move(cursor, model, dice, MAKES[key])


@pytest.mark.parametrize("layout", ["btree", "lsm"])
@pytest.mark.parametrize("key", MAKES, ids=lambda key: key.__name__)
def test_a_cursor_sees_uncommitted_writes(db: pando.Database, key: Any, layout: Any) -> None:
    dice, make = random.Random(8), MAKES[key]
    table, content = filled(db, key, dice, layout)
    with db.write() as tx:
        written = tx[table]
        with written.cursor() as cursor:
            model = Model(sorted(content.items()))
            for step in range(400):
                if dice.random() < 0.3:
                    number = dice.randrange(400)
                    if dice.random() < 0.5:
                        written[make(number)] = content[make(number)] = f"new {step}"
                    else:
                        written.delete(make(number))
                        content.pop(make(number), None)
                    model.changed(sorted(content.items()))
                move(cursor, model, dice, make)
        tx.rollback()
    assert len(table) == 150


def test_a_cursor_sees_what_a_savepoint_undid(db: pando.Database) -> None:
    table = db.table("t", key=int, value=str)
    table.update({1: "a", 3: "c"})
    with db.write() as tx:
        cursor = tx[table].cursor()
        savepoint = tx.savepoint()
        tx[table][2] = "b"
        assert cursor.first() and cursor.next() and cursor.item() == (2, "b")
        savepoint.rollback()
        assert cursor.next() and cursor.item() == (3, "c") and cursor.prev() and cursor.key == 1


def test_a_cursor_stays_within_its_range(db: pando.Database) -> None:
    table = db.table("t", key=str)
    table.update({key: b"" for key in ["a", "b1", "b2", "b3", "c"]})
    with table.cursor("b1", "b3") as cursor:
        assert cursor.last() and cursor.key == "b2" and not cursor.next()
        assert cursor.seek("a") and cursor.key == "b1" and not cursor.prev()
        assert cursor.seek_for_prev("z") and cursor.key == "b2"
        assert not cursor.seek("b3") and cursor.prev() and cursor.key == "b2"
    with table.cursor(prefix="b") as cursor:
        assert cursor.first() and cursor.key == "b1" and cursor.last() and cursor.key == "b3"
        assert not cursor.seek_for_prev("a") and cursor.next() and cursor.key == "b1"


def test_keys_that_end_in_zero(db: pando.Database) -> None:
    table = db.table("t")
    table.update({b"": b"", b"a": b"1", b"a\0": b"2", b"a\0\0": b"3"})
    with table.cursor() as cursor:
        for key in [b"", b"a", b"a\0", b"a\0\0"]:
            assert cursor.seek_for_prev(key) and cursor.key == key
            assert cursor.seek(key) and cursor.key == key
    # No key comes after the longest one that begins with it.
    accepted, refused = 100, 1 << 16
    while refused - accepted > 1:
        middle = (accepted + refused) // 2
        try:
            table[bytes(middle)] = b""
            accepted = middle
        except pando.InvalidError:
            refused = middle
    longest = bytes(accepted)
    with table.cursor() as cursor:
        assert cursor.seek_for_prev(longest) and cursor.key == longest
        assert cursor.next() and cursor.key == b"a"


def test_a_cursor_keeps_the_moment_of_its_beginning(db: pando.Database) -> None:
    table = db.table("t", key=int, value=str)
    table[1] = "a"
    with table.cursor() as cursor:
        table[2] = "b"
        table[1] = "z"
        assert cursor.last() and cursor.item() == (1, "a")
    with table.cursor() as cursor:
        assert cursor.last() and cursor.item() == (2, "b")


def test_the_end_of_a_cursor(db: pando.Database) -> None:
    table = db.table("t", key=int)
    table[1] = b""
    cursor = table.cursor()
    with cursor:
        assert cursor.first()
    cursor.close()
    for use in (cursor.first, cursor.item, lambda: cursor.key, lambda: cursor.seek(1)):
        with pytest.raises(pando.ClosedError):
            use()
    tx = db.write()
    cursor = tx[table].cursor()
    tx.rollback()
    with pytest.raises(pando.ClosedError):
        cursor.next()
    cursor = table.cursor()
    assert cursor.first()
    for wrong in ("1", b"1", None):
        with pytest.raises(TypeError):
            cursor.seek(wrong)  # type: ignore[arg-type]
    assert cursor.key == 1
    db.close()
    for use in (cursor.next, lambda: cursor.key):
        with pytest.raises(pando.ClosedError):
            use()
    cursor.close()


@pytest.mark.parametrize("end", ["rollback", "commit", "close"])
@pytest.mark.parametrize("moves", [0, 1, 20, 21])
def test_a_cursor_ends_with_its_source(db: pando.Database, end: str, moves: int) -> None:
    table = db.table("t", key=int, value=str)
    table.update({number: "old" for number in range(20)})
    source: Any = db.snapshot() if end == "close" else db.write()
    if end != "close":
        source[table].update({number: "new" for number in range(20)})
    cursor = source[table].cursor()
    for number in range(moves):
        assert cursor.next() == (number < 20)
    getattr(source, end)()
    uses: list[Callable[[], object]] = [
        *(cursor.next, cursor.prev, cursor.first, cursor.last, cursor.item),
        *(lambda: cursor.seek(1), lambda: cursor.seek_for_prev(1)),
        *(lambda: cursor.key, lambda: cursor.value, lambda: cursor.is_on_record),
    ]
    for use in uses:
        with pytest.raises(pando.ClosedError):
            use()
    cursor.close()
    source.close() if end == "close" else source.rollback()
    assert db.stats()["readers"] == 0


def test_the_own_moment_of_a_cursor_ends_with_the_cursor(db: pando.Database) -> None:
    table = db.table("t", key=int)
    table.update({number: b"" for number in range(20)})
    with table.cursor() as cursor, db.write() as tx:
        assert cursor.next()
        tx[table].clear()
        tx.commit()
        assert cursor.next() and cursor.key == 1


def test_a_cursor_of_a_transaction_belongs_to_its_thread(db: pando.Database) -> None:
    table = db.table("t", key=int)
    table.update({number: b"" for number in range(20)})
    with db.write() as tx, db.write(check_same_thread=False) as shared:
        bound, free = tx[table].cursor(), shared[table].cursor()
        raised: list[str] = []

        def use_elsewhere() -> None:
            for cursor in (bound, free):
                uses: list[Callable[[], object]] = [cursor.next, cursor.item, lambda: cursor.key]
                for use in uses:
                    try:
                        use()
                    except pando.ThreadError as error:
                        raised.append(str(error))

        assert bound.first() and free.first()
        thread = threading.Thread(target=use_elsewhere)
        thread.start()
        thread.join()
        assert len(raised) == 3 and "begun by another thread" in raised[0]
        assert bound.key == 0 and free.key == 1


def test_a_cursor_frees_its_snapshot(db: pando.Database) -> None:
    table = db.table("t", key=int)
    assert db.stats()["readers"] == 0
    with table.cursor():
        assert db.stats()["readers"] == 1
    assert db.stats()["readers"] == 0


def test_a_cursor_keeps_its_transaction_until_it_is_closed(db: pando.Database) -> None:
    table = db.table("t", key=int)
    table.update({1: b"", 2: b""})
    tx = db.write()
    cursor = tx[table].cursor()
    assert cursor.first()
    del tx
    gc.collect()
    assert cursor.next() and db.stats()["readers"] == 1
    cursor.close()
    assert db.stats()["readers"] == 0
