"""Write a company list back: every line once, in order, with its own columns and the data of its company."""

# ruff: noqa: S608 - statements are put together from our own names and quoted ones

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import Final, NamedTuple, cast

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from firmlake.core.errors import DamagedError, FirmlakeError, UsageError
from firmlake.core.files import write_file
from firmlake.core.folders import Folders
from firmlake.core.guard import RISKY
from firmlake.core.sql import quote_name
from firmlake.core.sql import quote_name as quoted
from firmlake.core.sql import quote_text as _text
from firmlake.delivery.files import guarded
from firmlake.delivery.list_columns import AddedColumn, choose_added, find_earlier, given_names, line_columns
from firmlake.delivery.list_workbook import SHEET_ROWS, write_workbook
from firmlake.intake.lines import ListColumns, read_columns
from firmlake.landing.run import open_run
from firmlake.warehouse.generations import open_warehouse
from firmlake.warehouse.incomplete import (
    COMPLETENESS,
    Completeness,
    describe_service,
    read_incomplete,
    to_hand_on,
    to_json,
)
from firmlake.warehouse.list_names import find_named_list

_UNREAD: Final = AddedColumn(
    "list_lines", "unread_line", "VARCHAR", "The line as it stands, if it cannot be divided into fields"
)


_LINES: Final = """
    CREATE TEMP TABLE back_lines AS
    SELECT * FROM list_lines LEFT JOIN ({kinds}) USING (line) WHERE list_name = {name}
"""

_COMPANIES: Final = 32_768
"""Companies per portion."""
_RANGES: Final = """
    SELECT portion, country, min(company_number), max(company_number)
    FROM (
        SELECT *, (row_number() OVER (ORDER BY country, company_number) - 1) // ? AS portion
        FROM (SELECT DISTINCT country, company_number FROM back_lines WHERE company_number IS NOT NULL)
    )
    GROUP BY portion, country ORDER BY portion, country
"""

_OWNERS: Final = "CREATE TEMP TABLE ultimate_owners AS FROM ultimate_owners"
"""Replaces the view, which each portion would otherwise compute for all companies."""


_UNGUARDED: Final = "regexp_replace(cells[{}], " + _text("^'(" + RISKY.removeprefix("^") + ")") + r", '\1')"
"""A cell of a CSV file that an earlier `--out` wrote, without the apostrophe that guards it."""


class ListBack(NamedTuple):
    """A list to be written to a file.

    Attributes:
        own: The columns of the list itself, in their order.
        earlier: Columns of the list that an earlier `--out` added; `added` replaces them.
        added: The added columns, by their name in the file.
        query: Selects one row for each line, in order: the own columns as text, then the added ones.
        typed_query: The same, but own columns of a Parquet list have their type.
        cell_query: As `query`, with one more column: a letter for each own cell (see `TextTable.has_kinds`), empty if
            the cells of the list have no types.
        cells: Selects the own columns alone, in any order.
        refused: Selects line, given and reason of the refused lines.
        delimiter: The delimiter of the list; a comma if it was not delimited text.
        formats: Number formats of columns of an XLSX list, as in `TextTable.formats`.
        completeness: Whether the list is complete.
    """

    name: str
    line_count: int
    own: tuple[str, ...]
    earlier: tuple[str, ...]
    added: dict[str, AddedColumn]
    query: str
    typed_query: str
    cell_query: str
    cells: str
    refused: str
    delimiter: str
    formats: dict[str, dict[str, str | int]]
    completeness: Completeness


def gather_list(
    connection: duckdb.DuckDBPyConnection, folders: Folders, name: str, chosen: Sequence[AddedColumn]
) -> ListBack:
    """Gather the newest version of a list in temporary tables of a connection.

    Args:
        connection: A generation.
        folders: The data folder.
        name: The list.
        chosen: The columns to add.

    Raises:
        UsageError: There is no such list. The message suggests a similar name.
    """
    listed = find_named_list(connection, name)
    stored = _find_stored(folders, listed.run_id)
    read = read_columns(stored) if stored else ListColumns()
    connection.execute(_LINES.format(kinds=_kinds_in(stored), name=_text(listed.name)))
    # Paths are JSON pointers, so that names may hold any character.
    paths = {each: "/" + each.replace("~", "~0").replace("/", "~1") for each in json.loads(listed.column_names)}
    earlier = find_earlier(connection, paths)
    own = tuple(each for each in paths if each not in earlier)
    has_unread = connection.execute(
        "SELECT bool_or(status = 'refused' AND reason LIKE 'number of fields%') FROM back_lines"
    ).fetchall()[0][0]
    added = _name_added((*line_columns(), *([_UNREAD] if has_unread else []), *chosen), own)
    # One call extracts all cells of a line.
    cells = (
        f"json_extract_string(columns, [{', '.join(_text(paths[each]) for each in own)}])" if own else "[]::VARCHAR[]"
    )
    cell = _UNGUARDED if earlier and read.delimiter else "cells[{}]"
    values = {column: cell.format(n) for n, column in enumerate(own, 1)}
    values |= {given: _source(each) for given, each in added.items()}
    _gather(connection, f"SELECT *, {cells} AS cells FROM back_lines", chosen, list(values.values()))
    shown = [f"v{n} AS {quoted(column)}" for n, column in enumerate(values)]
    typed = [  # a year beyond 9999 has a sign, which DuckDB does not read
        f"TRY_CAST(ltrim(v{n}, '+') AS {read.types[column]}) AS {quoted(column)}"
        if column in read.types and n < len(own)
        else shown[n]
        for n, column in enumerate(values)
    ]
    letters = ", ".join(f"kinds[{n}]" for n, each in enumerate(paths, 1) if each in own)
    return ListBack(
        listed.name,
        listed.line_count,
        own,
        earlier,
        added,
        _rows(shown),
        _rows(typed),
        _rows([*shown, f"concat({letters or 'NULL'})"]),
        f"SELECT {', '.join(shown[: len(own)]) or 'NULL'} FROM back_rows",
        "SELECT line, given, reason FROM back_lines WHERE status = 'refused' ORDER BY line",
        read.delimiter or ",",
        read.formats,
        Completeness(read_incomplete(connection, listed.name), describe_service(connection)),
    )


def _find_stored(folders: Folders, run_id: str) -> Path | None:
    """Return the stored list of a run; None if it is lost."""
    with suppress(DamagedError):
        return open_run(folders, run_id).checked("list")
    return None


def _kinds_in(stored: Path | None) -> str:
    """Return a query for the kinds of cells by line, which only the stored list has."""
    if stored:
        return f"SELECT line, kinds FROM read_parquet({_text(str(stored))})"
    return "SELECT NULL::BIGINT AS line, NULL::VARCHAR AS kinds WHERE false"


def _gather(
    connection: duckdb.DuckDBPyConnection, lines: str, chosen: Sequence[AddedColumn], values: Sequence[str]
) -> None:
    """Gather the values of all lines in `back_rows`, one portion of the companies at a time."""
    named = ", ".join(f"{value} AS v{n}" for n, value in enumerate(values))
    relations = dict.fromkeys(each.relation for each in chosen)
    with suppress(duckdb.CatalogException):  # an earlier version of firmlake made the generation
        connection.execute(_OWNERS)
    make = "CREATE TEMP TABLE back_rows AS"
    for portion in _portions(connection):
        joins = " ".join(
            f"LEFT JOIN (FROM {each} WHERE {portion}) {each} USING (country, company_number)" for each in relations
        )
        connection.execute(f"{make} SELECT line, kinds, {named} FROM ({lines} WHERE {portion}) list_lines {joins}")
        make = "INSERT INTO back_rows"


def _portions(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return a condition for each portion of the companies, made of constants, so that DuckDB skips other rows."""
    ranges: dict[int, list[str]] = {0: ["company_number IS NULL"]}
    for portion, country, first, last in connection.execute(_RANGES, [_COMPANIES]).fetchall():
        condition = f"country = {_text(country)} AND company_number BETWEEN {_text(first)} AND {_text(last)}"
        ranges.setdefault(portion, []).append(condition)
    return [f"({' OR '.join(each)})" for each in ranges.values()]


def _rows(values: Sequence[str]) -> str:
    return f"SELECT {', '.join(values)} FROM back_rows ORDER BY back_rows.line"


def _source(added: AddedColumn) -> str:
    if added is _UNREAD:
        return "CASE WHEN list_lines.reason LIKE 'number of fields%' THEN list_lines.given END"
    value = f"{added.relation}.{quoted(added.name)}"
    # A blank line stays blank, so that it is one again if the file is used as a list.
    return f"CASE WHEN list_lines.status <> 'blank' THEN {value} END" if added in line_columns() else value


def _name_added(added: Sequence[AddedColumn], own: Sequence[str]) -> dict[str, AddedColumn]:
    """Give each added column a name that no other column of the file has."""
    taken = {name.casefold() for name in own}
    named: dict[str, AddedColumn] = {}
    for each in added:
        names = chain(given_names(each), (f"{each.relation}_{each.name}{number}" for number in count(3)))
        name = next(name for name in names if name.casefold() not in taken)
        taken.add(name.casefold())
        named[name] = each
    return named


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
            if wanted.path.suffix.lower() == ".csv":
                beside = wanted.path.with_name(f"{wanted.path.name}.json")
                write_file(beside, lambda aside: aside.write_bytes(_completeness(back)))
            refused = connection.execute(f"SELECT count(*) FROM ({back.refused})").fetchall()[0][0]
        except duckdb.OutOfMemoryException as error:
            raise FirmlakeError(
                f"{wanted.path} was not written: DuckDB needs more memory than {memory_limit}",
                "Raise run.duckdb_memory, then write it with `firmlake list export`, which sends no request",
            ) from error
    renamed = {added.name: given for given, added in back.added.items() if given != added.name}
    return Written(wanted.path, back.line_count, renamed, back.earlier, cut, refused)


def _check_size(path: Path, line_count: int) -> None:
    if path.suffix.lower() == ".xlsx" and line_count > SHEET_ROWS:
        raise UsageError(
            f"--out {path}: the list has {line_count:,} lines, but a sheet holds only {SHEET_ROWS:,}",
            "Write .csv or .parquet, or divide the list",
        )


def _batches(connection: duckdb.DuckDBPyConnection, query: str) -> Iterator[pa.RecordBatch]:
    return iter(connection.sql(query).to_arrow_reader(_BATCH_ROWS))


def _schema(back: ListBack, schema: pa.Schema) -> pa.Schema:
    """Add the meaning of each added column as metadata, and whether the list is complete."""
    fields = [
        field.with_metadata({"comment": back.added[field.name].meaning}) if field.name in back.added else field
        for field in schema
    ]
    return pa.schema(fields, metadata={COMPLETENESS: _completeness(back)})


def _completeness(back: ListBack) -> bytes:
    return to_json(to_hand_on(back.completeness.incomplete), back.completeness.service)


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
    lines = _batches(connection, back.cell_query)
    return write_workbook(path, back.name, lines, kinds, meanings, refused, back.formats, back.completeness)


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


def write_csv(path: Path, batches: Iterable[pa.RecordBatch], delimiter: str) -> None:
    """Write CSV: UTF-8 with a byte order mark, text in quotes, null as an empty field.

    Without a byte order mark, spreadsheet programs read text in the code page of their country. Programs that separate
    fields by semicolons use a decimal comma, so numbers then have a decimal comma. Text is unchanged.

    Args:
        path: The file.
        batches: At least one, in the order of the lines.
        delimiter: The field separator.
    """
    with path.open("wb") as file:
        for batch in batches:
            cast("pl.DataFrame", pl.from_arrow(guarded(batch))).write_csv(
                file,
                include_bom=not file.tell(),
                include_header=not file.tell(),
                separator=delimiter,
                decimal_comma=delimiter == ";",
                quote_style="non_numeric",
            )
