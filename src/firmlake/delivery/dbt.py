"""Write a sources file for dbt: the tables of an export with comments, tests of keys and nulls, and freshness."""

from __future__ import annotations

import json
from collections.abc import Iterator

from firmlake.delivery.record import DeliveredTable, Record, describe_table
from firmlake.delivery.selection import EXPORTED_TABLES
from firmlake.tables.schemas import WAREHOUSE_TABLES

_AGE_COLUMN = "fetched_at"
_WARN_DAYS, _ERROR_DAYS = 8, 15
"""A weekly run is late by one run, or by two."""


def render_package_sources() -> str:
    """Write the sources file of the dbt package for tables that `firmlake load` writes; docs/make_dbt.py saves it."""
    lines = [
        "# Made by docs/make_dbt.py from the schema of the tables.",
        "version: 2",
        "sources:",
        "  - name: firmlake",
        "    description: Tables that `firmlake load` writes",
        "    schema: \"{{ var('firmlake_schema') }}\"",
        "    tables:",
    ]
    for table in (WAREHOUSE_TABLES[name] for name in EXPORTED_TABLES):
        lines += _table(describe_table(table), "", _PACKAGE_TEST)
    return "\n".join(lines) + "\n"


def render_sources(manifest: Record) -> str:
    """Write the sources file.

    Freshness is measured by the newest answer in `company_state`. Every column that is never null has a `not_null`
    test. A key of one column has a `unique` test; a longer key has the corresponding test of the package dbt_utils.
    """
    return "\n".join(_lines(manifest)) + "\n"


_UTILS_TEST = ("dbt_utils.unique_combination_of_columns", "combination_of_columns")
_PACKAGE_TEST = ("unique_key", "columns")
"""Tests of a key of several columns: name, and the argument with the columns."""

# ---------------------------------------------------------------------------------------------------------------------


def _lines(manifest: Record) -> Iterator[str]:
    yield f"# Made by firmlake from export {manifest.delivery_id}. `dbt deps` must find dbt_utils."
    yield "version: 2"
    yield "sources:"
    yield "  - name: firmlake"
    yield f"    description: {_text(f'Companies as exported by firmlake {manifest.firmlake_version}')}"
    yield "    tables:"
    for table in manifest.tables:
        yield from _table(table, "_changes" if manifest.mode == "changes" else "")


def _table(table: DeliveredTable, suffix: str, key_test: tuple[str, str] = _UTILS_TEST) -> Iterator[str]:
    yield f"      - name: {table.name}{suffix}"
    yield f"        description: {_text(table.meaning)}"
    if table.name == "company_state":
        yield f"        loaded_at_field: {_AGE_COLUMN}"
        yield "        freshness:"
        yield f"          warn_after: {{count: {_WARN_DAYS}, period: day}}"
        yield f"          error_after: {{count: {_ERROR_DAYS}, period: day}}"
    if len(table.key) > 1 and not suffix:
        yield "        data_tests:"
        yield f"          - {key_test[0]}:"
        yield f"              {key_test[1]}: [{', '.join(table.key)}]"
    yield "        columns:"
    for column in table.columns:
        tests = [] if column.nullable else ["not_null"]
        tests += ["unique"] if table.key == (column.name,) and not suffix else []
        yield f"          - name: {column.name}"
        yield f"            description: {_text(column.comment)}"
        if column.privacy:
            yield f"            config: {{meta: {{privacy: {column.privacy}}}}}"
        if tests:
            yield f"            data_tests: [{', '.join(tests)}]"


def _text(text: str) -> str:
    """Quote a text for YAML, which takes JSON's strings."""
    return json.dumps(text, ensure_ascii=False)
