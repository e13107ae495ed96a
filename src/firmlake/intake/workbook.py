"""XLSX worksheets as a table; a cell is what it shows as text, and a number is all its digits, up to 15.

A number has no more than 15 of them in a spreadsheet: the others are rounded away when it is typed or saved. It is
given as a spreadsheet shows it (1.23456789012346E+18), which nobody takes for an identifier.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Final

import fastexcel
import polars as pl

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.columns import Synonyms, quoted_names
from firmlake.intake.header import is_header
from firmlake.intake.table import BATCH_ROWS, BLANK, SAMPLE_ROWS, Table, field

__all__ = ["open_workbook"]

_DIGITS_MAX: Final = 15
_SHOWN: Final = "{:.14E}"


def open_workbook(path: Path, options: IntakeSettings, synonyms: Synonyms) -> Table:
    """Open one worksheet; rows keep the numbers they have in it.

    Raises:
        CompanyListError: The workbook is damaged, has no such sheet, or the sheet is empty.
    """
    rows = _read_sheet(path, options.sheet)
    filled = rows.filter(~pl.col("is_blank"))
    if not filled.height:
        raise CompanyListError(f"{path} is empty: its worksheet holds nothing", "Name another one in intake.sheet")
    sample = filled.head(SAMPLE_ROWS + 1).select(fields=pl.concat_list(pl.exclude("line", "is_blank").fill_null("")))
    first: list[str] = sample["fields"][0].to_list()
    if not is_header(first, options.header, synonyms):
        return Table(None, len(first), 0, sample, partial(_batches, rows))
    data = rows.filter(pl.col("line") != filled["line"][0])
    return Table(tuple(name.strip() for name in first), len(first), 1, sample[1:], partial(_batches, data))


def _read_sheet(path: Path, sheet: str) -> pl.DataFrame:
    """Give all rows as text, with their numbers in the sheet and whether they hold nothing."""
    try:
        workbook = fastexcel.read_excel(path)
        if sheet and sheet not in workbook.sheet_names:
            nearest = get_close_matches(sheet, workbook.sheet_names, n=1, cutoff=0.5)
            hint = (
                f"Did you mean {nearest[0]!r}?" if nearest else f"Its sheets are {quoted_names(workbook.sheet_names)}."
            )
            raise CompanyListError(f"{path} has no worksheet {sheet!r}", hint)
        # Counted from the top of the sheet, whatever rows are empty.
        load = partial(workbook.load_sheet, sheet or 0, header_row=None, skip_rows=0)
        cells = load(dtypes="string").to_polars()
        digits = pl.all().str.count_matches("[0-9]") > _DIGITS_MAX
        if cells.select(pl.any_horizontal(digits.any())).item():
            cells = _round(cells, load(dtypes="boolean").to_polars())  # of text there is none
    except fastexcel.FastExcelError as error:
        raise CompanyListError(
            f"{path} cannot be read as XLSX", "Open it in a spreadsheet and save it again"
        ) from error
    is_blank = pl.all_horizontal(pl.lit(value=True), pl.all().fill_null("").str.strip_chars() == "")
    texts = cells.rename({name: field(position) for position, name in enumerate(cells.columns)})
    return texts.with_columns(is_blank=is_blank, line=pl.int_range(1, pl.len() + 1))


def _round(cells: pl.DataFrame, booleans: pl.DataFrame) -> pl.DataFrame:
    """Write numbers with more digits than a spreadsheet holds as it shows them; text of digits stays."""
    for text in cells:
        number = text.to_frame("text").select(
            pl.when(pl.lit(booleans[text.name].is_not_null()) & (text.str.count_matches("[0-9]") > _DIGITS_MAX))
            .then(pl.col("text").cast(pl.Float64, strict=False).map_elements(_SHOWN.format, pl.String))
            .otherwise("text")
            .alias(text.name)
        )
        cells = cells.with_columns(number)
    return cells


def _batches(rows: pl.DataFrame, positions: Sequence[int]) -> Iterator[pl.DataFrame]:
    defect = pl.when("is_blank").then(pl.lit(BLANK))
    chosen = rows.select("line", *map(field, positions), defect=defect, text=pl.lit(None, pl.String))
    return chosen.iter_slices(BATCH_ROWS)
