"""The dialect for tables of the suite that have foreign keys."""

from __future__ import annotations

from typing import Any

from pando.sqlalchemy import PandoDialect


class IgnoringDialect(PandoDialect):
    """Leaves foreign keys out."""

    supports_statement_cache = True

    def __init__(self, ignore_foreign_keys: bool = True, **kw: Any) -> None:
        super().__init__(ignore_foreign_keys, **kw)
