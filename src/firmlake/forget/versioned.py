"""Clean exported tables that keep earlier versions: Delta Lake and Iceberg."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec
import polars as pl
import pyarrow as pa

from firmlake.delivery import delta, iceberg
from firmlake.delivery.destination import Destination
from firmlake.delivery.record import DeliveredTable, Record
from firmlake.forget.place import count_changed
from firmlake.privacy.forgotten import Forgotten
from firmlake.privacy.frames import clean_frame

__all__ = ["VersionedTable", "versioned_tables", "with_version"]


class VersionedTable(NamedTuple):
    """A Delta Lake or Iceberg table: its format, its path or name, and its destination."""

    format: str
    name: str
    url: str
    destination: Destination

    def count(self, forgotten: Forgotten) -> int:
        """Count the rows that name a forgotten subject."""
        batches = (
            delta.read_batches(f"{self.url}/{self.name}")
            if self.format == "delta"
            else iceberg.read_batches(self.url, self.name)
        )
        count = 0
        for batch in batches:
            frame = pl.DataFrame(pl.from_arrow(batch))
            count += count_changed(frame, clean_frame(frame, forgotten))
        return count

    def overwrite(self, forgotten: Forgotten) -> int:
        """Overwrite the rows without forgotten subjects, and return the new version or snapshot."""

        def clean(batch: pa.RecordBatch) -> pa.RecordBatch:
            frame = pl.DataFrame(pl.from_arrow(batch))
            after = clean_frame(frame, forgotten)
            if after is frame:
                return batch
            made = after.select(batch.schema.names).to_arrow().cast(batch.schema).combine_chunks().to_batches()
            return made[0] if made else batch.slice(0, 0)

        if self.format == "delta":
            return delta.overwrite(f"{self.url}/{self.name}", clean)
        return iceberg.overwrite(self.url, self.name, clean)

    def drop_past(self) -> None:
        """Remove the versions before the last `overwrite`."""
        if self.format == "delta":
            delta.drop_past(self.destination, self.name)
        else:
            iceberg.drop_past(self.url, self.name)


def versioned_tables(destination: Destination, manifest: Record) -> Iterator[VersionedTable]:
    """Yield the Delta Lake and Iceberg tables that an export wrote to."""
    for table in manifest.tables:
        if name := table.delta_path or table.iceberg_table:
            yield VersionedTable(manifest.format, name, destination.url, destination)


def with_version(table: DeliveredTable, versions: Mapping[str, int]) -> DeliveredTable:
    """Return the description of a table with the version that `firmlake forget` wrote."""
    if version := versions.get(table.delta_path):
        return msgspec.structs.replace(table, delta_version=version)
    if version := versions.get(table.iceberg_table):
        return msgspec.structs.replace(table, iceberg_snapshot=version)
    return table
