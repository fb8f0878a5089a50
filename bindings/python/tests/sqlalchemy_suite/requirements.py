"""What of SQLAlchemy's suite applies. What is closed here, README.md of the package lists as refused."""

from __future__ import annotations

from typing import Any

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements


class Requirements(SuiteRequirements):
    """Pando's SQL is SQLite's, without schemas: attached databases are outside of its transactions."""

    def _closed(self) -> Any:
        return exclusions.closed()

    schemas = property(_closed)

    def _open(self) -> Any:
        return exclusions.open()

    # SQLite has no parentheses around the parts of a UNION.
    parens_in_union_contained_select_w_limit_offset = property(_closed)
    parens_in_union_contained_select_wo_limit_offset = property(_closed)

    # What SQLAlchemy's own requirements have for SQLite.
    datetime_literals = property(_closed)
    datetime_microseconds = property(_open)
    time_microseconds = property(_open)
    date_historic = property(_open)
    datetime_historic = property(_open)
    json_type = property(_open)
    savepoints = property(_open)
    ctes = property(_open)
    ctes_on_dml = property(_closed)
    window_functions = property(_open)
    insert_returning = property(_open)
    update_returning = property(_open)
    delete_returning = property(_open)
    isolation_level = property(_open)
    reflect_table_options = property(_open)
    precision_numerics_enotation_small = property(_closed)
    temp_table_reflection = property(_open)
    temp_table_names = property(_open)
    unique_constraint_reflection = property(_open)
    independent_connections = property(_open)
    table_ddl_if_exists = property(_open)
    index_ddl_if_exists = property(_open)
    has_temp_table = property(_open)
    create_table_as = property(_open)
    window_range = property(_open)
    ctes_with_update_delete = property(_open)
    update_from = property(_open)
    tuple_in = property(_open)
    nullsordering = property(_open)
    views = property(_open)
    temporary_views = property(_open)
    reflects_pk_names = property(_open)
    implicitly_named_constraints = property(_closed)
    foreign_key_constraint_name_reflection = property(_open)
    foreign_key_constraint_option_reflection_ondelete = property(_open)
    fk_constraint_option_reflection_ondelete_restrict = property(_open)
    fk_constraint_option_reflection_ondelete_noaction = property(_open)
    foreign_key_constraint_option_reflection_onupdate = property(_open)
    fk_constraint_option_reflection_onupdate_restrict = property(_open)
    indexes_with_expressions = property(_open)
    computed_columns = property(_open)
    computed_columns_stored = property(_open)
    computed_columns_virtual = property(_open)
    computed_columns_reflect_persisted = property(_open)

    def get_isolation_levels(self, config: Any) -> dict[str, Any]:
        """Returns the levels of isolation."""
        return {"default": "SERIALIZABLE", "supported": ["SERIALIZABLE", "AUTOCOMMIT"]}
