"""The SQL of a load, made from the one schema. It is the same for all targets but for types, comments and quotes."""

# ruff: noqa: S608 - statements are put together from our own table names, never from data

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from firmlake.delivery.record import Shape
from firmlake.exports.selection import CHANGE
from firmlake.tables.schemas import Column, Table

__all__ = [
    "Dialect",
    "add_column",
    "add_key",
    "apply_changes",
    "comments",
    "create_table",
    "delete_companies",
    "replace_rows",
]


class Dialect(NamedTuple):
    """How a target spells what differs.

    Attributes:
        types: Type in the target by type of a `Column`.
        has_keys: Whether primary keys are declared.
    """

    name: str
    types: Mapping[str, str]
    has_keys: bool = True

    def shape(self, table: Table) -> Shape:
        """Return the columns of a table as the target has them."""
        return tuple((column.name, self.types[column.type]) for column in table.columns)


def create_table(name: str, table: Table, dialect: Dialect) -> str:
    """Create an empty table of this shape."""
    lines = (f"{_quoted(c.name)} {dialect.types[c.type]}{'' if c.null else ' NOT NULL'}" for c in table.columns)
    return f"CREATE TABLE {name} ({', '.join(lines)})"


def add_column(name: str, column: Column, dialect: Dialect) -> str:
    """Add a column; it is null until the rows are replaced."""
    return f"ALTER TABLE {name} ADD COLUMN {_quoted(column.name)} {dialect.types[column.type]}"


def add_key(name: str, table: Table, dialect: Dialect) -> Iterator[str]:
    """Declare the key, where the target has keys and no column of it may be null."""
    nullable = {column.name for column in table.columns if column.null}
    if dialect.has_keys and table.key and not nullable.intersection(table.key):
        yield f"ALTER TABLE {name} ADD PRIMARY KEY ({_names(table.key)})"


def comments(name: str, table: Table) -> Iterator[str]:
    """Say what the table and its columns mean."""
    meaning = f"{table.meaning}. Key: {', '.join(table.key)}." if table.key else f"{table.meaning}."
    yield f"COMMENT ON TABLE {name} IS {_text(meaning)}"
    for column in table.columns:
        yield f"COMMENT ON COLUMN {name}.{_quoted(column.name)} IS {_text(column.comment)}"


def replace_rows(name: str, staged: str, table: Table) -> Iterator[str]:
    """Make a table hold exactly the staged rows, writing only those that differ.

    Readers with an open transaction keep what they saw, and views on the table stay valid.
    """
    rest = [column.name for column in table.columns if column.name not in table.key]
    same = " AND ".join([_same_key(name, staged, table), *(_alike(name, staged, column) for column in rest)])
    yield f"DELETE FROM {name} WHERE NOT EXISTS (SELECT 1 FROM {staged} WHERE {same})"
    columns = _names(column.name for column in table.columns)
    yield (
        f"INSERT INTO {name} ({columns}) SELECT {columns} FROM {staged} "
        f"WHERE NOT EXISTS (SELECT 1 FROM {name} WHERE {_same_key(name, staged, table)})"
    )


def apply_changes(name: str, staged: str, table: Table) -> Iterator[str]:
    """Bring a table from the generation before to this one; the staged rows are its changes."""
    columns = _names(column.name for column in table.columns)
    yield f"DELETE FROM {name} WHERE EXISTS (SELECT 1 FROM {staged} WHERE {_same_key(name, staged, table)})"
    yield f"INSERT INTO {name} ({columns}) SELECT {columns} FROM {staged} WHERE {CHANGE.name} <> 'delete'"


def delete_companies(name: str, companies: Sequence[tuple[str, str]]) -> str:
    """Delete all rows of these companies: country and number in normal form."""
    listed = ", ".join(f"({_text(country)}, {_text(number)})" for country, number in companies)
    return f"DELETE FROM {name} WHERE (country, company_number) IN ({listed})"


# ---------------------------------------------------------------------------------------------------------------------


def _same_key(name: str, staged: str, table: Table) -> str:
    nullable = {column.name for column in table.columns if column.null}
    parts = (
        _alike(name, staged, key) if key in nullable else f"{staged}.{_quoted(key)} = {name}.{_quoted(key)}"
        for key in table.key
    )
    return " AND ".join(parts)


def _alike(name: str, staged: str, column: str) -> str:
    return f"{staged}.{_quoted(column)} IS NOT DISTINCT FROM {name}.{_quoted(column)}"


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(_quoted, names))


def _quoted(name: str) -> str:
    return f'"{name}"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
