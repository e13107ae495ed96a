"""How the SQL of each database differs from the others, and the statements that both loads and scripts consist of."""

# ruff: noqa: S608 - statements are put together from our own table names, never from data

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from firmlake.core.sql import quote_text
from firmlake.delivery.record import ColumnShape, DeliveredTable
from firmlake.delivery.selection import CHANGE
from firmlake.tables.schemas import comment_of

_DUCKDB_TYPES = ("VARCHAR", "BIGINT", "DECIMAL", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMPTZ")
"""The types of exported columns, as DuckDB and manifests spell them. DECIMAL is followed by precision and scale."""


class Dialect(NamedTuple):
    """How the SQL of one database differs from the others.

    Attributes:
        types: Its spelling of `_DUCKDB_TYPES`.
        quote: The character around names; empty if names are not quoted, so that users need not quote them either.
        comment: A comment as part of a column or table; empty if comments are separate statements.
        has_keys: Whether primary keys are declared.
        has_backslashes: Whether backslashes escape quotes in texts; otherwise a quote is doubled.
        has_apart_ddl: Whether tables are created, altered and dropped outside transactions, because the database would
            commit the transaction or refuse the statement.
    """

    name: str
    types: tuple[str, ...]
    quote: str = '"'
    comment: str = ""
    has_keys: bool = False
    has_backslashes: bool = False
    has_apart_ddl: bool = False

    def quoted(self, name: str) -> str:
        """Return the name of a column as statements spell it."""
        return f"{self.quote}{name}{self.quote}"

    def names(self, table: DeliveredTable) -> str:
        """Return the names of a table's columns as statements list them."""
        return ", ".join(self.quoted(column.name) for column in table.columns)

    def type(self, duckdb_type: str) -> str:
        """Return the spelling of a type that DuckDB spells like this."""
        name, bracket, size = duckdb_type.partition("(")
        return self.types[_DUCKDB_TYPES.index(name)] + bracket + size

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

    def inline(self, comment: str) -> str:
        """Return a comment as part of a column or table; empty if the comment is a separate statement."""
        return " " + self.comment.format(self.text(comment)) if self.comment else ""


# With a primary key, DuckDB rejects a row that is deleted and inserted again in one transaction.
DUCKDB = Dialect("duckdb", _DUCKDB_TYPES)
POSTGRES = Dialect(
    "postgres",
    ("text", "bigint", "numeric", "double precision", "boolean", "date", "timestamp with time zone"),
    has_keys=True,
)
# Its COPY refuses to put the times of Parquet files into a column with a zone; they are in UTC.
REDSHIFT = Dialect(
    "redshift", ("VARCHAR(MAX)", "BIGINT", "DECIMAL", "DOUBLE PRECISION", "BOOLEAN", "DATE", "TIMESTAMP")
)
SNOWFLAKE = Dialect(
    "snowflake",
    ("VARCHAR", "NUMBER(38,0)", "NUMBER", "FLOAT", "BOOLEAN", "DATE", "TIMESTAMP_TZ"),
    quote="",
    has_backslashes=True,
    has_apart_ddl=True,
)
BIGQUERY = Dialect(
    "bigquery",
    ("STRING", "INT64", "NUMERIC", "FLOAT64", "BOOL", "DATE", "TIMESTAMP"),
    quote="`",
    comment="OPTIONS (description = {})",
    has_backslashes=True,
    has_apart_ddl=True,
)
DATABRICKS = Dialect(
    "databricks",
    ("STRING", "BIGINT", "DECIMAL", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP"),
    quote="`",
    comment="COMMENT {}",
    has_backslashes=True,
)


def create_table(name: str, table: DeliveredTable, dialect: Dialect, more: str = "") -> str:
    """Create an empty table with these columns; `more` stands before its name."""
    lines = (f"  {declare(column, dialect, '' if column.nullable else ' NOT NULL')}" for column in table.columns)
    comment = dialect.inline(comment_of(table.meaning, table.key))
    return f"CREATE TABLE {more}{name} (\n" + ",\n".join(lines) + f"\n){comment}"


def declare(column: ColumnShape, dialect: Dialect, null: str = "") -> str:
    """Declare a column in a table."""
    return f"{dialect.quoted(column.name)} {dialect.type(column.type)}{null}{dialect.inline(column.comment)}"


def add_column(name: str, column: ColumnShape, dialect: Dialect) -> str:
    """Add a column. It is null until the rows are replaced."""
    return f"ALTER TABLE {name} ADD COLUMN {declare(column, dialect)}"


def add_key(name: str, table: DeliveredTable, dialect: Dialect) -> Iterator[str]:
    """Declare the primary key, if the database has keys and no column of the key may be null."""
    if dialect.has_keys and table.strict_key:
        yield f"ALTER TABLE {name} ADD PRIMARY KEY ({', '.join(map(dialect.quoted, table.key))})"


def comments(name: str, table: DeliveredTable, dialect: Dialect) -> Iterator[str]:
    """Set the comments of the table and its columns, unless the statement that creates the table includes them."""
    if dialect.comment:
        return
    yield f"COMMENT ON TABLE {name} IS {dialect.text(comment_of(table.meaning, table.key))}"
    for column in table.columns:
        yield f"COMMENT ON COLUMN {name}.{dialect.quoted(column.name)} IS {dialect.text(column.comment)}"


def replace_rows(name: str, staged: str, table: DeliveredTable, dialect: Dialect) -> Iterator[str]:
    """Make a table hold exactly the staged rows, writing only those that differ.

    Readers with an open transaction keep what they saw, and views on the table stay valid.
    """
    rest = [column.name for column in table.columns if column.name not in table.key]
    same, columns = _same_key(name, staged, table, dialect), dialect.names(table)
    yield f"DELETE FROM {name} WHERE NOT EXISTS (SELECT 1 FROM {staged} WHERE {same})"
    if rest:
        differs = " OR ".join(_compared(name, staged, column, "IS DISTINCT FROM", dialect) for column in rest)
        yield f"DELETE FROM {name} WHERE EXISTS (SELECT 1 FROM {staged} WHERE {same} AND ({differs}))"
    yield (
        f"INSERT INTO {name} ({columns}) SELECT {columns} FROM {staged} "
        f"WHERE NOT EXISTS (SELECT 1 FROM {name} WHERE {same})"
    )


def apply_changes(name: str, staged: str, table: DeliveredTable, dialect: Dialect) -> Iterator[str]:
    """Apply the staged changes to a table that holds the previous generation."""
    columns = dialect.names(table)
    yield f"DELETE FROM {name} WHERE EXISTS (SELECT 1 FROM {staged} WHERE {_same_key(name, staged, table, dialect)})"
    yield f"INSERT INTO {name} ({columns}) SELECT {columns} FROM {staged} WHERE {CHANGE.name} <> 'delete'"


def _same_key(name: str, staged: str, table: DeliveredTable, dialect: Dialect) -> str:
    nullable = {column.name for column in table.columns if column.nullable}
    return " AND ".join(
        _compared(name, staged, key, "IS NOT DISTINCT FROM" if key in nullable else "=", dialect) for key in table.key
    )


def _compared(name: str, staged: str, column: str, operator: str, dialect: Dialect) -> str:
    """Compare a column of two tables, without their schema, because not every database allows both before a column."""
    bare_staged, bare_name = staged.rpartition(".")[2], name.rpartition(".")[2]
    return f"{bare_staged}.{dialect.quoted(column)} {operator} {bare_name}.{dialect.quoted(column)}"
