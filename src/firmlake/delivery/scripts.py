"""What others run on an export: the SQL script that loads it into a warehouse (`--ddl`), a sources file for dbt."""

# ruff: noqa: S608 - statements are put together from our own table names, never from data

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
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
    folder = f"{_address_for(dialect, url)}/{folder_of(manifest.delivery_id)}"
    parts = [f"-- Export {manifest.delivery_id}, for {dialect}. Made by firmlake; run it with your own rights."]
    is_changes = manifest.mode == "changes"
    for table in manifest.tables:
        loaded = _Loaded(f"{table.name}{'_changes' * is_changes}", table, folder, warehouse.dialect, not is_changes)
        parts += [f"{statement};" for statement in _create(loaded)]
        parts += warehouse.load(loaded) if table.files else []
    return "\n\n".join(parts) + "\n"


class _Loaded(NamedTuple):
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

    @property
    def cleared(self) -> str:
        """The beginning of a transaction that replaces the rows, or adds to them."""
        return "BEGIN;" + f"\n\nDELETE FROM {self.name};" * self.replaces

    def at(self, path: str = "") -> str:
        """Return the quoted address of the table's folder, or of a path in it."""
        return self.dialect.literal(f"{self.folder}/{self.table.name}/{path}")


def _create(loaded: _Loaded) -> Iterator[str]:
    table, dialect = loaded.table, loaded.dialect
    if dialect is BIGQUERY:  # it takes the country from the path, and what it takes from a path may be null
        columns = (msgspec.structs.replace(c, nullable=c.nullable or c.name == "country") for c in table.columns)
        table = msgspec.structs.replace(table, columns=tuple(columns))
    yield dialect.create_table(loaded.name, table, "IF NOT EXISTS ")
    yield from dialect.comments(loaded.name, table)


def _snowflake(loaded: _Loaded) -> Iterator[str]:
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
    yield loaded.cleared
    rows = f"SELECT {', '.join(values)} FROM @{stage}"
    yield f"COPY INTO {loaded.name} ({', '.join(names)})\nFROM ({rows})\nFORCE = TRUE;"
    yield "COMMIT;"


def _bigquery(loaded: _Loaded) -> Iterator[str]:
    verb = "OVERWRITE" if loaded.replaces else "INTO"
    partitions, prefix = "", ""
    if loaded.countries:
        partitions = "\nWITH PARTITION COLUMNS (country STRING)"
        prefix = f", hive_partition_uri_prefix = {loaded.dialect.literal(f'{loaded.folder}/{loaded.table.name}')}"
    yield (
        f"LOAD DATA {verb} {loaded.name}{partitions}\n"
        f"FROM FILES (format = 'PARQUET', uris = [{loaded.at('*')}]{prefix});"
    )


def _redshift(loaded: _Loaded) -> Iterator[str]:
    aside = f"load_{loaded.name}"
    inside = ", ".join(f'"{name}"' for name, _ in loaded.columns_in_files)
    declared = ",\n".join(f'  "{name}" {kind}' for name, kind in loaded.columns_in_files)
    yield f"CREATE TEMP TABLE {aside} (\n{declared}\n);"
    yield loaded.cleared
    for country in loaded.countries or [""]:
        where = loaded.at(f"country={country}/" if country else "")
        names, values = (f'"country", {inside}', f"'{country}', {inside}") if country else (inside, inside)
        yield f"COPY {aside}\nFROM {where}\nIAM_ROLE DEFAULT\nFORMAT AS PARQUET;"
        yield f"INSERT INTO {loaded.name} ({names})\nSELECT {values} FROM {aside};"
        yield f"DELETE FROM {aside};"
    yield "COMMIT;"
    yield f"DROP TABLE {aside};"


def _databricks(loaded: _Loaded) -> Iterator[str]:
    names = loaded.dialect.names(loaded.table)
    verb = "OVERWRITE" if loaded.replaces else "INTO"
    hints = ", schemaHints => 'country STRING'" if loaded.countries else ""
    yield (
        f"INSERT {verb} TABLE {loaded.name} BY NAME\n"
        f"SELECT {names} FROM read_files({loaded.at()}, format => 'parquet'{hints});"
    )


def _postgres(loaded: _Loaded) -> Iterator[str]:
    """For psql, whose client reads the files. The load undoes the guard against formulas."""
    aside = f"load_{loaded.name}"
    unguarded = """regexp_replace("{}", E'^''(?=''*[=+@\\t\\r\\n-])', '')"""
    values = (unguarded if column.type == "VARCHAR" else '"{}"' for column in loaded.table.columns)
    named = ", ".join(value.format(column.name) for value, column in zip(values, loaded.table.columns, strict=True))
    yield "BEGIN;"
    yield f"CREATE TEMP TABLE {aside} (LIKE {loaded.name}) ON COMMIT DROP;"
    for file in loaded.table.files:
        path = loaded.dialect.literal(f"{loaded.folder}/{file.path}")
        yield rf"\copy {aside} FROM {path} WITH (FORMAT csv, HEADER)"
    yield from [f"DELETE FROM {loaded.name};"] * loaded.replaces
    yield f"INSERT INTO {loaded.name}\nSELECT {named} FROM {aside};"
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
    load: Callable[[_Loaded], Iterator[str]]


SCRIPTS = {
    "snowflake": Script(SNOWFLAKE, ("s3", "gs", "az", "abfss"), "parquet", _snowflake),
    "bigquery": Script(BIGQUERY, ("gs",), "parquet", _bigquery),
    "redshift": Script(REDSHIFT, ("s3",), "parquet", _redshift),
    "databricks": Script(DATABRICKS, ("s3", "gs", "az", "abfss"), "parquet", _databricks),
    "postgres": Script(POSTGRES, ("",), "csv", _postgres),
}


def _address_for(dialect: str, url: str) -> str:
    """Return the address of an export as a warehouse spells it.

    Snowflake writes `gcs://` for Google's store and `azure://ACCOUNT.blob.core.windows.net/CONTAINER` for Azure's;
    Databricks writes `abfss://CONTAINER@ACCOUNT.dfs.core.windows.net`. An `az://` address does not name the account,
    which then comes from AZURE_STORAGE_ACCOUNT_NAME. The export reads the account from the same variable.

    Raises:
        UsageError: Neither the address nor the environment names the account.
    """
    parts = urlsplit(url)
    if parts.scheme == "gs" and dialect == "snowflake":
        return f"gcs{url.removeprefix('gs')}"
    if parts.scheme not in ("az", "abfss") or dialect not in ("snowflake", "databricks"):
        return url
    container, _, host = parts.netloc.partition("@")
    account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME") or os.environ.get("AZURE_STORAGE_ACCOUNT")
    if not host and not account:
        raise UsageError(
            f"{url} does not name its storage account, which the script needs",
            "Set AZURE_STORAGE_ACCOUNT_NAME, or export to abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH",
        )
    host = host or f"{account}.dfs.core.windows.net"
    if dialect == "snowflake":
        return f"azure://{host.replace('.dfs.', '.blob.', 1)}/{container}{parts.path}"
    return f"abfss://{container}@{host.replace('.blob.', '.dfs.', 1)}{parts.path}"


KeyTest = tuple[str, str]
"""A dbt test of a key of several columns: its name, and its argument with the columns."""
_UTILS_TEST: KeyTest = ("dbt_utils.unique_combination_of_columns", "combination_of_columns")
_WARN_DAYS, _ERROR_DAYS = 8, 15
"""A weekly run is late by one run, or by two."""


def render_sources(manifest: Record) -> str:
    """Write a sources file for dbt with the tables of an export; a longer key has a test of the package dbt_utils."""
    suffix = "_changes" if manifest.mode == "changes" else ""
    return sources_file(
        f"Made by firmlake from export {manifest.delivery_id}. `dbt deps` must find dbt_utils.",
        [f"    description: {_quoted(f'Companies as exported by firmlake {manifest.firmlake_version}')}"],
        (line for table in manifest.tables for line in source_lines(table, suffix, _UTILS_TEST)),
    )


def sources_file(comment: str, head: Iterable[str], tables: Iterable[str]) -> str:
    """Write a sources file for dbt: `head` describes the source, `tables` has the lines of its tables."""
    return (
        "\n".join([f"# {comment}", "version: 2", "sources:", "  - name: firmlake", *head, "    tables:", *tables])
        + "\n"
    )


def source_lines(table: DeliveredTable, suffix: str, key_test: KeyTest) -> Iterator[str]:
    """Yield the lines of a table in a sources file: comments, tests of keys and nulls, freshness.

    Freshness is measured by the newest answer in `company_state`. Every column that is never null has a `not_null`
    test, and a key of one column a `unique` test.
    """
    yield f"      - name: {table.name}{suffix}"
    yield f"        description: {_quoted(table.meaning)}"
    if table.name == "company_state":
        yield "        loaded_at_field: fetched_at"
        yield "        freshness:"
        yield f"          warn_after: {{count: {_WARN_DAYS}, period: day}}"
        yield f"          error_after: {{count: {_ERROR_DAYS}, period: day}}"
    if len(table.key) > 1 and not suffix:
        yield "        data_tests:"
        yield f"          - {key_test[0]}:"
        yield f"              {key_test[1]}: [{', '.join(table.key)}]"
    yield "        columns:"
    for column in table.columns:
        tests = [] if column.nullable else ["not_null"]
        tests += ["unique"] if table.key == (column.name,) and not suffix else []
        yield f"          - name: {column.name}"
        yield f"            description: {_quoted(column.comment)}"
        if column.privacy:
            yield f"            config: {{meta: {{privacy: {column.privacy}}}}}"
        if tests:
            yield f"            data_tests: [{', '.join(tests)}]"


def _quoted(text: str) -> str:
    """Quote a text for YAML, which takes JSON's strings."""
    return json.dumps(text, ensure_ascii=False)
