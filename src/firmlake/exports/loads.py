"""Render the statements with which each warehouse loads an exported table.

Parquet files have the country only in their path.
"""

# ruff: noqa: S608 - statements are put together from our own table names, never from data

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from firmlake.exports.manifest import ExportedTable

__all__ = ["LOADS", "Loaded"]


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

# ---------------------------------------------------------------------------------------------------------------------


def _emptied(loaded: Loaded) -> Iterator[str]:
    if loaded.replaces:
        yield f"DELETE FROM {loaded.name};"


def _unguarded(name: str) -> str:
    return f"""regexp_replace("{name}", E'^''(?=''*[=+@\\t\\r\\n-])', '')"""
