"""Render CREATE TABLE with comments, and the statements that load an export, for common warehouses.

Types come from sqlglot, with corrections (`_MENDED`). A whole export replaces the rows of its tables; an export of
changes is appended to `<table>_changes`. Every script can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from firmlake.core.errors import UsageError
from firmlake.exports.addresses import address_for
from firmlake.exports.loads import LOADS, Loaded
from firmlake.exports.manifest import ColumnShape, ExportedTable, ExportManifest, folder_of
from firmlake.tables.schemas import comment_of

__all__ = ["DIALECTS", "render_ddl"]


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


# ---------------------------------------------------------------------------------------------------------------------


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
