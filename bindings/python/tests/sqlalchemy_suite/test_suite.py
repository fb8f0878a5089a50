"""The tests of SQLAlchemy for dialects, without those that ask for what Pando refuses."""

from __future__ import annotations

from typing import Any

from sqlalchemy.testing import suite
from sqlalchemy.testing.suite import *  # noqa: F403


def _without(case: Any, *tests: str) -> Any:
    """Returns a class of the suite without some of its tests."""
    for test in tests:
        assert hasattr(case, test), f"{case.__name__} has no {test}: take it from the list"
    return type(case.__name__, (case,), {**dict.fromkeys(tests), "__module__": __name__})


# It asks for a schema, without a requirement that says so. So do the tests of `check_constraint_reflection`.
ComponentReflectionTest = _without(suite.ComponentReflectionTest, "test_metadata")
# There is no function FLOOR.
TrueDivTest = _without(suite.TrueDivTest, "test_floordiv_numeric")
# There is one level of isolation, so that there is no other one to come back from.
IsolationLevelTest = _without(suite.IsolationLevelTest, "test_dialect_user_setting_is_restored")
