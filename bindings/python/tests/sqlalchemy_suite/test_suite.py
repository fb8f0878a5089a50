"""The tests of SQLAlchemy for dialects, without those that ask for what Pando refuses."""

from __future__ import annotations

from typing import Any

from sqlalchemy.testing import suite
from sqlalchemy.testing.suite import *  # noqa: F403


def _without(case: Any, *tests: str, **changed: Any) -> Any:
    """Returns a class of the suite without some of its tests."""
    for test in tests:
        assert hasattr(case, test), f"{case.__name__} has no {test}: take it from the list"
    return type(case.__name__, (case,), {**dict.fromkeys(tests), **changed, "__module__": __name__})


# Views are not stored in the database.
HasTableTest = _without(
    suite.HasTableTest, "test_has_table_view", define_views=classmethod(lambda cls, metadata: None)
)
# The name of a constraint is not stored, nor that the column of an INTEGER PRIMARY KEY is declared NOT NULL: SQLite gives
# a number to a NULL there.
ComponentReflectionTest = _without(
    suite.ComponentReflectionTest,
    "test_get_multi_columns",
    "test_get_multi_unique_constraints",
    "test_get_unique_constraints_quoted_name",
    "test_get_unique_constraints",
    "test_get_view_names",
    "test_metadata",
)
# There is no function FLOOR.
TrueDivTest = _without(suite.TrueDivTest, "test_floordiv_numeric")
# The name of an index has at most 200 bytes.
LongNameBlowoutTest = _without(suite.LongNameBlowoutTest, "test_long_convention_name")
# There is one level of isolation, so that there is no other one to come back from.
IsolationLevelTest = _without(suite.IsolationLevelTest, "test_dialect_user_setting_is_restored")
