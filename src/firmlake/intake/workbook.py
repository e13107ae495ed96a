"""Read a worksheet as a table: the named sheet, or the first visible one with company numbers."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Final

import polars as pl

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.choice import choose_columns
from firmlake.intake.columns import Synonyms, quoted_names
from firmlake.intake.detect import too_large
from firmlake.intake.dimensions import measure_sheets
from firmlake.intake.formulas import find_uncomputed
from firmlake.intake.guess import UndecidedError
from firmlake.intake.header import describe_header, find_header, first_data_line
from firmlake.intake.number_formats import find_formats, sheet_head
from firmlake.intake.sheet import (
    Sheet,
    SheetDamagedError,
    SheetTooLargeError,
    load_guarded,
    load_sheets,
    sheet_names,
)
from firmlake.intake.table import BATCH_ROWS, BLANK, KINDS, SAMPLE_ROWS, TextTable, field
from firmlake.intake.words import ERROR

__all__ = ["open_workbook"]

_BLANK: Final = rf"^\s*$|{ERROR}"
"""A cell without information: formulas copied below the last line leave whole lines of errors."""

_COMPUTE: Final = "Open the list in a spreadsheet program, save it, and start again"


def open_workbook(path: Path, options: IntakeSettings, synonyms: Synonyms, *, is_xlsx: bool) -> TextTable:
    """Open one worksheet; rows keep their numbers.

    Args:
        path: The workbook.
        options: `sheet` names the sheet; if empty, the first with company numbers is taken.
        synonyms: Known header names by role.
        is_xlsx: Whether the file is XLSX, whose cells can be counted before they are loaded.

    Raises:
        CompanyListError: The workbook is damaged or too large, has no such sheet, or the sheet is empty.
    """
    try:
        return _choose(path, options, synonyms, _sheets(path, options, is_xlsx=is_xlsx))
    except SheetDamagedError as error:
        if "is password protected" in str(error):
            raise CompanyListError(f"{path} is protected with a password", "Save it without a password") from error
        raise CompanyListError(
            f"{path} cannot be read as a workbook", "Open it in a spreadsheet and save it again as XLSX"
        ) from error
    except SheetTooLargeError as error:
        raise too_large(path, options.max_cells, "cells", "intake.max_cells") from error


def _sheets(path: Path, options: IntakeSettings, *, is_xlsx: bool) -> Iterator[Sheet]:
    """Yield the worksheets, refusing any that needs more memory than the settings allow."""
    if not is_xlsx:
        yield from load_guarded(path, options.sheet, options.max_cells)
        return
    extents = measure_sheets(path)
    for name in [options.sheet] if options.sheet else list(extents):
        extent = extents.get(name)
        if extent is not None and extent.cell_count > options.max_cells:
            raise SheetTooLargeError(name)
        is_small = extent is not None and extent.is_small
        yield from load_sheets(path, name) if is_small else load_guarded(path, name, options.max_cells)


def _choose(path: Path, options: IntakeSettings, synonyms: Synonyms, sheets: Iterator[Sheet]) -> TextTable:
    """Return the wanted sheet, or the first with the columns sought, or the first with any content.

    Raises:
        CompanyListError: An earlier sheet may hold the numbers too, or the sheet is missing or empty.
    """
    tables: list[tuple[str, TextTable]] = []
    undecided: dict[str, UndecidedError] = {}
    seen: list[Sheet] = []
    for sheet in sheets:
        seen.append(sheet._replace(cells=pl.DataFrame()))
        if not (sheet.is_visible or options.sheet):
            continue
        table = _open(path, sheet, options, synonyms)
        if table is None:
            continue
        if options.sheet:
            return table
        tables.append((sheet.name, table))
        try:
            choose_columns(path, table, options, synonyms, {})
        except UndecidedError as error:
            undecided[sheet.name] = error
            continue
        except CompanyListError:
            continue
        if undecided:
            raise _several(path, undecided, sheet.name)
        later = _with_numbers(path, sheets, options, synonyms)
        return _described(table, sheet.name, [name for name, _ in tables[:-1]], later)
    if options.sheet and not seen:
        raise _no_sheet(path, options.sheet)
    if not tables:
        hidden = [sheet.name for sheet in seen if not sheet.is_visible]
        hint = "Save the workbook again"
        if hidden:
            hint = f"To read a hidden worksheet, name it with --set intake.sheet=NAME: {quoted_names(hidden)}"
        empty = f"worksheet {options.sheet!r} is empty" if options.sheet else "all visible worksheets are empty"
        raise CompanyListError(f"{path}: {empty}", hint)
    return tables[0][1]


def _with_numbers(path: Path, sheets: Iterator[Sheet], options: IntakeSettings, synonyms: Synonyms) -> list[str]:
    """Return the names of other visible worksheets with company numbers, such as those of another country."""
    found = []
    with suppress(SheetDamagedError, SheetTooLargeError):
        for sheet in sheets:
            with suppress(CompanyListError):
                table = _open(path, sheet, options, synonyms) if sheet.is_visible else None
                if table is not None:
                    choose_columns(path, table, options, synonyms, {})
                    found.append(sheet.name)
    return found


def _described(table: TextTable, name: str, before: Sequence[str], later: Sequence[str]) -> TextTable:
    if not before and not later:
        return table
    has_none = [f"no company numbers in {quoted_names(before)}"] if before else []
    has_too = [f"company numbers in {quoted_names(later)} are not read"] if later else []
    guess = f"Worksheet {name!r} is read ({'; '.join(has_none + has_too)}); to choose another: --set intake.sheet=NAME"
    return replace(table, guesses=(guess, *table.guesses))


def _several(path: Path, undecided: Mapping[str, UndecidedError], decided: str) -> CompanyListError:
    first, error = next(iter(undecided.items()))
    reason = error.message.removeprefix(f"{path}: ")
    return CompanyListError(
        f"{path}: worksheet {decided!r} holds company numbers, and worksheet {first!r} may hold them too: {reason}",
        f"Name the right one: --set intake.sheet={shlex.quote(decided)}, or --set intake.sheet={shlex.quote(first)}; "
        f"for {first!r} also: {error.next_step}",
    )


def _no_sheet(path: Path, wanted: str) -> CompanyListError:
    names = sheet_names(path)
    nearest = get_close_matches(wanted, names, n=1, cutoff=0.5)
    hint = f"Did you mean {nearest[0]!r}?" if nearest else f"Its sheets are {quoted_names(names)}."
    return CompanyListError(f"{path} has no worksheet {wanted!r}", hint)


def _open(path: Path, sheet: Sheet, options: IntakeSettings, synonyms: Synonyms) -> TextTable | None:
    """Return one sheet as a table; None if it is empty."""
    is_blank = pl.all_horizontal(pl.lit(value=True), pl.all().fill_null("").str.contains(_BLANK))
    texts = sheet.cells.rename({name: field(position) for position, name in enumerate(sheet.cells.columns)})
    rows = texts.with_columns(sheet.kinds, is_blank=is_blank, line=pl.int_range(1, pl.len() + 1))
    filled = rows.filter(~pl.col("is_blank"))
    if not filled.height or not texts.width:
        return None
    first = filled.head(SAMPLE_ROWS + 1)
    fields = first.select(fields=pl.concat_list(pl.col(texts.columns).fill_null("")))["fields"]
    lines, sample = first["line"].to_list(), fields.to_list()
    header = find_header(path, lines, sample, options, synonyms)
    names = None if header.row is None else sample[header.row]
    start = first_data_line(header, lines)
    data = rows.filter(pl.col("line") >= start)
    head = sheet_head(path, sheet.name)
    uncomputed = find_uncomputed(head, texts.width, start)
    empty = [position for position in uncomputed if data[field(position)].null_count() == data.height]
    table = TextTable(
        None if names is None else tuple(name.strip() for name in names),
        sheet.cells.width,
        start - 1,
        fields[header.data :].to_frame("fields"),
        partial(_batches, data),
        describe_header(header, lines, names),
        has_kinds=True,
        formats=find_formats(path, head, sheet.kinds, texts.width),
    )
    if not uncomputed:
        return table
    shown = quoted_names([table.columns[position] for position in uncomputed], 5)
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
