"""The records that a target holds: one row for each load in `_firmlake_loads`, and the tables staged so far."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from firmlake.tables.schemas import Column, Table

__all__ = ["LOADS", "STAGED", "LoadRecord", "Shape", "read_tables", "record_of", "row_of"]

Shape = tuple[tuple[str, str], ...]
"""Name and type of each column of a table, as the target spells them."""

LOADS = Table(
    "_firmlake_loads",
    "A load by firmlake; the newest row describes the current contents of the other tables",
    ("load_id",),
    (
        Column("load_id", "text", "Name of the load, derived from its content"),
        Column("loaded_at", "timestamp", "When the load was committed, UTC"),
        Column("mode", "text", "whole, or changes since base_generation"),
        Column("run_id", "text", "Last run included"),
        Column("generation", "integer", "Generation of the warehouse that was loaded"),
        Column("published_at", "timestamp", "When that generation was published, UTC"),
        Column("made_at", "text", "Time and size of the file of that generation; `firmlake forget` rebuilds the file"),
        Column("base_generation", "integer", "Generation whose changes were loaded", "the load was whole"),
        Column("schema_version", "integer", "Version of the shape of the tables"),
        Column("firmlake_version", "text", "Version of firmlake"),
        Column("tables", "json", "Columns and types of each table that was loaded"),
        Column("row_counts", "json", "Rows that were staged for each table: all rows, or the changed ones"),
    ),
)

STAGED = Table(
    "_firmlake_staged",
    "A table that an unfinished load has staged",
    ("load_id", "table_name"),
    (
        Column("load_id", "text", "Name of the load"),
        Column("table_name", "text", "Table"),
        Column("row_count", "integer", "Rows staged"),
    ),
)


class LoadRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A row of `_firmlake_loads`."""

    load_id: str
    loaded_at: datetime
    mode: str
    run_id: str
    generation: int
    published_at: datetime
    made_at: str
    base_generation: int | None
    schema_version: int
    firmlake_version: str
    tables: dict[str, Shape] = {}
    row_counts: dict[str, int] = {}


def row_of(record: LoadRecord) -> tuple[Any, ...]:
    """Return the row of a load, in the column order of `LOADS`."""
    values = msgspec.structs.asdict(record)
    for name in ("tables", "row_counts"):
        values[name] = msgspec.json.encode(values[name]).decode()
    for name in ("loaded_at", "published_at"):
        values[name] = values[name].replace(tzinfo=UTC)
    return tuple(values[column.name] for column in LOADS.columns)


def record_of(row: tuple[Any, ...]) -> LoadRecord:
    """Read a row of `_firmlake_loads`. Times are in UTC, without a zone."""
    values = dict(zip((column.name for column in LOADS.columns), row, strict=True))
    values["tables"] = read_tables(values["tables"])
    values["row_counts"] = msgspec.json.decode(values["row_counts"], type=dict[str, int])
    for name in ("loaded_at", "published_at"):
        moment = values[name]
        values[name] = moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    for name in ("generation", "base_generation", "schema_version"):
        values[name] = None if values[name] is None else int(values[name])  # some drivers return decimals
    return LoadRecord(**values)


def read_tables(text: str) -> dict[str, Shape]:
    """Read the columns of the tables of a load."""
    return msgspec.json.decode(text, type=dict[str, Shape])
