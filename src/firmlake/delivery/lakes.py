"""Delta Lake and Apache Iceberg tables: each export adds a version to its tables.

    delta/<table>, <namespace>.<table>                    overwritten by each whole export
    delta/<table>_changes, <namespace>.<table>_changes    appended to by each export of changes

Iceberg's catalog is the one that pyiceberg knows as `firmlake`, from ~/.pyiceberg.yaml or the environment
(PYICEBERG_CATALOG__FIRMLAKE__URI): REST, SQL, Glue or Hive. Without one, an export to a folder keeps a catalog in
SQLite beside its tables.

Each version records its export. An export that was killed after its commit finds that record and does not commit again.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import msgspec
import pyarrow as pa

from firmlake.core.errors import Translation, UsageError, needed, translated
from firmlake.delivery.destination import Destination, open_destination
from firmlake.delivery.files import row_groups
from firmlake.delivery.record import DeliveredTable, Record
from firmlake.delivery.selection import Source

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table as IcebergTable

CATALOG: Final = "firmlake"
"""The name of Iceberg's catalog in pyiceberg's configuration, and of the namespace in it."""

_EXPORT: Final = "firmlake.export"
_ROWS_AT_ONCE: Final = 500_000
"""Rows of one Iceberg data file per country; they are held in memory while the file is written."""


class DeltaLake:
    """The Delta Lake tables of a destination, by their path."""

    def __init__(self, destination: Destination) -> None:
        self._destination = destination

    def commit(self, source: Source, described: DeliveredTable, record: Record) -> DeliveredTable:
        """Commit the selected rows to their table, unless they are committed already."""
        is_whole = record.mode == "whole"
        path = f"delta/{source.table.name}{'' if is_whole else '_changes'}"
        with self._translated(path):
            from deltalake import CommitProperties, write_deltalake

            if (version := self._version_of(path, record)) is None:
                write_deltalake(
                    self.location_of(path),
                    source.read(),
                    partition_by=["country"] if source.has_country else None,
                    mode="overwrite" if is_whole else "append",
                    schema_mode="overwrite" if is_whole else None,
                    description=source.table.meaning,
                    commit_properties=CommitProperties(custom_metadata={_EXPORT: record.delivery_id}),
                )
                version = self._version_of(path, record)
        return msgspec.structs.replace(described, delta_path=path, delta_version=version)

    def drop_past(self, path: str) -> None:
        """Remove the versions before the newest: their files, and their log, which holds column values."""
        where = self.location_of(path)
        with self._translated(path):
            from deltalake import DeltaTable

            table = DeltaTable(where)
            newest = table.version()
            table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
            DeltaTable(where).create_checkpoint()
            for file in self._destination.sizes(f"{path}/_delta_log"):
                number = file.rpartition("/")[2][:20]
                if number.isdecimal() and int(number) < newest:
                    self._destination.remove(file)

    def drop(self, path: str) -> None:
        """Remove a table and its files."""
        self._destination.clear(path)

    def location_of(self, path: str) -> str:
        """Return the address of the files of a table."""
        return f"{self._destination.url}/{path}"

    def _version_of(self, path: str, record: Record) -> int | None:
        """Return the version of a table that an export committed."""
        from deltalake import DeltaTable

        where = self.location_of(path)
        history = DeltaTable(where).history() if DeltaTable.is_deltatable(where) else ()
        return next((entry["version"] for entry in history if entry.get(_EXPORT) == record.delivery_id), None)

    def _translated(self, path: str) -> AbstractContextManager[None]:
        with needed("Delta Lake", "the library deltalake", "delta"):
            from deltalake.exceptions import DeltaError
        mend = "Check the address and the store's credentials, then run again"
        return translated(self.location_of(path), Translation((DeltaError, OSError), mend))


class IcebergLake:
    """The Iceberg tables of a destination, by their name; the catalog may put them elsewhere."""

    def __init__(self, destination: Destination) -> None:
        self._url = destination.url

    def commit(self, source: Source, described: DeliveredTable, record: Record) -> DeliveredTable:
        """Commit the selected rows to their table, unless they are committed already.

        New columns are added to the table; the key becomes its identifier fields.
        """
        is_whole = record.mode == "whole"
        name = f"{CATALOG}.{source.table.name}{'' if is_whole else '_changes'}"
        with _translated(name):
            table = self._open_table(name, source, described)
            if (snapshot := _snapshot_of(table, record)) is None:
                _write_iceberg(table, source, {_EXPORT: record.delivery_id}, is_whole=is_whole)
                snapshot = _snapshot_of(table.refresh(), record)
        return msgspec.structs.replace(described, iceberg_table=name, iceberg_snapshot=snapshot)

    def drop_past(self, name: str) -> None:
        """Expire the snapshots before the newest, and remove the files that only they needed."""
        with _translated(name):
            table = self._open_catalog().load_table(name)
            newest = table.current_snapshot()
            if old := [each.snapshot_id for each in table.snapshots() if each != newest]:
                table.maintenance.expire_snapshots().by_ids(old).commit()
                table = table.refresh()
            location, in_use = table.location().removesuffix("/"), _files_of(table)
            place = open_destination(location)
            for path in place.sizes(""):
                if f"{location}/{path}" not in in_use:
                    place.remove(path)

    def drop(self, name: str) -> None:
        """Remove a table and its files."""
        if location := self.location_of(name):
            with _translated(name):
                self._open_catalog().drop_table(name)
            open_destination(location).clear("")

    def location_of(self, name: str) -> str:
        """Return the address of the files of a table; empty if there is no such table."""
        with _translated(name):
            catalog = self._open_catalog()
            return catalog.load_table(name).location().removesuffix("/") if catalog.table_exists(name) else ""

    def _open_catalog(self) -> Catalog:
        """Open the catalog of pyiceberg's configuration, or the one beside the tables in a folder."""
        from pyiceberg.catalog import load_catalog
        from pyiceberg.utils.config import Config

        if described := Config().get_catalog_config(CATALOG):
            return load_catalog(CATALOG, **cast("dict[str, str]", described))
        if "://" in self._url:
            raise UsageError(
                f"{self._url} has no Iceberg catalog",
                "Set PYICEBERG_CATALOG__FIRMLAKE__URI, or describe it in ~/.pyiceberg.yaml",
            )
        folder = Path(self._url) / "iceberg"
        folder.mkdir(parents=True, exist_ok=True)
        return load_catalog(
            CATALOG, type="sql", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=folder.absolute().as_uri()
        )

    def _open_table(self, name: str, source: Source, described: DeliveredTable) -> IcebergTable:
        """Open a table; create it, or add new columns, if needed."""
        catalog, schema = self._open_catalog(), _documented(source.schema)
        if not catalog.namespace_exists(CATALOG):  # checked first, because the login may not be allowed to create it
            catalog.create_namespace_if_not_exists(CATALOG)
        if catalog.table_exists(name):
            table = catalog.load_table(name)
        else:
            table = catalog.create_table(name, schema=schema, properties={"comment": source.table.meaning})
            with table.update_spec() as spec:
                if source.has_country:
                    spec.add_identity("country")
        with table.update_schema() as update:
            update.union_by_name(schema)
        if described.has_strict_key and not name.endswith("_changes"):
            with table.update_schema() as update:
                update.set_identifier_fields(*source.table.key)
        return table


LAKES: Final[dict[str, type[DeltaLake] | type[IcebergLake]]] = {"delta": DeltaLake, "iceberg": IcebergLake}
"""The tables of a destination, by format."""


def _snapshot_of(table: IcebergTable, record: Record) -> int | None:
    """Return the last snapshot of a table that an export committed."""
    for snapshot in reversed(table.snapshots()):
        if snapshot.summary and snapshot.summary.additional_properties.get(_EXPORT) == record.delivery_id:
            return snapshot.snapshot_id
    return None


def _write_iceberg(table: IcebergTable, source: Source, properties: dict[str, str], *, is_whole: bool) -> None:
    """Write all rows in one commit, part by part; its last snapshot has them all."""
    schema = _documented(source.schema)
    parts = row_groups(source.read(), _ROWS_AT_ONCE)
    with table.transaction() as transaction:
        replaces = is_whole and table.current_snapshot() is not None
        write = transaction.overwrite if replaces else transaction.append
        write(next(parts, schema.empty_table()).cast(schema), snapshot_properties=properties)
        for rows in parts:
            transaction.append(rows.cast(schema), snapshot_properties=properties)


def _documented(schema: pa.Schema) -> pa.Schema:
    """Return a schema with comments in the metadata that Iceberg reads."""
    documents = ({"doc": (field.metadata or {}).get(b"comment", b"")} for field in schema)
    return pa.schema([field.with_metadata(document) for field, document in zip(schema, documents, strict=True)])


def _files_of(table: IcebergTable) -> set[str]:
    """Return the addresses of all files that a table needs."""
    in_use = {table.metadata_location}
    for snapshot in table.snapshots():
        in_use.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            in_use.add(manifest.manifest_path)
            in_use |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
    return in_use


def _translated(name: str) -> AbstractContextManager[None]:
    with needed("Iceberg", "the library pyiceberg", "iceberg"):
        from pyiceberg.exceptions import NotInstalledError, RESTError
    mend = "Check the catalog and the store's credentials, then run again"
    return translated(name, Translation((NotInstalledError, RESTError, OSError, ValueError), mend))
