"""Find the columns that an earlier `--out` added, if its file is now used as the list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import duckdb

from firmlake.core.company import COUNTRIES
from firmlake.exports.list_columns import AddedColumn, line_columns, list_added

__all__ = ["find_earlier", "given_names"]

_FORMS: Final = {
    "status": "enriched|not found|failed|waiting|not asked|repeated|refused|blank",
    "company": f"({'|'.join(COUNTRIES)}) [0-9]+",
}
"""The values of columns that are always added. No other list is likely to have both columns with such values."""


def find_earlier(connection: duckdb.DuckDBPyConnection, paths: Mapping[str, str]) -> tuple[str, ...]:
    """Find the columns of a list that an earlier `--out` added.

    There are such columns if one is named like our `status`, another like our `company`, and both hold only the values
    of ours. Columns to the left of both are the list's own, and so are columns with other names than ours.

    Args:
        connection: A generation with the lines of the list in `back_lines`.
        paths: The JSON pointer of each column of the list, in its order.
    """
    own = list(paths)
    names = {given: added.name for added in (*line_columns(), *list_added()) for given in given_names(added)}
    found: list[int] = []
    for name, form in _FORMS.items():
        named = [column for column in own if names.get(column) == name]
        fits = [column for column in named if connection.execute(_FITS, [form, paths[column]]).fetchall()[0][0]]
        found += map(own.index, fits[-1:])
    if len(found) < len(_FORMS):
        return ()
    return tuple(column for column in own[min(found) :] if column in names)


def given_names(added: AddedColumn) -> tuple[str, str, str]:
    """Return the possible names of a column in a file; it gets the first that no column of the list has."""
    return added.name, f"firmlake_{added.name}", f"{added.relation}_{added.name}"


_FITS: Final = """
    SELECT coalesce(bool_and(regexp_full_match(cell, $1)), false)
    FROM (SELECT json_extract_string(columns, $2) AS cell FROM back_lines) WHERE cell <> ''
"""
