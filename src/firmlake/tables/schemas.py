"""Every table, defined once in `schemas.toml`: its key, and its columns with type, unit, source and meaning.

Polars and DuckDB schemas, comments, the data dictionary and the dbt sources are generated from these definitions.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, Literal, NamedTuple, get_args

import polars as pl

from firmlake.api.contract import RECORDS, FieldKind

NOT_STATED = "the service states no usable value"

Privacy = Literal["", "person", "contact", "company", "text"]

PRIVACY: dict[Privacy, str] = {
    "": "",
    "person": "Personal data: may name a natural person",
    "contact": "Personal data: identifies a natural person",
    "company": "Personal data if the company is a sole trader",
    "text": "May hold personal data, because the text comes from outside firmlake",
}
"""What each value of `Column.privacy` says in the comment of a column; docs/privacy.md explains them."""


class Column(NamedTuple):
    """One column."""

    name: str
    type: str  # a key of `_TYPES`
    meaning: str  # what a value means, with its unit
    null: str = ""  # what null means; empty if the column is never null
    source: str = ""  # dotted path in the service's JSON; empty if the value is our own
    privacy: Privacy = ""

    @property
    def comment(self) -> str:
        """The description of the column in one line, for the database and the dictionary."""
        return self._describe("Never null")

    @property
    def comment_in_view(self) -> str:
        """The description where a join may leave out what is never null in the table."""
        return self._describe("")

    def _describe(self, never: str) -> str:
        null = f"Null: {self.null}" if self.null else never
        source = self.source and f"From {self.source}"
        parts = [self.meaning, _UNITS.get(self.type, ""), null, source, PRIVACY[self.privacy]]
        return ". ".join(part for part in parts if part) + "."


class Table(NamedTuple):
    """One table.

    The earlier values of volatile columns are not kept: a row that differs only in these is the same row. None means
    that the table keeps no history.
    """

    name: str
    meaning: str  # what a row is
    key: tuple[str, ...]  # the columns that identify a row
    columns: tuple[Column, ...]
    volatile: tuple[str, ...] | None = None

    @property
    def content(self) -> tuple[str, ...]:
        """The columns whose change makes a new row: all except volatile columns and those for the origin of a row."""
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

_UNITS = {"money": "In the currency of the accounts, which is not stated"}
"""The unit of a type of column, for its comment."""

KIND_TYPES: dict[FieldKind, pl.DataType] = {
    "codes": pl.List(pl.String()),
    **{kind: _TYPES[kind][0] for kind in get_args(FieldKind) if kind in _TYPES},
}


def comment_of(meaning: str, key: Sequence[str]) -> str:
    """Return the comment of a table: its meaning, and the columns that identify a row."""
    return f"{meaning}. Key: {', '.join(key)}." if key else f"{meaning}."


def polars_schema(table: Table) -> pl.Schema:
    """Return the Polars schema of a table."""
    return pl.Schema({column.name: _TYPES[column.type][0] for column in table.columns})


def duckdb_type(column: Column) -> str:
    """Return the DuckDB type of a column."""
    return _TYPES[column.type][1]


def history_of(table: Table) -> tuple[Table, Table]:
    """Return a table with the column `valid_from_run`, as the warehouse holds it, and its table of superseded rows."""
    current = table._replace(columns=(*table.columns, _VALID_FROM))
    superseded = Table(
        f"{table.name}_history",
        f"Superseded rows of {table.name}, each in its last state. {table.name} has "
        f"{table.meaning[0].lower()}{table.meaning[1:]}",
        # Rows closed by the same run were in the table at the same time, so its key tells them apart.
        (*table.key, _VALID_TO.name),
        (*current.columns, _VALID_TO),
    )
    return current, superseded


_VALID_FROM = Column("valid_from_run", "text", "First run that found the row with these values")
_VALID_TO = Column("valid_to_run", "text", "Run that found the row changed or gone; the row was valid until then")


def read_tables(text: str) -> dict[str, Table]:
    """Read definitions in the form of `schemas.toml`, whose first lines explain it."""
    content = tomllib.loads(text)
    shared = {name: _column(column) for name, column in content.get("shared", {}).items()}

    def columns(listed: Sequence[str | Mapping[str, Any]]) -> tuple[Column, ...]:
        return tuple(shared[column] if isinstance(column, str) else _column(column) for column in listed)

    return {
        name: Table(
            name,
            table["meaning"],
            tuple(table["key"]),
            columns(table["columns"]),
            tuple(table["volatile"]) if "volatile" in table else None,
        )
        for name, table in content["tables"].items()
    }


def _column(given: Mapping[str, Any]) -> Column:
    """Make a column. What is not given about a field of a record follows from the contract."""
    field = given.get("field")
    own = {name: value for name, value in given.items() if name != "field"}
    return Column(**(_column_of_field(field) | own if field else own))


def _column_of_field(name: str) -> dict[str, Any]:
    dataset, described = next((dataset, each) for dataset, each in RECORDS.items() if name in each.fields)
    field, first_group = described.fields[name], next(iter(described.groups.values()))
    array = f"data[].{first_group.key}[]" if first_group.key else "data[]"
    return {
        "name": name,
        "type": field.kind,
        "null": "" if field.required else NOT_STATED,
        "source": f"{dataset} {array}.{field.path}",
    }


TABLES = read_tables(files("firmlake.tables").joinpath("schemas.toml").read_text("utf-8"))

WAREHOUSE_TABLES = {
    each.name: each for table in TABLES.values() for each in ((table,) if table.volatile is None else history_of(table))
}
"""The tables of the warehouse: those that keep history have `valid_from_run` and a second table of superseded rows."""

COMPANY_TABLES = {
    "financials": ("financials", "financial_joint_committees"),
    "lookalikes": ("lookalikes",),
    "relationships": ("relationships",),
}
"""The tables of each dataset. The rows of a company are replaced in all of them when its answer changes."""
