"""The shape of a table: columns with type, unit, source and meaning, and the key; Polars and DuckDB schemas from it."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from firmlake.api.contract import Kind

__all__ = ["KIND_TYPES", "Column", "Table", "duckdb_type", "history_of", "polars_schema"]


class Column(NamedTuple):
    """One column.

    Attributes:
        type: A key of `_TYPES`.
        meaning: What a value says, with its unit.
        null: What null says; empty where a column is never null.
        source: Dotted place in the service's JSON; empty where the value is ours.
    """

    name: str
    type: str
    meaning: str
    null: str = ""
    source: str = ""

    @property
    def comment(self) -> str:
        """The column in one line, for the database and the dictionary."""
        parts = [
            self.meaning,
            f"Null: {self.null}" if self.null else "Never null",
            self.source and f"From {self.source}",
        ]
        return ". ".join(part for part in parts if part) + "."


class Table(NamedTuple):
    """One table: what a row is, which columns name it, and its columns.

    Attributes:
        volatile: Columns whose earlier values are not kept, because a row that differs in nothing else is no other row.
            None: the table keeps no history.
    """

    name: str
    meaning: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    volatile: tuple[str, ...] | None = None

    @property
    def content(self) -> tuple[str, ...]:
        """Columns that make a row another one when they change: neither volatile nor where the row comes from."""
        apart = {*(self.volatile or ()), "fetched_at", "run_id", "valid_from_run"}
        return tuple(column.name for column in self.columns if column.name not in apart)


_TYPES: dict[str, tuple[pl.DataType, str]] = {
    "text": (pl.String(), "VARCHAR"),
    "json": (pl.String(), "JSON"),
    "integer": (pl.Int64(), "BIGINT"),
    "count": (pl.Int64(), "BIGINT"),
    "date": (pl.Date(), "DATE"),
    "timestamp": (pl.Datetime("us"), "TIMESTAMP"),
    "boolean": (pl.Boolean(), "BOOLEAN"),
    "money": (pl.Decimal(18, 2), "DECIMAL(18,2)"),
    "ratio": (pl.Decimal(12, 4), "DECIMAL(12,4)"),
    "fraction": (pl.Decimal(9, 6), "DECIMAL(9,6)"),
    "decimal": (pl.Decimal(23, 4), "DECIMAL(23,4)"),
    "score": (pl.Float64(), "DOUBLE"),
}

KIND_TYPES: dict[Kind, pl.DataType] = {
    "text": pl.String(),
    "date": pl.Date(),
    "codes": pl.List(pl.String()),
    **{kind: _TYPES[kind][0] for kind in ("integer", "decimal", "money", "ratio", "fraction", "score")},
}


def polars_schema(table: Table) -> pl.Schema:
    """Give the frame schema of a table."""
    return pl.Schema({column.name: _TYPES[column.type][0] for column in table.columns})


def duckdb_type(column: Column) -> str:
    """Give the DuckDB type of a column."""
    return _TYPES[column.type][1]


def history_of(table: Table) -> tuple[Table, Table]:
    """Give a table as the warehouse holds it, with the start of each row, and the table of its superseded rows."""
    current = table._replace(columns=(*table.columns, _VALID_FROM))
    superseded = Table(
        f"{table.name}_history",
        f"Superseded rows of {table.name}, as they stood last: {table.meaning[0].lower()}{table.meaning[1:]}",
        # Two rows that a run closed stood in the table side by side, so its key tells them apart.
        (*table.key, _VALID_TO.name),
        (*current.columns, _VALID_TO),
    )
    return current, superseded


# ---------------------------------------------------------------------------------------------------------------------

_VALID_FROM = Column("valid_from_run", "text", "Run that first brought the row as it stands")
_VALID_TO = Column("valid_to_run", "text", "Run that found it changed or gone; it no longer held from then")
