"""Write a company list back: every line once, in order, with its own columns and the data of its company."""

# ruff: noqa: S608 - statements are put together from our own names and quoted ones

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from firmlake.core.errors import FirmlakeError, UsageError
from firmlake.core.files import write_file
from firmlake.core.folders import Folders
from firmlake.core.sql import quote_name
from firmlake.exports.list_back import ListBack, gather_list
from firmlake.exports.list_columns import choose_added
from firmlake.exports.list_csv import write_csv
from firmlake.exports.list_workbook import SHEET_ROWS, write_workbook
from firmlake.warehouse.generations import open_warehouse
from firmlake.warehouse.named_list import find_named_list

__all__ = ["FileBack", "Written", "check_file_back", "write_list"]

_BATCH_ROWS: Final = 2_048
"""Lines that are written at a time. With 10,000, a CSV of a million lines takes 60 MB more."""
_ROW_GROUP: Final = 10_000
"""Lines per row group of a Parquet file: each batch becomes a group."""
_IDENTIFIER: Final = re.compile(
    r"(^|[^a-z])(id|ids|nr|no|num|number|numero|numéro|nummer|code|key|ref|vat|btw|tva|siren|siret|kvk|kbo|bce|zip|"
    r"postcode|postal|phone|tel|telefoon|iban|account|year|jaar|country)([^a-z]|$)|number|nummer",
    re.IGNORECASE,
)
"""Names of columns whose digits are not amounts."""


class FileBack(NamedTuple):
    """A file that a list is to be written to.

    Attributes:
        path: The file; its extension sets the format: .csv, .parquet or .xlsx.
        columns: The columns to add, as `choose_added` reads them.
    """

    path: Path
    columns: tuple[str, ...] = ()


class Written(NamedTuple):
    """A written file.

    Attributes:
        renamed: Added columns that have another name in the file, because the list has a column of the same name.
        replaced: Columns of the list that an earlier `--out` added and that the new columns replace.
        cut_count: Texts that were cut to the length limit of a cell.
        refused_count: Lines of the list that were refused.
    """

    path: Path
    line_count: int
    renamed: dict[str, str]
    replaced: tuple[str, ...] = ()
    cut_count: int = 0
    refused_count: int = 0


def check_file_back(wanted: FileBack, company_list: Path | None = None, line_count: int = 0) -> None:
    """Check that a list can be written to a file, before anything is fetched for it.

    Raises:
        UsageError: The extension, the folder, a column or the size does not fit, or the file is the list itself.
    """
    path = wanted.path
    if path.suffix.lower() not in _WRITERS:
        raise UsageError(
            f"--out {path}: a list cannot be written as {path.suffix or 'a file without an extension'}",
            f"Use one of the extensions {', '.join(_WRITERS)}; spreadsheet programs open .xlsx",
        )
    if path.is_dir() or not path.absolute().parent.is_dir():
        what = "is a folder" if path.is_dir() else f"cannot be written: there is no folder {path.absolute().parent}"
        raise UsageError(f"--out {path} {what}", "Name a file in a folder that exists")
    if company_list is not None and path.exists() and company_list.exists() and path.samefile(company_list):
        raise UsageError(f"--out {path} would overwrite the list itself", "Name another file")
    choose_added(wanted.columns)
    _check_size(path, line_count)


def write_list(folders: Folders, name: str, wanted: FileBack, memory_limit: str) -> Written:
    """Write the newest version of a list, with the data of its companies in the newest generation.

    Args:
        folders: The data folder.
        name: The list.
        wanted: The file; it is written whole or not at all.
        memory_limit: For DuckDB, such as "512MB".

    Raises:
        UsageError: There is no such list, or it does not fit into the file.
        FirmlakeError: Nothing was published yet, or the file cannot be written.
    """
    check_file_back(wanted)
    with open_warehouse(folders) as connection:
        connection.execute(f"SET memory_limit = '{memory_limit}'")
        _check_size(wanted.path, find_named_list(connection, name).line_count)
        write = _WRITERS[wanted.path.suffix.lower()]
        cut = 0

        def make(aside: Path) -> None:
            nonlocal cut
            cut = write(connection, back, aside)

        try:
            back = gather_list(connection, folders, name, choose_added(wanted.columns))
            write_file(wanted.path, make)
            refused = connection.execute(f"SELECT count(*) FROM ({back.refused})").fetchall()[0][0]
        except duckdb.OutOfMemoryException as error:
            raise FirmlakeError(
                f"{wanted.path} was not written: DuckDB needs more memory than {memory_limit}",
                "Raise run.duckdb_memory, then write it with `firmlake list export`, which sends no request",
            ) from error
    renamed = {added.name: given for given, added in back.added.items() if given != added.name}
    return Written(wanted.path, back.line_count, renamed, back.earlier, cut, refused)


# ---------------------------------------------------------------------------------------------------------------------


def _check_size(path: Path, line_count: int) -> None:
    if path.suffix.lower() == ".xlsx" and line_count > SHEET_ROWS:
        raise UsageError(
            f"--out {path}: the list has {line_count:,} lines, but a sheet holds only {SHEET_ROWS:,}",
            "Write .csv or .parquet, or divide the list",
        )


def _batches(connection: duckdb.DuckDBPyConnection, query: str) -> Iterator[pa.RecordBatch]:
    return iter(connection.sql(query).to_arrow_reader(_BATCH_ROWS))


def _schema(back: ListBack, schema: pa.Schema) -> pa.Schema:
    """Add the meaning of each added column as metadata."""
    fields = [
        field.with_metadata({"comment": back.added[field.name].meaning}) if field.name in back.added else field
        for field in schema
    ]
    return pa.schema(fields)


def _write_csv(connection: duckdb.DuckDBPyConnection, back: ListBack, path: Path) -> int:
    write_csv(path, _batches(connection, back.query), back.delimiter)
    return 0


def _write_parquet(connection: duckdb.DuckDBPyConnection, back: ListBack, path: Path) -> int:
    reader = connection.sql(back.typed_query).to_arrow_reader(_ROW_GROUP)
    with pq.ParquetWriter(path, _schema(back, reader.schema), compression="zstd") as writer:
        for batch in reader:
            writer.write_batch(batch.cast(_schema(back, reader.schema)))
    return 0


def _write_xlsx(connection: duckdb.DuckDBPyConnection, back: ListBack, path: Path) -> int:
    refused = connection.execute(back.refused).fetchall()
    kinds = _kinds(connection, back)
    meanings = {name: (added.full_name, added.type, added.meaning) for name, added in back.added.items()}
    return write_workbook(
        path, back.name, _batches(connection, back.cell_query), kinds, meanings, refused, back.formats
    )


def _kinds(connection: duckdb.DuckDBPyConnection, back: ListBack) -> dict[str, str]:
    """Find the own columns that hold amounts in a form that spreadsheets write, or ISO dates.

    The kind of amounts is `number`, or `number,` if their decimal mark is a comma. Values without a digit, such as
    `n/a`, may be among them and stay text. One value such as `007` or `A10` makes all of them codes.

    Dates are recognised cell by cell, so it is enough if most values are dates. If the types of cells are known, they
    take precedence.
    """
    if not back.own:
        return {}
    columns = list(map(quote_name, back.own))
    tests = ", ".join(test.format(column=column) for test in _KINDS.values() for column in columns)
    row = connection.execute(f"SELECT {tests} FROM ({back.cells})").fetchall()[0]
    fits = dict(zip(((kind, name) for kind in _KINDS for name in back.own), row, strict=True))
    return {
        name: kind
        for (kind, name), is_kind in fits.items()
        if is_kind and not (kind.startswith("number") and _IDENTIFIER.search(name))
    }


_WRITERS: dict[str, Callable[[duckdb.DuckDBPyConnection, ListBack, Path], int]] = {
    ".csv": _write_csv,
    ".parquet": _write_parquet,
    ".xlsx": _write_xlsx,
}


_NUMBER = "-?(0|[1-9][0-9]{{0,10}})([.][0-9]{{1,15}}(E-[0-9]{{1,3}})?)?"
_COMMA_NUMBER = "-?([0-9]{{1,3}}([.][0-9]{{3}}){{0,3}}|[0-9]{{1,11}})(,[0-9]{{1,15}})?"
_DATE = "([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})?[ T]?([0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}([.][0-9]+)?)?)?"
_SHARE = "coalesce(avg(regexp_full_match({{column}}, '{form}')::INT) FILTER ({{column}} <> ''){bound}, false)"
_ANY = "coalesce(bool_or(regexp_matches({{column}}, '{form}')), false)"

_KINDS: Final = {
    "number": _SHARE.format(form=f"{_NUMBER}|[^0-9]*", bound=" = 1") + " AND " + _ANY.format(form="[0-9]"),
    # Without any comma, `1.234` may be either.
    "number,": _SHARE.format(form=f"{_COMMA_NUMBER}|[^0-9]*", bound=" = 1") + " AND " + _ANY.format(form="[0-9],[0-9]"),
    "date": _SHARE.format(form=_DATE, bound=" > 0.5"),
}
"""The test for each kind of column that is not written as text."""
