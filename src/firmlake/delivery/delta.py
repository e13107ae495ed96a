"""Write Delta Lake tables: each export adds a version.

    delta/<table>              overwritten by each whole export
    delta/<table>_changes      appended to by each export of changes

The log of each table records, under our name, when the generation exported last was published. An export that was
killed after its commit finds that record and does not commit again.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import UTC
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from firmlake.core.errors import FirmlakeError, Translation, needed, translated
from firmlake.delivery.destination import Destination
from firmlake.delivery.files import Source
from firmlake.delivery.record import DeliveredTable, Record
from firmlake.delivery.selection import arrow_schema

if TYPE_CHECKING:
    from deltalake import DeltaTable

_NAME = "firmlake"
_MOMENT = "firmlake.published"


def commit(source: Source, described: DeliveredTable, url: str, record: Record) -> DeliveredTable:
    """Commit the selected rows to the table below `url`, unless they are committed already.

    Raises:
        UsageError: The library deltalake is missing.
        FirmlakeError: The table cannot be written.
    """
    is_whole = record.mode == "whole"
    path = f"delta/{source.table.name}" + ("" if is_whole else "_changes")
    where = f"{url}/{path}"
    with _translated(where):
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

        moment = int(record.published_at.replace(tzinfo=UTC).timestamp() * 1e6)
        table = DeltaTable(where) if DeltaTable.is_deltatable(where) else None
        if table is None or table.transaction_version(_NAME) != moment:
            write_deltalake(
                where,
                pa.RecordBatchReader.from_batches(arrow_schema(source.table), source.batches(source.table)),
                partition_by=["country"] if source.selected.has_country else None,
                mode="overwrite" if is_whole else "append",
                schema_mode="overwrite" if is_whole else None,
                description=source.table.meaning,
                commit_properties=CommitProperties(
                    app_transactions=[Transaction(_NAME, moment)],
                    custom_metadata={_MOMENT: str(moment), "firmlake.export": record.delivery_id},
                ),
            )
        version, row_count = _committed(DeltaTable(where), path, moment)
    return msgspec.structs.replace(described, delta_path=path, delta_version=version, row_count=row_count)


def drop_past(destination: Destination, path: str) -> None:
    """Remove the versions before the newest: their files, and their log, which holds column values."""
    where = f"{destination.url}/{path}"
    with _translated(where):
        from deltalake import DeltaTable

        table = DeltaTable(where)
        newest = table.version()
        table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
        DeltaTable(where).create_checkpoint()
        for file in destination.sizes(f"{path}/_delta_log"):
            number = file.rpartition("/")[2][:20]
            if number.isdecimal() and int(number) < newest:
                destination.remove(file)


# ---------------------------------------------------------------------------------------------------------------------


def _translated(where: str) -> AbstractContextManager[None]:
    with needed("Delta Lake", "the library deltalake", "delta"):
        from deltalake.exceptions import DeltaError
    mend = "Check the address and the store's credentials, then run again"
    return translated(where, Translation((DeltaError, OSError), mend))


def _committed(table: DeltaTable, path: str, moment: int) -> tuple[int, int]:
    """Return the version that holds a generation's rows, and the number of these rows."""
    for entry in table.history():
        if entry.get(_MOMENT) == str(moment):
            return int(entry["version"]), _row_count(entry)
    raise FirmlakeError(
        f"{path}: the log of the table no longer says which version holds the generation", "Export to another folder"
    )


def _row_count(entry: dict[str, Any]) -> int:
    """Return the number of rows of the export that a version holds."""
    return int(entry["operationMetrics"]["num_added_rows"])
