"""Read a worksheet as a table: the named sheet, or the first visible one with company numbers."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.choice import UndecidedError, choose_columns
from firmlake.intake.columns import Synonyms, quoted_names
from firmlake.intake.detect import too_large
from firmlake.intake.header import describe_header, find_header, first_data_line
from firmlake.intake.sheets import HEAD_ROWS, Entry, Sheet, SheetDamagedError, SheetTooLargeError
from firmlake.intake.table import BATCH_ROWS, BLANK, KINDS, SAMPLE_ROWS, TextTable, field
from firmlake.intake.words import ERROR

_BLANK: Final = rf"^\s*$|{ERROR}"
"""A cell without information: formulas copied below the last line leave whole lines of errors."""

_COMPUTE: Final = "Open the list in a spreadsheet program, save it, and start again"


class _Reading(NamedTuple):
    """How to read the worksheets of one workbook."""

    path: Path
    options: IntakeSettings
    synonyms: Synonyms


def open_workbook(
    path: Path, options: IntakeSettings, synonyms: Synonyms, list_sheets: Callable[[], Sequence[Entry]]
) -> TextTable:
    """Open one worksheet; rows keep their numbers.

    Args:
        path: The workbook.
        options: `sheet` names the sheet; if empty, the first with company numbers is taken.
        synonyms: Known header names by role.
        list_sheets: Lists the worksheets.

    Raises:
        CompanyListError: The workbook is damaged or too large, has no such sheet, or the sheet is empty.
    """
    try:
        return _choose(_Reading(path, options, synonyms), list_sheets())
    except SheetDamagedError as error:
        if "is password protected" in str(error):
            raise CompanyListError(f"{path} is protected with a password", "Save it without a password") from error
        raise CompanyListError(
            f"{path} cannot be read as a workbook", "Open it in a spreadsheet and save it again as XLSX"
        ) from error
    except SheetTooLargeError as error:
        raise too_large(path, options.max_cells, "cells", "intake.max_cells") from error


def _choose(reading: _Reading, entries: Sequence[Entry]) -> TextTable:
    """Return the wanted sheet, or the first with the columns sought, or the first with any content.

    Raises:
        CompanyListError: An earlier sheet may hold the numbers too, or the sheet is missing or empty.
    """
    path, options, _ = reading
    wanted = [entry for entry in entries if (entry.name == options.sheet if options.sheet else entry.is_visible)]
    if options.sheet and not wanted:
        raise _no_sheet(path, options.sheet, [entry.name for entry in entries])
    refused: dict[str, CompanyListError] = {}
    filled: list[Entry] = []
    for number, entry in enumerate(wanted, 1):
        head = _open(reading, entry, HEAD_ROWS)
        if head is None:
            continue
        filled.append(entry)
        refusal = None if options.sheet else _refusal(reading, head)
        if refusal is not None:
            refused[entry.name] = refusal
            continue
        undecided = {name: error for name, error in refused.items() if isinstance(error, UndecidedError)}
        if undecided:
            raise _several(path, undecided, entry.name)
        later = [] if options.sheet else _with_numbers(reading, wanted[number:])
        return _described(_open(reading, entry) or head, entry.name, list(refused), later)
    table = _open(reading, filled[0]) if filled else None
    if table is None:
        raise _empty(path, options, [entry.name for entry in entries if not entry.is_visible])
    return table


def _refusal(reading: _Reading, table: TextTable) -> CompanyListError | None:
    try:
        choose_columns(reading.path, table, reading.options, reading.synonyms, {})
    except CompanyListError as error:
        return error
    return None


def _with_numbers(reading: _Reading, entries: Sequence[Entry]) -> list[str]:
    """Return the names of worksheets whose first rows hold company numbers, such as those of another country."""
    found = []
    for entry in entries:
        with suppress(CompanyListError, SheetDamagedError, SheetTooLargeError):
            table = _open(reading, entry, HEAD_ROWS)
            if table is not None and _refusal(reading, table) is None:
                found.append(entry.name)
    return found


def _described(table: TextTable, name: str, before: Sequence[str], later: Sequence[str]) -> TextTable:
    if not before and not later:
        return table
    has_none = [f"no company numbers in {quoted_names(before)}"] if before else []
    has_too = [f"company numbers in {quoted_names(later)} are not read"] if later else []
    guess = f"Worksheet {name!r} is read ({'; '.join(has_none + has_too)}); to choose another: --set intake.sheet=NAME"
    return replace(table, guesses=(guess, *table.guesses))


def _several(path: Path, undecided: Mapping[str, CompanyListError], decided: str) -> CompanyListError:
    first, error = next(iter(undecided.items()))
    reason = error.message.removeprefix(f"{path}: ")
    return CompanyListError(
        f"{path}: worksheet {decided!r} holds company numbers, and worksheet {first!r} may hold them too: {reason}",
        f"Name the right one: --set intake.sheet={shlex.quote(decided)}, or --set intake.sheet={shlex.quote(first)}; "
        f"for {first!r} also: {error.next_step}",
    )


def _no_sheet(path: Path, wanted: str, names: Sequence[str]) -> CompanyListError:
    nearest = get_close_matches(wanted, names, n=1, cutoff=0.5)
    hint = f"Did you mean {nearest[0]!r}?" if nearest else f"Its sheets are {quoted_names(names)}."
    return CompanyListError(f"{path} has no worksheet {wanted!r}", hint)


def _empty(path: Path, options: IntakeSettings, hidden: Sequence[str]) -> CompanyListError:
    hint = "Save the workbook again"
    if hidden:
        hint = f"To read a hidden worksheet, name it with --set intake.sheet=NAME: {quoted_names(hidden)}"
    empty = f"worksheet {options.sheet!r} is empty" if options.sheet else "all visible worksheets are empty"
    return CompanyListError(f"{path}: {empty}", hint)


def _open(reading: _Reading, entry: Entry, max_rows: int | None = None) -> TextTable | None:
    """Return one sheet, or its first rows, as a table; None if it is empty."""
    path, options, synonyms = reading
    sheet = entry.load(max_rows)
    cells = sheet.cells.rename({name: field(position) for position, name in enumerate(sheet.cells.columns)})
    is_blank = pl.all_horizontal(pl.lit(value=True), pl.all().fill_null("").str.contains(_BLANK))
    rows = cells.with_columns(sheet.kinds, is_blank=is_blank, line=pl.int_range(1, pl.len() + 1))
    first = rows.filter(~pl.col("is_blank")).head(SAMPLE_ROWS + 1)
    if not first.height or not cells.width:
        return None if sheet.is_whole else _open(reading, entry)
    lines = first["line"].to_list()
    sample = first.select(fields=pl.concat_list(pl.col(cells.columns).fill_null("")))["fields"]
    header = find_header(path, lines, sample.to_list(), options, synonyms)
    names = None if header.row is None else sample[header.row].to_list()
    data = rows.filter(pl.col("line") >= first_data_line(header, lines))
    table = TextTable(
        None if names is None else tuple(name.strip() for name in names),
        cells.width,
        first_data_line(header, lines) - 1,
        sample[header.data :].to_frame("fields"),
        partial(_batches, data),
        describe_header(header, lines, names),
        has_kinds=True,
        formats=sheet.formats,
    )
    return _with_formulas(path, table, sheet, data)


def _with_formulas(path: Path, table: TextTable, sheet: Sheet, data: pl.DataFrame) -> TextTable:
    """Name the columns with formulas without values; one that has no value at all cannot hold numbers.

    A program that is no spreadsheet writes formulas without their values. A spreadsheet computes them whenever it opens
    the file, so people see values that the file does not hold until they save it.
    """
    positions = sorted({n for row, n in sheet.find_formulas() if row > table.header_count and 0 <= n < table.width})
    if not positions:
        return table
    empty = [position for position in positions if data[field(position)].null_count() == data.height]
    shown = quoted_names([table.columns[position] for position in positions], 5)
    message = f"The file has formulas without their values, which are read as empty cells, in {shown}"
    return replace(
        table,
        guesses=(*table.guesses, f"{message}. {_COMPUTE}"),
        unusable=dict.fromkeys(empty, (f"{path}: {message[0].lower()}{message[1:]}", _COMPUTE)),
    )


def _batches(rows: pl.DataFrame, positions: Sequence[int]) -> Iterator[pl.DataFrame]:
    defect = pl.when("is_blank").then(pl.lit(BLANK))
    chosen = rows.select("line", KINDS, *map(field, positions), defect=defect, text=pl.lit(None, pl.String))
    return chosen.iter_slices(BATCH_ROWS)
