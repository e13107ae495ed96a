"""The columns that `--out` can add to a list, and those that an earlier `--out` has added to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Final, NamedTuple

import duckdb

from firmlake.core.company import COUNTRIES
from firmlake.core.errors import UsageError
from firmlake.tables.schemas import WAREHOUSE_TABLES, duckdb_type
from firmlake.warehouse.schema import create_tables
from firmlake.warehouse.views import create_views, definitions, describe_columns, is_of_companies

DEFAULT: Final = "company_figures"
"""The view whose columns are added by default."""

_KEY: Final = ("country", "company_number")


class AddedColumn(NamedTuple):
    """A column to add.

    Attributes:
        relation: The view of the column.
        type: As DuckDB spells it.
    """

    relation: str
    name: str
    type: str
    meaning: str

    @property
    def full_name(self) -> str:
        """The name of the view and the column, which is unique."""
        return f"{self.relation}.{self.name}"


LINE_COLUMNS: Final = {"status": "VARCHAR", "reason": "VARCHAR", "company": "VARCHAR", "line": "BIGINT"}
"""The columns that are always added, from the view `list_lines`: the status of the line, the reason, the company, and
the number of the line in the file that was read. With titles above the header, its row in the new file differs."""


@cache
def list_added() -> tuple[AddedColumn, ...]:
    """List every column that can be added, by view, starting with the default view."""
    views = [definition for definition in definitions() if is_of_companies(definition)]
    with duckdb.connect() as connection:
        create_tables(connection)
        create_views(connection)
        described = describe_columns(connection, views)
    found = [
        AddedColumn(view, name, kind, meaning)
        for view, columns in described.items()
        for name, (kind, meaning) in columns.items()
        if name not in _KEY
    ]
    found += _of_tables()
    return tuple(sorted(found, key=lambda each: (each.relation != DEFAULT, each.relation)))


@cache
def line_columns() -> tuple[AddedColumn, ...]:
    """Return the columns that are always added."""
    meanings = next(each.columns for each in definitions() if each.name == "list_lines")
    return tuple(AddedColumn("list_lines", name, kind, meanings[name]) for name, kind in LINE_COLUMNS.items())


def choose_added(names: Sequence[str]) -> tuple[AddedColumn, ...]:
    """Choose the columns to add.

    Args:
        names: Each is a column (`revenue`), a column of a view (`portfolio.revenue`), all columns of a view
            (`portfolio.*`) or `default`. No names mean `default`.

    Raises:
        UsageError: There is no such column. The message names similar ones.
    """
    wanted = [name.strip() for name in names or ["default"]]
    chosen = [each for name in wanted if name not in LINE_COLUMNS for each in _find(name)]  # those are always added
    return tuple(dict.fromkeys(chosen))


def _of_tables() -> Iterator[AddedColumn]:
    for table in WAREHOUSE_TABLES.values():
        if table.key == _KEY:
            for column in table.columns:
                if column.name not in _KEY:
                    yield AddedColumn(table.name, column.name, duckdb_type(column), column.comment_in_view)


def _find(name: str) -> list[AddedColumn]:
    known = list_added()
    if name == "default":
        return [each for each in known if each.relation == DEFAULT]
    found = [each for each in known if name in (each.full_name, f"{each.relation}.*")]
    # If several views have the name, the default view wins. If it is not among them, the view must be named too.
    found = found or [each for each in known if each.name == name]
    if len(found) > 1 and not name.endswith(".*"):
        if found[0].relation == DEFAULT:
            return found[:1]
        raise UsageError(
            f"--columns {name}: several views have this column", f"Use {' or '.join(each.full_name for each in found)}"
        )
    if not found:
        names = [*dict.fromkeys(each.name for each in known), *(each.full_name for each in known)]
        names += [f"{relation}.*" for relation in dict.fromkeys(each.relation for each in known)]
        near = get_close_matches(name, names, n=3, cutoff=0.7)
        hint = f"Did you mean {', '.join(near)}? " if near else ""
        raise UsageError(f"--columns {name}: there is no such column", f"{hint}`--columns help` lists all")
    return found


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
