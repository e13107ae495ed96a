"""The record of a delivery: what a target holds, from which generation it came, and how each table looks.

Files keep it as `manifest.json` of an export (`files.py`), databases as a row of `_firmlake_loads` (`database.py`).
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from firmlake.core.text import count_of
from firmlake.delivery.selection import exported_type
from firmlake.tables.schemas import Table


class DeliveredFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """One file: its path below the export's folder, and the country of all its rows if the table is split by it."""

    path: str
    row_count: int
    byte_count: int
    sha256: str
    country: str = ""


class ColumnShape(msgspec.Struct, frozen=True, omit_defaults=True):
    """One column: its type as DuckDB spells it, and how its values relate to natural persons (`tables.schemas`)."""

    name: str
    type: str
    nullable: bool
    comment: str
    privacy: str = ""


class DeliveredTable(msgspec.Struct, frozen=True, omit_defaults=True):
    """One table.

    Attributes:
        key: Columns that identify a row; empty if one of them was not delivered.
        row_count: All rows, or the changed ones.
        changes: Rows by kind of change, in a delivery of changes to files.
        delta_path: A Delta Lake table below the destination, of which `delta_version` holds the export.
        iceberg_table: An Iceberg table in its catalog, of which `iceberg_snapshot` holds the export.
    """

    name: str
    meaning: str
    key: tuple[str, ...]
    columns: tuple[ColumnShape, ...]
    row_count: int
    files: tuple[DeliveredFile, ...] = ()
    changes: dict[str, int] = {}
    delta_path: str = ""
    delta_version: int | None = None
    iceberg_table: str = ""
    iceberg_snapshot: int | None = None

    @property
    def byte_count(self) -> int:
        """Bytes of its files."""
        return sum(file.byte_count for file in self.files)

    @property
    def has_strict_key(self) -> bool:
        """Whether it has a key, and no column of it may be null."""
        return bool(self.key) and not any(column.nullable for column in self.columns if column.name in self.key)


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The content and the origin of a delivery.

    Attributes:
        delivery_id: Its name, derived from its content: `export_id` in a manifest, `load_id` in a database.
        mode: `whole` replaces what was delivered before; `changes` holds the changes since `previous`; `as_of` holds
            the state after a run and is never named by `latest.json`.
        run_id: The last run, overview, plan of contacts or new name of a list that is included.
        generation: The generation it was made from, published at `published_at`, UTC.
        made_at: Time and size of that generation's file: a restored data folder may give another file the same number.
        previous: The delivery that `changes` apply to, and its generation; empty and null for the other modes.
        mask: Columns that were dropped or hashed, by pattern.
        incomplete: Why the generation is not complete: list (null: all companies), dataset, cause, company_count.
    """

    delivery_id: str = msgspec.field(name="export_id")
    mode: str
    format: str
    run_id: str
    generation: int
    published_at: datetime
    made_at: str = ""
    schema_version: int
    firmlake_version: str
    previous: str = ""
    base_generation: int | None = None
    mask: dict[str, str] = {}
    incomplete: list[dict[str, str | int | None]] = []
    tables: tuple[DeliveredTable, ...] = ()

    @property
    def row_count(self) -> int:
        """Rows of all tables."""
        return sum(table.row_count for table in self.tables)

    @property
    def row_counts(self) -> dict[str, int]:
        """Rows by table."""
        return {table.name: table.row_count for table in self.tables}

    @property
    def byte_count(self) -> int:
        """Bytes of all files."""
        return sum(table.byte_count for table in self.tables)


def describe_table(table: Table) -> DeliveredTable:
    """Describe a table as it is delivered, before its rows are counted."""
    columns = tuple(ColumnShape(c.name, exported_type(c), bool(c.null), c.comment, c.privacy) for c in table.columns)
    return DeliveredTable(table.name, table.meaning, table.key, columns, row_count=0)


def describe_rows(part: Record | DeliveredTable, mode: str) -> str:
    """Describe the size of a delivery or one of its tables; the bytes of Delta Lake tables are not counted."""
    rows = count_of(part.row_count, "changed row" if mode == "changes" else "row")
    return rows + (f", {part.byte_count:,} bytes" if part.byte_count else "")
