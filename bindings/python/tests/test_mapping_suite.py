"""The standard library's own tests of mappings, on tables. Not every Python comes with them."""

from __future__ import annotations

import tempfile
from typing import Any, ClassVar

import pytest

import pando

mapping_tests = pytest.importorskip("test.mapping_tests")


class OnTables(mapping_tests.BasicTestMappingProtocol):
    """Each empty mapping is a new table of one database."""

    value: ClassVar[Any]

    @classmethod
    def setUpClass(cls) -> None:
        cls.directory = tempfile.TemporaryDirectory()
        cls.db = pando.create(cls.directory.name + "/db", memory_bytes=16 << 20, durability="buffered")
        cls.made = 0

    @classmethod
    def tearDownClass(cls) -> None:
        cls.db.close()
        cls.directory.cleanup()

    def _reference(self) -> dict[str, Any]:
        return {"1": "2", "key1": "value1", "key2": "value2"}

    def _empty_mapping(self) -> Any:
        type(self).made += 1
        return self.db.table(f"t{self.made}", key=str, value=self.value)


class TestTexts(OnTables):
    value = str


class TestJson(OnTables):
    value = "json"


class TestWithinTransaction(OnTables):
    value = str

    def setUp(self) -> None:
        self.begun: list[Any] = []

    def tearDown(self) -> None:
        for tx in self.begun:
            tx.rollback()

    def _empty_mapping(self) -> Any:
        table = super()._empty_mapping()
        self.begun.append(self.db.write())
        return self.begun[-1][table]


# It is not a test itself.
del OnTables
