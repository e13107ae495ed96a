"""Write Apache Iceberg tables: each export adds a snapshot.

    <namespace>.<table>              overwritten by each whole export; earlier snapshots hold earlier states
    <namespace>.<table>_changes      appended to by each export of changes

The catalog is the one that pyiceberg knows as `firmlake`, from ~/.pyiceberg.yaml or the environment
(PYICEBERG_CATALOG__FIRMLAKE__URI): REST, SQL, Glue or Hive. Without one, an export to a folder keeps a catalog in
SQLite beside its tables. Each snapshot records, under our name, when the exported generation was published. An export
that was killed after its commit finds that record and does not commit again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
import pyarrow as pa

from firmlake.core.errors import Translation, UsageError, needed, translated
from firmlake.delivery.destination import open_destination
from firmlake.delivery.files import Source
from firmlake.delivery.record import DeliveredTable, Record
from firmlake.delivery.selection import arrow_schema

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table as IcebergTable

CATALOG: Final = "firmlake"
"""The name of the catalog in pyiceberg's configuration, and of the namespace in it."""

_MOMENT: Final = "firmlake.published"
_ROWS: Final = "firmlake.rows"
_ROWS_AT_ONCE: Final = 500_000
"""Rows of one data file per country; they are held in memory while the file is written."""


def commit(source: Source, described: DeliveredTable, url: str, record: Record) -> DeliveredTable:
    """Commit the selected rows to their table, unless they are committed already.

    New columns are added to the table; the key becomes its identifier fields.

    Args:
        source: The rows.
        described: The table.
        url: The destination, which holds the tables unless the catalog puts them elsewhere.
        record: The export.

    Raises:
        UsageError: The library pyiceberg is missing, or an object store has no catalog.
        FirmlakeError: The table cannot be written.
    """
    is_whole = record.mode == "whole"
    name = f"{CATALOG}.{source.table.name}{'' if is_whole else '_changes'}"
    with _translated(name):
        table = _open_table(_open_catalog(url), name, source)
        moment = str(int(record.published_at.replace(tzinfo=UTC).timestamp() * 1e6))
        if _committed(table, moment) is None:
            _write(table, source, {"firmlake.export": record.delivery_id, _MOMENT: moment}, is_whole=is_whole)
        committed = _committed(table.refresh(), moment)
        assert committed, "it was just written"
    snapshot, row_count = committed
    return msgspec.structs.replace(described, iceberg_table=name, iceberg_snapshot=snapshot, row_count=row_count)


def drop_past(url: str, name: str) -> None:
    """Expire the snapshots before the newest, and remove the files that only they needed."""
    with _translated(name):
        table = _open_catalog(url).load_table(name)
        newest = table.current_snapshot()
        old = [each.snapshot_id for each in table.snapshots() if each != newest]
        if old:
            table.maintenance.expire_snapshots().by_ids(old).commit()
            table = table.refresh()
        needed = _files_of(table)
        place = open_destination(table.location().removesuffix("/"))
        for path in place.sizes(""):
            if f"{table.location().removesuffix('/')}/{path}" not in needed:
                place.remove(path)


def drop(url: str, name: str) -> None:
    """Remove a table and its files."""
    with _translated(name):
        catalog = _open_catalog(url)
        if catalog.table_exists(name):
            location = catalog.load_table(name).location()
            catalog.drop_table(name)
            open_destination(location.removesuffix("/")).clear("")


def location_of(url: str, name: str) -> str:
    """Return the address of the files of a table; empty if there is no such table."""
    with _translated(name):
        catalog = _open_catalog(url)
        return catalog.load_table(name).location().removesuffix("/") if catalog.table_exists(name) else ""


# ---------------------------------------------------------------------------------------------------------------------


def _translated(name: str) -> AbstractContextManager[None]:
    with needed("Iceberg", "the library pyiceberg", "iceberg"):
        from pyiceberg.exceptions import NotInstalledError, RESTError
    mend = "Check the catalog and the store's credentials, then run again"
    return translated(name, Translation((NotInstalledError, RESTError, OSError, ValueError), mend))


def _files_of(table: IcebergTable) -> set[str]:
    """Return the addresses of all files that a table needs."""
    needed = {table.metadata_location}
    for snapshot in table.snapshots():
        needed.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            needed.add(manifest.manifest_path)
            needed |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
    return needed


def _open_catalog(url: str) -> Catalog:
    """Open the catalog of pyiceberg's configuration, or the one beside the tables in a folder."""
    from pyiceberg.catalog import load_catalog
    from pyiceberg.utils.config import Config

    if described := Config().get_catalog_config(CATALOG):
        return load_catalog(CATALOG, **cast("dict[str, str]", described))
    if "://" in url:
        raise UsageError(
            f"{url} has no Iceberg catalog", "Set PYICEBERG_CATALOG__FIRMLAKE__URI, or describe it in ~/.pyiceberg.yaml"
        )
    folder = Path(url) / "iceberg"
    folder.mkdir(parents=True, exist_ok=True)
    return load_catalog(
        CATALOG, type="sql", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=folder.absolute().as_uri()
    )


def _open_table(catalog: Catalog, name: str, source: Source) -> IcebergTable:
    """Open a table; create it, or add new columns, if needed."""
    if not catalog.namespace_exists(CATALOG):  # checked first, because the login may not be allowed to create it
        catalog.create_namespace_if_not_exists(CATALOG)
    schema = _schema(source)
    if not catalog.table_exists(name):
        table = catalog.create_table(name, schema=schema, properties={"comment": source.table.meaning})
        with table.update_spec() as spec:
            if source.selected.has_country:
                spec.add_identity("country")
    else:
        table = catalog.load_table(name)
    with table.update_schema() as update:
        update.union_by_name(schema)
    nullable = {column.name for column in source.table.columns if column.null}
    if source.table.key and not nullable.intersection(source.table.key) and not name.endswith("_changes"):
        with table.update_schema() as update:
            update.set_identifier_fields(*source.table.key)
    return table


def _committed(table: IcebergTable, moment: str) -> tuple[int, int] | None:
    """Return the snapshot that holds a generation's rows, and the number of these rows; None if there is none."""
    for snapshot in reversed(table.snapshots()):
        properties = snapshot.summary.additional_properties if snapshot.summary else {}
        if properties.get(_MOMENT) == moment and _ROWS in properties:
            return snapshot.snapshot_id, int(properties[_ROWS])
    return None


def _write(table: IcebergTable, source: Source, properties: dict[str, str], *, is_whole: bool) -> None:
    """Write all rows in one commit; only its last snapshot has the number of rows and counts as the export."""
    count, schema = 0, _schema(source)
    with table.transaction() as transaction:
        for rows, is_first, is_last in _parts(source, schema):
            count += rows.num_rows
            told: dict[str, str] = {**properties, **({_ROWS: str(count)} if is_last else {})}
            if is_first and is_whole and table.current_snapshot() is not None:
                transaction.overwrite(rows, snapshot_properties=told)
            else:
                transaction.append(rows, snapshot_properties=told)


def _parts(source: Source, schema: pa.Schema) -> Iterator[tuple[pa.Table, bool, bool]]:
    """Yield the rows in tables of limited size, at least one, with flags for the first and the last."""
    held: list[pa.RecordBatch] = []
    is_first = True
    for batch in source.batches(source.table):
        if sum(each.num_rows for each in held) >= _ROWS_AT_ONCE:
            yield pa.Table.from_batches(held).cast(schema), is_first, False
            held, is_first = [], False
        held.append(batch)
    rows = pa.Table.from_batches(held, arrow_schema(source.table)).cast(schema)
    yield rows, is_first, True


def _schema(source: Source) -> pa.Schema:
    """Return the schema with comments in the metadata that Iceberg reads."""
    return pa.schema([_documented(field) for field in arrow_schema(source.table)])


def _documented(field: Any) -> Any:
    return field.with_metadata({"doc": (field.metadata or {}).get(b"comment", b"")})
