"""What takes many records takes what `dict.update` takes. `test_package.py` checks the types of this file."""

from __future__ import annotations

from collections.abc import Iterator

import pando


class Keyed:
    """Has keys and values, and is no mapping."""

    def keys(self) -> list[str]:
        return ["k"]

    def __getitem__(self, key: str) -> int:
        return len(key)


def pairs() -> Iterator[tuple[str, int]]:
    yield "p", 7


def test_records_of_every_shape(db: pando.Database) -> None:
    numbers = db.create_table("numbers", key=str, value="json")
    table: pando.Table[str, int] = numbers
    table.update([("a", 1)])
    table.update([["b", 2]])
    table.update((("c", 3), ("d", 4)))
    table.update({"e": 5})
    table.update(Keyed())
    table.update(pairs())
    table.update(zip("fg", (6, 7)))
    table.update(db.table("numbers", key=str, value="json"))
    table.update(h=8)
    table.update([("i", 9)], j=10)
    assert table.put_many([("l", 1)]) == table.put_many([["l", 2]]) == table.put_many(Keyed()) == 1
    assert table.bulk_load([("m", 1), ("n", 2)]) == table.bulk_load(dict(m=1, n=2)) == 2
    with db.write() as tx:
        tx[table].update([("o", 1)])
    assert "".join(table) == "abcdefghijklmnop"


def test_text_is_a_table_of_text(db: pando.Database) -> None:
    words = db.table("words", key=bytes, value=str)
    words.update([(b"a", "b")])
    words.update([[b"c", "d"]])
    assert list(words.items()) == [(b"a", "b"), (b"c", "d")]
