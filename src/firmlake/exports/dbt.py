"""Writes a sources file for dbt: the tables of an export with comments, tests of keys and nulls, and freshness."""

from __future__ import annotations

import json
from collections.abc import Iterator

from firmlake.exports.manifest import ExportedTable, Manifest

__all__ = ["render_sources"]

_AGE_COLUMN = "fetched_at"
_WARN_DAYS, _ERROR_DAYS = 8, 15
"""One weekly run late, and two."""


def render_sources(manifest: Manifest) -> str:
    """Write the sources file.

    `company_state` tells the age of the data by its newest answer. Every column that is never null has a `not_null`
    test. A key of one column has a `unique` test, a longer key the corresponding test of the package dbt_utils.
    """
    return "\n".join(_lines(manifest)) + "\n"


# ---------------------------------------------------------------------------------------------------------------------


def _lines(manifest: Manifest) -> Iterator[str]:
    yield f"# Made by firmlake from export {manifest.export_id}. `dbt deps` must find dbt_utils."
    yield "version: 2"
    yield "sources:"
    yield "  - name: firmlake"
    yield f"    description: {_text(f'Companies as exported by firmlake {manifest.firmlake_version}')}"
    yield "    tables:"
    for table in manifest.tables:
        yield from _table(table, "_changes" if manifest.mode == "changes" else "")


def _table(table: ExportedTable, suffix: str) -> Iterator[str]:
    yield f"      - name: {table.name}{suffix}"
    yield f"        description: {_text(table.meaning)}"
    if table.name == "company_state":
        yield f"        loaded_at_field: {_AGE_COLUMN}"
        yield "        freshness:"
        yield f"          warn_after: {{count: {_WARN_DAYS}, period: day}}"
        yield f"          error_after: {{count: {_ERROR_DAYS}, period: day}}"
    if len(table.key) > 1 and not suffix:
        yield "        data_tests:"
        yield "          - dbt_utils.unique_combination_of_columns:"
        yield f"              combination_of_columns: [{', '.join(table.key)}]"
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
