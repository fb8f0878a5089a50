"""Has SQLAlchemy's own suite for dialects run on Pando; `requirements.py` says what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite import provision as _of_sqlite  # noqa: F401  # So that it is not imported after this.
from sqlalchemy.testing import provision

registry.register("sqlite.pando", "pando.sqlalchemy", "PandoDialect")
pytest.register_assert_rewrite("sqlalchemy.testing.assertions")


@provision.generate_driver_url.for_db("sqlite")
def _url(url: Any, driver: str, query: str) -> Any:
    """Keeps the URL: the suite would make the name of a file for SQLite of it."""
    return url if driver == "pando" else None


@provision.post_configure_engine.for_db("sqlite")
def _engine(url: Any, engine: Any, follower_ident: Any) -> None:
    """Attaches no second database, as the suite does for SQLite."""


from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: E402, F403
