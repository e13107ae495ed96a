"""Render the SQL script that creates the tables of an export in a warehouse and loads them, for `export --ddl`."""

# ruff: noqa: S608 - statements are put together from our own table names, never from data

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from firmlake.core.errors import UsageError
from firmlake.delivery.database import BIGQUERY, DATABRICKS, POSTGRES, REDSHIFT, SNOWFLAKE, Dialect
from firmlake.delivery.files import folder_of
from firmlake.delivery.record import DeliveredTable, Record


def render_ddl(manifest: Record, url: str, dialect: str) -> str:
    """Write the script that creates the tables of an export and loads them.

    Raises:
        UsageError: The warehouse cannot read this format or this place.
    """
    warehouse = SCRIPTS[dialect]
    scheme = url.partition("://")[0] if "://" in url else ""
    if manifest.format != warehouse.format:
        raise UsageError(
            f"{dialect} loads {warehouse.format}, not {manifest.format}", f"Add --format {warehouse.format}"
        )
    if scheme not in warehouse.schemes:
        names = " or ".join(f"{each}://" if each else "a folder" for each in warehouse.schemes)
        raise UsageError(f"{dialect} cannot load from {url}", f"Export to {names}")
    folder = f"{address_for(dialect, url)}/{folder_of(manifest.delivery_id)}"
    parts = [f"-- Export {manifest.delivery_id}, for {dialect}. Made by firmlake; run it with your own rights."]
    for table in manifest.tables:
        name = table.name + ("_changes" if manifest.mode == "changes" else "")
        loaded = Loaded(name, table, folder, warehouse.dialect, manifest.mode != "changes")
        parts += _create(loaded)
        parts += warehouse.load(loaded) if table.files else []
    return "\n\n".join(parts) + "\n"


def _create(loaded: Loaded) -> Iterator[str]:
    name, table, dialect = loaded.name, loaded.table, loaded.dialect
    if dialect is BIGQUERY:  # it takes the country from the path, and what it takes from a path may be null
        columns = (msgspec.structs.replace(c, nullable=c.nullable or c.name == "country") for c in table.columns)
        table = msgspec.structs.replace(table, columns=tuple(columns))
    yield f"{dialect.create_table(name, table, 'IF NOT EXISTS ')};"
    yield from (f"{statement};" for statement in dialect.comments(name, table))


class Loaded(NamedTuple):
    """A table to load.

    Attributes:
        name: Name of the table in the warehouse.
        folder: Address of the export.
        replaces: Whether the load replaces the rows of the table.
    """

    name: str
    table: DeliveredTable
    folder: str
    dialect: Dialect
    replaces: bool

    @property
    def countries(self) -> list[str]:
        """The countries that the files are split by; empty if they are not split."""
        return sorted({file.country for file in self.table.files if file.country})

    @property
    def columns_in_files(self) -> list[tuple[str, str]]:
        """Names and types of the columns that the files hold."""
        columns = ((column.name, self.dialect.type(column.type)) for column in self.table.columns)
        return [(name, kind) for name, kind in columns if name != "country" or not self.countries]

    def at(self, path: str = "") -> str:
        """Return the quoted address of the table's folder, or of a path in it."""
        return self.dialect.literal(f"{self.folder}/{self.table.name}/{path}")


def _snowflake(loaded: Loaded) -> Iterator[str]:
    stage = f"{loaded.name}_stage"
    values = [f"$1:{name}::{kind}" for name, kind in loaded.columns_in_files]
    names = [name for name, _ in loaded.columns_in_files]
    if loaded.countries:
        names.append("country")
        values.append("REGEXP_SUBSTR(METADATA$FILENAME, 'country=([A-Z]+)', 1, 1, 'e')")
    yield (
        "-- Add STORAGE_INTEGRATION = <yours>, or credentials.\n"
        f"CREATE OR REPLACE STAGE {stage} URL = {loaded.at()} FILE_FORMAT = (TYPE = PARQUET USE_LOGICAL_TYPE = TRUE);"
    )
    yield "BEGIN;"
    yield from _emptied(loaded)
    yield (
        f"COPY INTO {loaded.name} ({', '.join(names)})\nFROM (SELECT {', '.join(values)} FROM @{stage})\nFORCE = TRUE;"
    )
    yield "COMMIT;"


def _bigquery(loaded: Loaded) -> Iterator[str]:
    verb = "OVERWRITE" if loaded.replaces else "INTO"
    where = loaded.at().rstrip("/'") + "'"
    partitions = "\nWITH PARTITION COLUMNS (country STRING)" if loaded.countries else ""
    prefix = f", hive_partition_uri_prefix = {where}" if loaded.countries else ""
    yield (
        f"LOAD DATA {verb} {loaded.name}{partitions}\n"
        f"FROM FILES (format = 'PARQUET', uris = [{loaded.at('*')}]{prefix});"
    )


def _redshift(loaded: Loaded) -> Iterator[str]:
    aside = f"load_{loaded.name}"
    inside = ", ".join(f'"{name}"' for name, _ in loaded.columns_in_files)
    yield (
        f"CREATE TEMP TABLE {aside} (\n"
        + ",\n".join(f'  "{name}" {kind}' for name, kind in loaded.columns_in_files)
        + "\n);"
    )
    yield "BEGIN;"
    yield from _emptied(loaded)
    for country in loaded.countries or [""]:
        where = loaded.at(f"country={country}/" if country else "")
        names, values = (f'"country", {inside}', f"'{country}', {inside}") if country else (inside, inside)
        yield f"COPY {aside}\nFROM {where}\nIAM_ROLE DEFAULT\nFORMAT AS PARQUET;"
        yield f"INSERT INTO {loaded.name} ({names})\nSELECT {values} FROM {aside};"
        yield f"DELETE FROM {aside};"
    yield "COMMIT;"
    yield f"DROP TABLE {aside};"


def _databricks(loaded: Loaded) -> Iterator[str]:
    names = loaded.dialect.names(loaded.table)
    verb = "OVERWRITE" if loaded.replaces else "INTO"
    hints = ", schemaHints => 'country STRING'" if loaded.countries else ""
    yield (
        f"INSERT {verb} TABLE {loaded.name} BY NAME\n"
        f"SELECT {names} FROM read_files({loaded.at()}, format => 'parquet'{hints});"
    )


def _postgres(loaded: Loaded) -> Iterator[str]:
    """For psql, whose client reads the files. The load undoes the guard against formulas."""
    aside = f"load_{loaded.name}"
    values = ", ".join(_unguarded(c.name) if c.type == "VARCHAR" else f'"{c.name}"' for c in loaded.table.columns)
    yield "BEGIN;"
    yield f"CREATE TEMP TABLE {aside} (LIKE {loaded.name}) ON COMMIT DROP;"
    for file in loaded.table.files:
        yield rf"\copy {aside} FROM {loaded.dialect.literal(f'{loaded.folder}/{file.path}')} WITH (FORMAT csv, HEADER)"
    yield from _emptied(loaded)
    yield f"INSERT INTO {loaded.name}\nSELECT {values} FROM {aside};"
    yield "COMMIT;"


class Script(NamedTuple):
    """What a warehouse can read.

    Attributes:
        schemes: The schemes of addresses from which it can read an export; "" is a folder.
        format: The file format that it reads.
        load: Yields the statements that load a table.
    """

    dialect: Dialect
    schemes: tuple[str, ...]
    format: str
    load: Callable[[Loaded], Iterator[str]]


SCRIPTS = {
    "snowflake": Script(SNOWFLAKE, ("s3", "gs", "az", "abfss"), "parquet", _snowflake),
    "bigquery": Script(BIGQUERY, ("gs",), "parquet", _bigquery),
    "redshift": Script(REDSHIFT, ("s3",), "parquet", _redshift),
    "databricks": Script(DATABRICKS, ("s3", "gs", "az", "abfss"), "parquet", _databricks),
    "postgres": Script(POSTGRES, ("",), "csv", _postgres),
}


def _emptied(loaded: Loaded) -> Iterator[str]:
    if loaded.replaces:
        yield f"DELETE FROM {loaded.name};"


def _unguarded(name: str) -> str:
    return f"""regexp_replace("{name}", E'^''(?=''*[=+@\\t\\r\\n-])', '')"""


_AZURE = ("az", "abfss")


def address_for(dialect: str, url: str) -> str:
    """Return the address of an export as a warehouse spells it.

    Snowflake writes `gcs://` for Google's store and `azure://ACCOUNT.blob.core.windows.net/CONTAINER` for Azure's;
    Databricks writes `abfss://CONTAINER@ACCOUNT.dfs.core.windows.net`. An `az://` address does not name the account,
    which then comes from AZURE_STORAGE_ACCOUNT_NAME. The export reads the account from the same variable.

    Raises:
        UsageError: Neither the address nor the environment names the account.

    Example:
        >>> address_for("snowflake", "gs://bucket/firmlake")
        'gcs://bucket/firmlake'
    """
    scheme = url.partition("://")[0]
    if scheme == "gs" and dialect == "snowflake":
        return f"gcs{url.removeprefix('gs')}"
    if scheme not in _AZURE or dialect not in ("snowflake", "databricks"):
        return url
    container, host, path = _azure(url)
    if dialect == "snowflake":
        return f"azure://{host.replace('.dfs.', '.blob.', 1)}/{container}{path}"
    return f"abfss://{container}@{host.replace('.blob.', '.dfs.', 1)}{path}"


def _azure(url: str) -> tuple[str, str, str]:
    """Return container, host and path of an Azure address: `az://CONTAINER/PATH` or `abfss://CONTAINER@HOST/PATH`."""
    parts = urlsplit(url)
    container, _, host = parts.netloc.partition("@")
    if not host:
        account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME") or os.environ.get("AZURE_STORAGE_ACCOUNT")
        if not account:
            raise UsageError(
                f"{url} does not name its storage account, which the script needs",
                "Set AZURE_STORAGE_ACCOUNT_NAME, or export to abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH",
            )
        host = f"{account}.dfs.core.windows.net"
    return container, host, parts.path
