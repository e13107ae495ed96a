"""Find the columns that an earlier `--out` added, in a list that is a file which was given back."""

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
"""The values of columns that are always added; a list of people's own hardly has columns of both names with these."""


def find_earlier(connection: duckdb.DuckDBPyConnection, paths: Mapping[str, str]) -> tuple[str, ...]:
    """Find the columns of a list that an earlier `--out` added.

    There are some if a column named like our `status` and one named like our `company` hold nothing but values of
    these. What stands left of both is the list's own, and so is what has no name of ours.

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
    """Return the names that a column is given in a file: the first that no column of the list has."""
    return added.name, f"firmlake_{added.name}", f"{added.relation}_{added.name}"


_FITS: Final = """
    SELECT coalesce(bool_and(regexp_full_match(cell, $1)), false)
    FROM (SELECT json_extract_string(columns, $2) AS cell FROM back_lines) WHERE cell <> ''
"""
