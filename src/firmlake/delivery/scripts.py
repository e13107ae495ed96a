"""Render the SQL script that creates the tables of an export in a warehouse and loads them, for `export --ddl`."""

# ruff: noqa: S608 - statements are put together from our own table names, never from data

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from firmlake.core.errors import UsageError
from firmlake.delivery.manifest import ColumnShape, ExportedTable, ExportManifest, folder_of
from firmlake.tables.schemas import comment_of


class DdlDialect(NamedTuple):
    """What a warehouse supports.

    Attributes:
        inline: Renders a comment inside CREATE TABLE; None if comments need statements of their own.
        schemes: The schemes of addresses from which the warehouse can read an export; "" is a folder.
        format: The file format that it reads.
    """

    schemes: tuple[str, ...]
    format: str
    inline: Callable[[str], str] | None


DIALECTS = {
    "snowflake": DdlDialect(("s3", "gs", "az", "abfss"), "parquet", lambda text: f"COMMENT {text}"),
    "bigquery": DdlDialect(("gs",), "parquet", lambda text: f"OPTIONS (description={text})"),
    "redshift": DdlDialect(("s3",), "parquet", None),
    "databricks": DdlDialect(("s3", "gs", "az", "abfss"), "parquet", lambda text: f"COMMENT {text}"),
    "postgres": DdlDialect(("",), "csv", None),
}

_MENDED = {
    # Its COPY refuses to put the times of Parquet files into a column with a zone; they are in UTC.
    ("redshift", "TIMESTAMPTZ"): "TIMESTAMP",
}


def render_ddl(manifest: ExportManifest, url: str, dialect: str) -> str:
    """Write the script that creates the tables of an export and loads them.

    Raises:
        UsageError: The warehouse cannot read this format or this place.
    """
    wanted = DIALECTS[dialect]
    scheme = url.partition("://")[0] if "://" in url else ""
    if manifest.format != wanted.format:
        raise UsageError(f"{dialect} loads {wanted.format}, not {manifest.format}", f"Add --format {wanted.format}")
    if scheme not in wanted.schemes:
        names = " or ".join(f"{each}://" if each else "a folder" for each in wanted.schemes)
        raise UsageError(f"{dialect} cannot load from {url}", f"Export to {names}")
    parts = [f"-- Export {manifest.export_id}, for {dialect}. Made by firmlake; run it with your own rights."]
    for table in manifest.tables:
        name = table.name + ("_changes" if manifest.mode == "changes" else "")
        parts += [f"{statement};" for statement in _create(table, name, dialect)]
        folder = f"{address_for(dialect, url)}/{folder_of(manifest.export_id)}"
        columns = tuple((column.name, _type(column, dialect)) for column in table.columns)
        loaded = Loaded(name, table, folder, columns, manifest.mode != "changes", lambda text: _quoted(text, dialect))
        parts += LOADS[dialect](loaded) if table.files else []
    return "\n\n".join(parts) + "\n"


def _create(table: ExportedTable, name: str, dialect: str) -> Iterator[str]:
    inline = DIALECTS[dialect].inline
    lines = []
    for column in table.columns:
        comment = f" {inline(_quoted(column.comment, dialect))}" if inline else ""
        # BigQuery takes the country from the path, and what it takes from a path may be null.
        is_nullable = column.nullable or (dialect == "bigquery" and column.name == "country")
        null = "" if is_nullable else " NOT NULL"
        lines.append(f"  {_identifier(column.name, dialect)} {_type(column, dialect)}{null}{comment}")
    meaning = _quoted(comment_of(table.meaning, table.key), dialect)
    behind = ""
    if inline:
        behind = f"\n{inline(meaning)}" if dialect != "snowflake" else f"\nCOMMENT = {meaning}"
    yield f"CREATE TABLE IF NOT EXISTS {name} (\n" + ",\n".join(lines) + f"\n){behind}"
    if not inline:
        yield f"COMMENT ON TABLE {name} IS {meaning}"
        for column in table.columns:
            where = f"{name}.{_identifier(column.name, dialect)}"
            yield f"COMMENT ON COLUMN {where} IS {_quoted(column.comment, dialect)}"


def _type(column: ColumnShape, dialect: str) -> str:
    from sqlglot import exp

    mended = _MENDED.get((dialect, column.type))
    return mended or exp.DataType.build(column.type, dialect="duckdb").sql(dialect)


def _identifier(name: str, dialect: str) -> str:
    """Quote a name, except for Snowflake, where a quoted name would have to be quoted in every query."""
    from sqlglot import exp

    return exp.to_identifier(name, quoted=dialect != "snowflake").sql(dialect)


def _quoted(text: str, dialect: str) -> str:
    """Quote a text. Redshift reads backslashes literally, as PostgreSQL does, but sqlglot would escape with them."""
    from sqlglot import exp

    return exp.Literal.string(text).sql("postgres" if dialect == "redshift" else dialect)


class Loaded(NamedTuple):
    """A table to load.

    Attributes:
        name: Name of the table in the warehouse.
        folder: Address of the export.
        columns: Names and types in the warehouse.
        replaces: Whether the load replaces the rows of the table.
        quote: Quotes a text in the warehouse's dialect.
    """

    name: str
    table: ExportedTable
    folder: str
    columns: tuple[tuple[str, str], ...]
    replaces: bool
    quote: Callable[[str], str]

    @property
    def countries(self) -> list[str]:
        """The countries that the files are split by; empty if they are not split."""
        return sorted({file.country for file in self.table.files if file.country})

    @property
    def inside(self) -> tuple[tuple[str, str], ...]:
        """Columns that the files hold."""
        return tuple(column for column in self.columns if column[0] != "country" or not self.countries)

    def at(self, path: str = "") -> str:
        """Return the quoted address of the table's folder, or of a path in it."""
        return self.quote(f"{self.folder}/{self.table.name}/{path}")


def _snowflake(loaded: Loaded) -> Iterator[str]:
    stage = f"{loaded.name}_stage"
    values = [f"$1:{name}::{kind}" for name, kind in loaded.inside]
    names = [name for name, _ in loaded.inside]
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
    inside = ", ".join(f'"{name}"' for name, _ in loaded.inside)
    yield (f"CREATE TEMP TABLE {aside} (\n" + ",\n".join(f'  "{name}" {kind}' for name, kind in loaded.inside) + "\n);")
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
    names = ", ".join(f"`{name}`" for name, _ in loaded.columns)
    verb = "OVERWRITE" if loaded.replaces else "INTO"
    hints = ", schemaHints => 'country STRING'" if loaded.countries else ""
    yield (
        f"INSERT {verb} TABLE {loaded.name} BY NAME\n"
        f"SELECT {names} FROM read_files({loaded.at()}, format => 'parquet'{hints});"
    )


def _postgres(loaded: Loaded) -> Iterator[str]:
    """For psql, whose client reads the files. The load undoes the guard against formulas."""
    aside = f"load_{loaded.name}"
    values = ", ".join(_unguarded(name) if kind == "TEXT" else f'"{name}"' for name, kind in loaded.columns)
    yield "BEGIN;"
    yield f"CREATE TEMP TABLE {aside} (LIKE {loaded.name}) ON COMMIT DROP;"
    for file in loaded.table.files:
        yield rf"\copy {aside} FROM {loaded.quote(f'{loaded.folder}/{file.path}')} WITH (FORMAT csv, HEADER)"
    yield from _emptied(loaded)
    yield f"INSERT INTO {loaded.name}\nSELECT {values} FROM {aside};"
    yield "COMMIT;"


LOADS: dict[str, Callable[[Loaded], Iterator[str]]] = {
    "snowflake": _snowflake,
    "bigquery": _bigquery,
    "redshift": _redshift,
    "databricks": _databricks,
    "postgres": _postgres,
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
