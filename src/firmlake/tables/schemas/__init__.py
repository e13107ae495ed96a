"""Every table, defined once: its key, and its columns with type, unit, source and meaning.

Polars and DuckDB schemas, comments and the data dictionary are generated from these definitions.
"""

from __future__ import annotations

from firmlake.tables.schemas.alerts import TABLES_OF_ALERTS
from firmlake.tables.schemas.companies import TABLES_OF_COMPANIES
from firmlake.tables.schemas.company_lists import TABLES_OF_COMPANY_LISTS
from firmlake.tables.schemas.runs import TABLES_OF_FAILURES, TABLES_OF_RUNS
from firmlake.tables.schemas.service_lists import TABLES_OF_SERVICE_LISTS
from firmlake.tables.schemas.shape import (
    KIND_TYPES,
    PRIVACY,
    Column,
    Table,
    comment_of,
    duckdb_type,
    history_of,
    polars_schema,
)

__all__ = [
    "COMPANY_TABLES",
    "KIND_TYPES",
    "PRIVACY",
    "TABLES",
    "WAREHOUSE_TABLES",
    "Column",
    "Table",
    "comment_of",
    "duckdb_type",
    "polars_schema",
]

_ALL = (
    *TABLES_OF_COMPANIES,
    *TABLES_OF_COMPANY_LISTS,
    *TABLES_OF_FAILURES,
    *TABLES_OF_SERVICE_LISTS,
    *TABLES_OF_RUNS,
    *TABLES_OF_ALERTS,
)

TABLES = {table.name: table for table in _ALL}

WAREHOUSE_TABLES = {
    each.name: each for table in _ALL for each in ((table,) if table.volatile is None else history_of(table))
}
"""The tables of the warehouse: those that keep history have `valid_from_run` and a second table of superseded rows."""

COMPANY_TABLES = {
    "financials": ("financials", "financial_joint_committees"),
    "lookalikes": ("lookalikes",),
    "relationships": ("relationships",),
}
"""The tables of each dataset. The rows of a company are replaced in all of them when its answer changes."""
