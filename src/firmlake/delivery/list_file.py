"""Write a company list back: every line once, in order, with its own columns and the data of its company.

The result can be the list of the next run: columns that an earlier `--out` added are found and replaced.
"""

# ruff: noqa: S608 - statements are put together from our own names and quoted ones

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import cache, partial
from itertools import chain, count
from pathlib import Path
from typing import Final, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from firmlake.core.company import COUNTRIES
from firmlake.core.errors import DamagedError, FirmlakeError, UsageError
from firmlake.core.files import write_file
from firmlake.core.folders import Folders
from firmlake.core.formulas import RISKY, unguard
from firmlake.core.sql import quote_name, quote_text, read_queries
from firmlake.delivery.files import write_rows
from firmlake.delivery.list_workbook import SHEET_ROWS, SheetColumn, write_workbook
from firmlake.intake.lines import ListColumns, read_columns
from firmlake.landing.run import open_run
from firmlake.tables.schemas import WAREHOUSE_TABLES
from firmlake.warehouse.generations import open_warehouse
from firmlake.warehouse.incomplete import (
    COMPLETENESS,
    Completeness,
    describe_service,
    read_incomplete,
)
from firmlake.warehouse.list_names import NamedList, find_named_list
from firmlake.warehouse.schema import create_tables
from firmlake.warehouse.views import create_views, definitions, describe_columns, is_of_companies

_SQL = read_queries(__file__)

DEFAULT: Final = "company_figures"
"""The view whose columns are added by default."""
LINE_COLUMNS: Final = {"status": "VARCHAR", "reason": "VARCHAR", "company": "VARCHAR", "line": "BIGINT"}
"""The columns that are always added, from the view `list_lines`: the status of the line, the reason, the company, and
the number of the line in the file that was read. With titles above the header, its row in the new file differs."""

_KEY: Final = ("country", "company_number")
_EARLIER_VALUES: Final = {
    "status": "enriched|not found|failed|waiting|not asked|repeated|refused|blank",
    "company": f"({'|'.join(COUNTRIES)}) [0-9]+",
}
"""The values of columns that are always added. No other list is likely to have both columns with such values."""
_PORTION: Final = 32_768
"""Companies whose data is gathered at once."""
_BATCH_ROWS: Final = 2_048
"""Lines that are written at a time. With 10,000, a CSV of a million lines takes 60 MB more."""
_ROW_GROUP: Final = 10_000
"""Lines per row group of a Parquet file: each batch becomes a group."""


class FileBack(NamedTuple):
    """A file that a list is to be written to. Its extension sets the format; `choose_added` reads `columns`."""

    path: Path
    columns: tuple[str, ...] = ()


class Written(NamedTuple):
    """A written file.

    Attributes:
        renamed: Added columns that have another name in the file, because the list has a column of the same name.
        replaced: Columns of the list that an earlier `--out` added and that the new columns replace.
        refused_count: Lines of the list that were refused.
    """

    path: Path
    line_count: int
    renamed: dict[str, str]
    replaced: tuple[str, ...] = ()
    refused_count: int = 0


class AddedColumn(NamedTuple):
    """A column to add, with its view and its type as DuckDB spells it."""

    relation: str
    name: str
    type: str
    meaning: str

    @property
    def full_name(self) -> str:
        """The name of the view and the column, which is unique."""
        return f"{self.relation}.{self.name}"

    @property
    def names(self) -> tuple[str, str, str]:
        """The possible names in a file; the column gets the first that no column of the list has."""
        return self.name, f"firmlake_{self.name}", f"{self.relation}_{self.name}"


_UNREAD: Final = AddedColumn(
    "list_lines", "unread_line", "VARCHAR", "The line as it stands, if it cannot be divided into fields"
)


@cache
def list_added() -> tuple[AddedColumn, ...]:
    """List every column that can be added, by view, starting with the default view."""
    views = (definition for definition in definitions() if is_of_companies(definition))
    tables = (table for table in WAREHOUSE_TABLES.values() if table.key == _KEY)
    with duckdb.connect() as connection:
        create_tables(connection)
        create_views(connection)
        described = describe_columns(connection, [*views, *tables])
    found = (
        AddedColumn(relation, name, *described_as)
        for relation, columns in described.items()
        for name, described_as in columns.items()
        if name not in _KEY
    )
    return tuple(sorted(found, key=lambda each: (each.relation != DEFAULT, each.relation)))


@cache
def line_columns() -> tuple[AddedColumn, ...]:
    """Return the columns that are always added."""
    meanings = next(each.columns for each in definitions() if each.name == "list_lines")
    return tuple(AddedColumn("list_lines", name, kind, meanings[name]) for name, kind in LINE_COLUMNS.items())


def choose_added(names: Sequence[str]) -> tuple[AddedColumn, ...]:
    """Choose the columns to add; UsageError, which names similar ones, if there is no such column.

    Each name is a column (`revenue`), a column of a view (`portfolio.revenue`), all columns of a view (`portfolio.*`)
    or `default`. No names mean `default`.
    """
    wanted = [name.strip() for name in names or ["default"]]
    chosen = [each for name in wanted if name not in LINE_COLUMNS for each in _find(name)]  # those are always added
    return tuple(dict.fromkeys(chosen))


def check_file_back(wanted: FileBack, company_list: Path | None = None, line_count: int = 0) -> None:
    """Check that a list can be written to a file, before anything is fetched for it."""
    path = wanted.path
    if path.suffix.lower() not in _WRITERS:
        raise UsageError(
            f"--out {path}: a list cannot be written as {path.suffix or 'a file without an extension'}",
            f"Use one of the extensions {', '.join(_WRITERS)}; spreadsheet programs open .xlsx",
        )
    folder = path.absolute().parent
    if path.is_dir() or not os.access(folder, os.W_OK):
        why = f"you may not write to {folder}" if folder.is_dir() else f"there is no folder {folder}"
        what = "is a folder" if path.is_dir() else f"cannot be written: {why}"
        raise UsageError(f"--out {path} {what}", "Name a file in a folder that you can write to")
    if company_list is not None and path.exists() and company_list.exists() and path.samefile(company_list):
        raise UsageError(f"--out {path} would overwrite the list itself", "Name another file")
    choose_added(wanted.columns)
    if path.suffix.lower() == ".xlsx" and line_count > SHEET_ROWS:
        raise UsageError(
            f"--out {path}: the list has {line_count:,} lines, but a sheet holds only {SHEET_ROWS:,}",
            "Write .csv or .parquet, or divide the list",
        )


def write_list(folders: Folders, name: str, wanted: FileBack, memory_limit: str) -> Written:
    """Write the newest version of a list, with the data of its companies in the newest generation, whole or not at all.

    Raises UsageError if there is no such list, or it does not fit into the file.
    """
    path = wanted.path
    with open_warehouse(folders) as connection:
        # With a second thread, a list of a million lines does not fit into the default limit.
        connection.execute(f"SET memory_limit = '{memory_limit}'; SET threads = 1")
        listed = find_named_list(connection, name)
        check_file_back(wanted, line_count=listed.line_count)
        try:
            back = _gather(connection, folders, listed, choose_added(wanted.columns))
            write_file(path, partial(_WRITERS[path.suffix.lower()], back))
            if path.suffix.lower() == ".csv":
                beside = path.with_name(f"{path.name}.json")
                write_file(beside, lambda aside: aside.write_bytes(back.completeness.as_json() + b"\n"))
        except duckdb.OutOfMemoryException as error:
            raise FirmlakeError(
                f"{path} was not written: DuckDB needs more memory than {memory_limit}",
                "Raise run.duckdb_memory, then write it with `firmlake list export`, which sends no request",
            ) from error
    renamed = {added.name: given for given, added in back.added.items() if given != added.name}
    return Written(path, listed.line_count, renamed, back.earlier, back.completeness.refused_line_count)


def _find(name: str) -> list[AddedColumn]:
    known = list_added()
    if name == "default":
        return [each for each in known if each.relation == DEFAULT]
    found = [each for each in known if name in (each.full_name, f"{each.relation}.*")]
    # If several views have the name, the default view wins. If it is not among them, the view must be named too.
    found = found or [each for each in known if each.name == name]
    if len(found) > 1 and not name.endswith(".*"):
        if found[0].relation == DEFAULT:
            return found[:1]
        raise UsageError(
            f"--columns {name}: several views have this column", f"Use {' or '.join(each.full_name for each in found)}"
        )
    if not found:
        names = [*dict.fromkeys(each.name for each in known), *(each.full_name for each in known)]
        names += [f"{relation}.*" for relation in dict.fromkeys(each.relation for each in known)]
        near = get_close_matches(name, names, n=3, cutoff=0.7)
        hint = f"Did you mean {', '.join(near)}? " if near else ""
        raise UsageError(f"--columns {name}: there is no such column", f"{hint}`--columns help` lists all")
    return found


class _Back(NamedTuple):
    """A list gathered for a file, in temporary tables: `back_lines`, and `back_rows` with the values in v0, v1...

    Attributes:
        own: The columns of the list itself, in their order.
        earlier: Columns of the list that an earlier `--out` added; `added` replaces them.
        added: The added columns, by their name in the file.
        read: What is known of the columns of the list.
    """

    connection: duckdb.DuckDBPyConnection
    name: str
    own: tuple[str, ...]
    earlier: tuple[str, ...]
    added: dict[str, AddedColumn]
    read: ListColumns
    completeness: Completeness

    def rows(self, batch_rows: int, types: Mapping[str, str] = {}, *more: str) -> pa.RecordBatchReader:
        """Read one row for each line, in order: own columns as text or as `types`, then the added ones, then `more`."""
        values = [f"v{n} AS {quote_name(name)}" for n, name in enumerate((*self.own, *self.added))]
        for n, name in enumerate(self.own):
            if name in types:  # a year beyond 9999 has a sign, which DuckDB does not read
                values[n] = f"TRY_CAST(ltrim(v{n}, '+') AS {types[name]}) AS {quote_name(name)}"
        query = f"SELECT {', '.join([*values, *more])} FROM back_rows ORDER BY back_rows.line"
        return self.connection.sql(query).to_arrow_reader(batch_rows)


def _gather(
    connection: duckdb.DuckDBPyConnection, folders: Folders, listed: NamedList, chosen: Sequence[AddedColumn]
) -> _Back:
    """Gather the newest version of a list in temporary tables of a connection, a generation."""
    stored = None
    with suppress(DamagedError):  # without the stored list, its cells are texts
        stored = open_run(folders, listed.run_id).checked("list")
    read = read_columns(stored) if stored else ListColumns()
    kinds = f"read_parquet({quote_text(stored)})" if stored else "(SELECT NULL::BIGINT AS line, NULL::VARCHAR AS kinds)"
    connection.execute(_SQL["lines"].format(kinds=kinds, name=quote_text(listed.name)))
    # Paths are JSON pointers, so that names may hold any character.
    paths = {each: "/" + each.replace("~", "~0").replace("/", "~1") for each in json.loads(listed.column_names)}
    earlier = _find_earlier(connection, paths)
    own = tuple(each for each in paths if each not in earlier)
    ((has_unread, refused_count),) = connection.execute(_SQL["found"]).fetchall()
    added = _name_added((*line_columns(), *([_UNREAD] * has_unread), *chosen), own)
    cell = _UNGUARDED if earlier and read.delimiter else "cells[{}]"
    values = [cell.format(n) for n in range(1, len(own) + 1)] + [_source(each) for each in added.values()]
    letters = ", ".join(f"kinds[{n}]" for n, each in enumerate(paths, 1) if each in own)
    # One call extracts all cells of a line.
    cells = f"json_extract_string(columns, [{', '.join(quote_text(paths[each]) for each in own)}])"
    lines = f"SELECT *, concat({letters or 'NULL'}) AS letters, {cells if own else '[]'} AS cells FROM back_lines"
    _fill_rows(connection, lines, dict.fromkeys(each.relation for each in chosen), values)
    completeness = Completeness(read_incomplete(connection, listed.name), refused_count, describe_service(connection))
    if earlier and read.delimiter:
        own = tuple(map(unguard, own))
    return _Back(connection, listed.name, own, earlier, added, read, completeness)


_UNGUARDED: Final = "regexp_replace(cells[{}], " + quote_text("^'(" + RISKY.removeprefix("^") + ")") + r", '\1')"
"""A cell of a CSV file that an earlier `--out` wrote, without the apostrophe that guards it."""


def _find_earlier(connection: duckdb.DuckDBPyConnection, paths: Mapping[str, str]) -> tuple[str, ...]:
    """Find the columns of a list, given by their JSON pointers in order, that an earlier `--out` added.

    There are such columns if one is named like our `status`, another like our `company`, and both hold only the values
    of ours. Columns to the left of both are the list's own, and so are columns with other names than ours.
    """
    names = {name: added.name for added in (*line_columns(), *list_added()) for name in added.names}
    found = list[int]()
    for ours, values in _EARLIER_VALUES.items():
        named = [n for n, column in enumerate(paths) if names.get(column) == ours]
        fits = [n for n in named if connection.execute(_SQL["has_values"], [values, [*paths.values()][n]]).fetchone()]
        if not fits:
            return ()
        found.append(fits[-1])
    return tuple(column for column in [*paths][min(found) :] if column in names)


def _source(added: AddedColumn) -> str:
    if added is _UNREAD:
        return "if(list_lines.kinds = '', list_lines.given, NULL)"
    return f"{added.relation}.{quote_name(added.name)}"


def _name_added(added: Sequence[AddedColumn], own: Sequence[str]) -> dict[str, AddedColumn]:
    """Give each added column a name that no other column of the file has."""
    taken = {name.casefold() for name in own}
    named: dict[str, AddedColumn] = {}
    for each in added:
        names = chain(each.names, (f"{each.names[-1]}{number}" for number in count(3)))
        name = next(name for name in names if name.casefold() not in taken)
        taken.add(name.casefold())
        named[name] = each
    return named


def _fill_rows(
    connection: duckdb.DuckDBPyConnection, lines: str, relations: Iterable[str], values: Sequence[str]
) -> None:
    """Gather the values of all lines in `back_rows`, one portion of the companies at a time.

    The conditions of a portion are constants, so that DuckDB skips other rows.
    """
    named = ", ".join(f"{value} AS v{n}" for n, value in enumerate(values))
    with suppress(duckdb.CatalogException):  # an earlier version of firmlake made the generation
        connection.execute(_SQL["owners"])
    portions = connection.execute(_SQL["portions"], [_PORTION]).fetchall()
    make = "CREATE TEMP TABLE back_rows AS"
    for (portion,) in [("company_number IS NULL",), *portions]:
        joins = " ".join(
            f"LEFT JOIN (FROM {each} WHERE {portion}) {each} USING (country, company_number)" for each in relations
        )
        connection.execute(f"{make} SELECT line, letters, {named} FROM ({lines} WHERE {portion}) list_lines {joins}")
        make = "INSERT INTO back_rows"


def _write_csv(back: _Back, path: Path) -> None:
    with path.open("wb") as file:
        write_rows(file, back.rows(_BATCH_ROWS), back.read.delimiter or ",")


def _write_parquet(back: _Back, path: Path) -> None:
    """Write the meaning of each added column and whether the list is complete as metadata."""
    reader = back.rows(_ROW_GROUP, back.read.types)
    fields = [
        field.with_metadata({"comment": back.added[field.name].meaning}) if field.name in back.added else field
        for field in reader.schema
    ]
    schema = pa.schema(fields, metadata={COMPLETENESS: back.completeness.as_json()})
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in reader:
            writer.write_batch(batch.cast(schema))


def _write_xlsx(back: _Back, path: Path) -> None:
    own = [SheetColumn(name, formats=back.read.formats.get(name, {})) for name in back.own]
    added = [SheetColumn(name, each.type, {}, each.full_name, each.meaning) for name, each in back.added.items()]
    refused = back.connection.execute(_SQL["refused"]).fetchall()
    rows = back.rows(_BATCH_ROWS, {}, "letters")
    write_workbook(path, back.name, [*own, *added], rows, refused, back.completeness)


_WRITERS: dict[str, Callable[[_Back, Path], None]] = {
    ".csv": _write_csv,
    ".parquet": _write_parquet,
    ".xlsx": _write_xlsx,
}
