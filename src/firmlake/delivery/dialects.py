"""The SQL of a load. A `Dialect` holds the differences between targets, such as types and quotes."""

# ruff: noqa: S608 - statements are put together from our own table names, never from data

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from firmlake.core.sql import quote_text
from firmlake.delivery.selection import CHANGE
from firmlake.tables.schemas import Column, Table, comment_of

__all__ = [
    "Dialect",
    "add_column",
    "add_key",
    "apply_changes",
    "comments",
    "create_table",
    "replace_rows",
]


class Dialect(NamedTuple):
    """How the SQL of one target differs from the others.

    Attributes:
        types: The type in the target, by type of a `Column`.
        has_keys: Whether primary keys are declared.
        has_quotes: Whether names are quoted. If not, users need not quote them either.
        has_apart_ddl: Whether tables are created, altered and dropped outside transactions, because the target would
            commit the transaction or refuse the statement.
        has_backslashes: Whether backslashes escape quotes in texts; otherwise a quote is doubled.
        has_options: Whether comments are OPTIONS of a column or table instead of separate statements.
    """

    name: str
    types: Mapping[str, str]
    has_keys: bool = True
    has_quotes: bool = True
    has_apart_ddl: bool = False
    has_backslashes: bool = False
    has_options: bool = False

    def quoted(self, name: str) -> str:
        """Return the name of a column as statements spell it."""
        return f'"{name}"' if self.has_quotes else name

    def text(self, text: str) -> str:
        """Return a text as statements spell it."""
        if self.has_backslashes:
            return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"
        return quote_text(text)

    def literal(self, value: object) -> str:
        """Return a value as statements spell it."""
        if value is None:
            return "NULL"
        return str(value) if isinstance(value, int) else self.text(str(value))


def create_table(name: str, table: Table, dialect: Dialect) -> str:
    """Create an empty table with these columns."""
    lines = (f"{_declared(c, dialect, '' if c.null else ' NOT NULL')}" for c in table.columns)
    return f"CREATE TABLE {name} ({', '.join(lines)}){_option(comment_of(table.meaning, table.key), dialect)}"


def add_column(name: str, column: Column, dialect: Dialect) -> str:
    """Add a column. It is null until the rows are replaced."""
    return f"ALTER TABLE {name} ADD COLUMN {_declared(column, dialect)}"


def add_key(name: str, table: Table, dialect: Dialect) -> Iterator[str]:
    """Declare the primary key, if the target has keys and no column of the key may be null."""
    nullable = {column.name for column in table.columns if column.null}
    if dialect.has_keys and table.key and not nullable.intersection(table.key):
        yield f"ALTER TABLE {name} ADD PRIMARY KEY ({', '.join(map(dialect.quoted, table.key))})"


def comments(name: str, table: Table, dialect: Dialect) -> Iterator[str]:
    """Set the comments of the table and its columns, unless the statement that creates the table includes them."""
    if dialect.has_options:
        return
    yield f"COMMENT ON TABLE {name} IS {dialect.text(comment_of(table.meaning, table.key))}"
    for column in table.columns:
        yield f"COMMENT ON COLUMN {name}.{dialect.quoted(column.name)} IS {dialect.text(column.comment)}"


def replace_rows(name: str, staged: str, table: Table, dialect: Dialect) -> Iterator[str]:
    """Make a table hold exactly the staged rows, writing only those that differ.

    Readers with an open transaction keep what they saw, and views on the table stay valid.
    """
    rest = [column.name for column in table.columns if column.name not in table.key]
    same, columns = _same_key(name, staged, table, dialect), _names(table, dialect)
    yield f"DELETE FROM {name} WHERE NOT EXISTS (SELECT 1 FROM {staged} WHERE {same})"
    if rest:
        differs = " OR ".join(_differs(name, staged, dialect.quoted(column)) for column in rest)
        yield f"DELETE FROM {name} WHERE EXISTS (SELECT 1 FROM {staged} WHERE {same} AND ({differs}))"
    yield (
        f"INSERT INTO {name} ({columns}) SELECT {columns} FROM {staged} "
        f"WHERE NOT EXISTS (SELECT 1 FROM {name} WHERE {same})"
    )


def apply_changes(name: str, staged: str, table: Table, dialect: Dialect) -> Iterator[str]:
    """Apply the staged changes to a table that holds the previous generation."""
    columns = _names(table, dialect)
    yield f"DELETE FROM {name} WHERE EXISTS (SELECT 1 FROM {staged} WHERE {_same_key(name, staged, table, dialect)})"
    yield f"INSERT INTO {name} ({columns}) SELECT {columns} FROM {staged} WHERE {CHANGE.name} <> 'delete'"


# ---------------------------------------------------------------------------------------------------------------------


def _declared(column: Column, dialect: Dialect, more: str = "") -> str:
    return f"{dialect.quoted(column.name)} {dialect.types[column.type]}{more}{_option(column.comment, dialect)}"


def _option(comment: str, dialect: Dialect) -> str:
    return f" OPTIONS (description = {dialect.text(comment)})" if dialect.has_options else ""


def _same_key(name: str, staged: str, table: Table, dialect: Dialect) -> str:
    nullable = {column.name for column in table.columns if column.null}
    parts = []
    for key in table.key:
        quoted = dialect.quoted(key)
        same = "IS NOT DISTINCT FROM" if key in nullable else "="
        parts.append(f"{_bare(staged)}.{quoted} {same} {_bare(name)}.{quoted}")
    return " AND ".join(parts)


def _differs(name: str, staged: str, quoted: str) -> str:
    return f"{_bare(staged)}.{quoted} IS DISTINCT FROM {_bare(name)}.{quoted}"


def _bare(name: str) -> str:
    """Return the name of a table without its schema, because not every target allows both before a column."""
    return name.rpartition(".")[2]


def _names(table: Table, dialect: Dialect) -> str:
    return ", ".join(dialect.quoted(column.name) for column in table.columns)
