"""A table is a MutableMapping: random operations beside a dict."""

from __future__ import annotations

import collections.abc
import json
from typing import Any, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pando

KEYS: dict[str, Any] = {
    "bytes": (bytes, st.binary(max_size=6)),
    "str": (str, st.text(max_size=6)),
    "int": (int, st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)),
}
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), st.lists, max_leaves=4)
VALUES: dict[str, Any] = {
    "bytes": (bytes, st.binary(max_size=40)),
    "str": (str, st.text(max_size=20)),
    "json": ("json", JSON),
}
OPERATIONS = [
    "set", "del", "pop", "pop_default", "setdefault", "popitem", "update", "clear", "get", "contains", "range",
]


def rank(key: Any, kind: str) -> Any:
    """What a table orders its keys by."""
    return key.encode() if kind == "str" else key


def ordered(model: dict[Any, Any], kind: str) -> list[Any]:
    """The model's pairs in the order of the table."""
    return sorted(model.items(), key=lambda pair: rank(pair[0], kind))


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or the class of what it raises."""
    try:
        return call()
    except KeyError as error:
        return KeyError, error.args


def apply(table: Any, model: dict[Any, Any], kind: str, operation: str, key: Any, value: Any) -> None:
    """Does the same to both, and compares what they return."""
    if operation == "set":
        table[key] = model[key] = value
    elif operation == "del":
        assert outcome(lambda: table.__delitem__(key)) == outcome(lambda: model.__delitem__(key))
    elif operation == "pop":
        assert outcome(lambda: table.pop(key)) == outcome(lambda: model.pop(key))
    elif operation == "pop_default":
        assert table.pop(key, value) == model.pop(key, value)
    elif operation == "setdefault":
        assert table.setdefault(key, value) == model.setdefault(key, value)
    elif operation == "popitem":
        if model:
            last = ordered(model, kind)[-1]
            del model[last[0]]
            assert table.popitem() == last
        else:
            with pytest.raises(KeyError):
                table.popitem()
    elif operation == "update":
        more = {key: value}
        table.update(more)
        table.update(list(more.items()))
        model.update(more)
    elif operation == "clear":
        table.clear()
        model.clear()
    elif operation == "get":
        assert table.get(key) == model.get(key) and table.get(key, 7) == model.get(key, 7)
        assert outcome(lambda: table[key]) == outcome(lambda: model[key])
        assert table.multi_get([key, key]) == [model.get(key)] * 2
    elif operation == "contains":
        assert (key in table) == (key in model)
    else:
        after = [pair for pair in ordered(model, kind) if rank(pair[0], kind) >= rank(key, kind)]
        assert list(table.range(key)) == after
        assert list(table.range(key, reverse=True, limit=2)) == after[::-1][:2]


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("within", [False, True], ids=["database", "transaction"])
@settings(max_examples=30, deadline=None, derandomize=True)
@given(data=st.data())
def test_a_table_is_a_dict_in_order(kind: str, within: bool, data: st.DataObject) -> None:
    key_type, keys = KEYS[kind]
    value_type, values = VALUES[data.draw(st.sampled_from(sorted(VALUES)), label="values")]
    steps = data.draw(st.lists(st.tuples(st.sampled_from(OPERATIONS), keys, values), max_size=30), label="steps")
    with pando.in_memory(durability="buffered") as db:
        outer = db.table("t", key=key_type, value=value_type)
        tx = db.write() if within else None
        table: Any = tx[outer] if tx is not None else outer
        model: dict[Any, Any] = {}
        for operation, key, value in steps:
            apply(table, model, kind, operation, key, value)
            expected = ordered(model, kind)
            assert list(table.items()) == expected
            assert list(table) == list(table.keys()) == [key for key, _ in expected]
            assert list(table.values()) == [value for _, value in expected]
            assert list(reversed(table)) == [key for key, _ in reversed(expected)]
            assert len(table) == len(model) and bool(table) == bool(model)
            assert table == model
        if tx is not None:
            assert not outer, "nothing is visible before the commit"
            tx.commit()
            assert outer == model
        with db.snapshot() as snapshot:
            view = snapshot[outer]
            outer.clear()
            assert view == model and list(reversed(view.items())) == ordered(model, kind)[::-1]


def test_the_abstract_classes_hold(db: pando.Database) -> None:
    table = db.table("t")
    with db.write() as tx, db.snapshot() as snapshot:
        assert isinstance(table, collections.abc.MutableMapping)
        assert isinstance(tx[table], collections.abc.MutableMapping)
        assert isinstance(snapshot[table], collections.abc.Mapping)
        assert not isinstance(snapshot[table], collections.abc.MutableMapping)
    with pytest.raises(TypeError):
        hash(table)


def test_long_scans_cross_chunks(db: pando.Database) -> None:
    table = db.table("t", key=int)
    big = bytes(300_000)
    assert table.put_many((number, b"%d" % number) for number in range(10_000)) == 10_000
    table[5000] = big
    assert [key for key in table] == list(range(10_000))
    assert list(table.range(4998, 5003))[2] == (5000, big)
    assert [key for key, _ in table.range(reverse=True, limit=3000)] == list(range(9999, 6999, -1))
    assert len(list(table.range_values(10, 20))) == 10
    assert list(table.range(limit=0)) == [] and list(table.range(9, 3)) == []
    chunks = table.range_keys()
    read = []
    while chunk := chunks.chunk():
        read += chunk
    assert read == list(range(10_000))


def test_iteration_sees_its_beginning(db: pando.Database) -> None:
    table = db.table("t", key=int)
    table.update((number, b"") for number in range(1000))
    keys = iter(table)
    assert next(keys) == 0
    table.clear()
    assert len(list(keys)) == 999 and not table


def test_prefixes(db: pando.Database) -> None:
    names = db.table("names", key=str)
    names.update((name, b"") for name in ["a", "ab", "abc", "b", "é", "éa"])
    assert list(names.range_keys(prefix="ab")) == ["ab", "abc"]
    assert list(names.range_keys(prefix="é", reverse=True)) == ["éa", "é"]
    names.delete_range(prefix="a")
    assert list(names) == ["b", "é", "éa"]
    names.delete_many(["b", "missing"])
    names.delete_range("é", "éa")
    assert list(names) == ["éa"]


def test_json_is_json(db: pando.Database) -> None:
    table = db.table("t", value="json")
    table[b"k"] = {"a": [1, None, "é"]}
    assert json.loads(db.table("t")[b"k"]) == {"a": [1, None, "é"]}
    table[b"none"] = None
    assert table.pop(b"none", 7) is None
    assert table.pop(b"none", 7) == 7
    with pytest.raises(TypeError):
        table[b"k"] = object()


def test_compare_and_swap_and_insert(db: pando.Database) -> None:
    table = db.table("t", key=str, value=str)
    assert table.compare_and_swap("k", None, "1")
    assert not table.compare_and_swap("k", "2", "3")
    assert table.compare_and_swap("k", "1", None) and "k" not in table
    table.insert("k", "1")
    with pytest.raises(pando.ExistsError):
        table.insert("k", "2")
    assert table.remove("k") == "1" and table.remove("k") is None
    table.delete("k")


def test_bulk_load(db: pando.Database) -> None:
    table = db.table("t", key=int, value=str)
    assert table.bulk_load((number, str(number)) for number in reversed(range(20_000))) == 20_000
    assert table[777] == "777" and len(table) == 20_000

    def broken() -> Any:
        yield 20_001, "x"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        table.bulk_load(broken())
    with pytest.raises(ZeroDivisionError):
        table.put_many(broken())
    assert 20_001 not in table, "nothing of it was loaded"


def test_compare_and_swap_compares_what_is_stored(db: pando.Database) -> None:
    table = db.table("t", key=str, value="json")
    table["k"] = {"a": 1, "b": 2}
    for other in ({"b": 2, "a": 1}, {"a": 1.0, "b": 2}):
        assert not table.compare_and_swap("k", other, 7)
    assert table.compare_and_swap("k", table["k"], 7)
    table["n"] = None
    assert not table.compare_and_swap("n", None, 7)
