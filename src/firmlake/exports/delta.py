"""Delta Lake: each export adds a version to its tables.

    delta/<table>              overwritten by each whole export
    delta/<table>_changes      appended to by each export of changes

The log of each table records, under our name, the publication time of the generation that was exported last. An export
that was killed after its commit finds that record and does not commit again.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from firmlake.core.errors import FirmlakeError, UsageError
from firmlake.exports.selection import arrow_schema
from firmlake.exports.table_files import Source

if TYPE_CHECKING:
    from deltalake import DeltaTable

__all__ = ["Committed", "commit"]

_NAME = "firmlake"
_MOMENT = "firmlake.published"


class Committed(NamedTuple):
    """A Delta Lake table at the version that holds an export: its path below the destination, and its rows."""

    path: str
    version: int
    row_count: int


def commit(source: Source, url: str, export_id: str, published_at: datetime, *, is_whole: bool) -> Committed:
    """Commit the selected rows to the table below `url`, unless they are committed already.

    Raises:
        UsageError: The library deltalake is missing.
        FirmlakeError: The table cannot be written.
    """
    try:
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
        from deltalake.exceptions import DeltaError
    except ImportError:
        raise UsageError("Delta Lake needs the library deltalake", "`pip install 'firmlake[delta]'`") from None
    path = f"delta/{source.table.name}" + ("" if is_whole else "_changes")
    where = f"{url}/{path}"
    try:
        moment = int(published_at.replace(tzinfo=UTC).timestamp() * 1e6)
        if DeltaTable.is_deltatable(where):
            table = DeltaTable(where)
            if table.transaction_version(_NAME) == moment:
                return _committed(table, path, moment)
        count = [0]
        schema = arrow_schema(source.table)
        properties = CommitProperties(
            app_transactions=[Transaction(_NAME, moment)],
            custom_metadata={_MOMENT: str(moment), "firmlake.export": export_id},
        )
        write_deltalake(
            where,
            pa.RecordBatchReader.from_batches(schema, _counted(source, count)),
            partition_by=["country"] if source.selected.has_country else None,
            mode="overwrite" if is_whole else "append",
            schema_mode="overwrite" if is_whole else None,
            description=source.table.meaning,
            commit_properties=properties,
        )
        return Committed(path, DeltaTable(where).version(), count[0])
    except (DeltaError, OSError) as error:
        why = str(error).partition("\n")[0].partition("?")[0][:200]
        raise FirmlakeError(
            f"{where}: {why}", "Check the address and the store's credentials, then run again"
        ) from None


def _counted(source: Source, count: list[int]) -> Iterator[pa.RecordBatch]:
    for batch in source.batches(source.table):
        count[0] += batch.num_rows
        yield batch


def _committed(table: DeltaTable, path: str, moment: int) -> Committed:
    """Find the version that holds a generation's rows, and how many they are."""
    for entry in table.history():
        if entry.get(_MOMENT) == str(moment):
            return Committed(path, int(entry["version"]), int(entry["operationMetrics"]["num_added_rows"]))
    raise FirmlakeError(f"{path}: its log no longer says which version holds the generation", "Name another folder")
