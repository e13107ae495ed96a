"""Find the formats in which an XLSX sheet shows its numbers and dates, which the reader of its cells omits."""

from __future__ import annotations

import html
import re
import zipfile
from collections import Counter
from pathlib import Path
from typing import Final

import polars as pl

from firmlake.intake.dimensions import attribute, column_number, read_head, sheet_parts
from firmlake.intake.table import Formats

__all__ = ["column_positions", "find_formats", "sheet_head"]

_FIRST_CODE: Final = 164
"""The first number of a format that is not built in."""

_NONE: Final = (0, "", "General")
_SAMPLE_BYTES: Final = 2**20
_CELL: Final = re.compile(r"<c\s([^<>]*[^<>/])>")
"""A cell with content. The match stops at `<`, which no tag contains: a comment may hold a million `<c `."""

_PLACE: Final = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")
_CODE: Final = re.compile(r"<numFmt\s[^<>]*>")
_BUILT_IN: Final = re.compile(r"[0-9]{1,3}")
_STYLE: Final = re.compile(r"<xf\s[^<>]*>")


def find_formats(path: Path, head: str, kinds: pl.Series, width: int) -> dict[int, Formats]:
    """Return the most frequent number formats of the columns of a sheet, from its first rows.

    Args:
        path: The workbook.
        head: The `sheet_head` of the sheet.
        kinds: Letters of its cells, as in `TextTable.has_kinds`, by row.
        width: Number of its columns.

    Returns:
        Formats by column position, without columns that have no format of their own. Empty if the first rows do not
        show which column comes first.
    """
    columns = column_positions(head, width)
    if not columns:
        return {}
    with zipfile.ZipFile(path) as archive:
        styles = _styles(read_head(archive, "xl/styles.xml"))
    cells = [(found, tag) for tag in _CELL.findall(head) if (found := _PLACE.fullmatch(attribute(tag, "r")))]
    letters_of = kinds.head(max(int(found[2]) for found, _ in cells)).to_list()
    seen: Counter[tuple[int, str, str]] = Counter()
    for found, tag in cells:
        row, position = int(found[2]), columns[found[1]]
        if row <= len(letters_of) and letters_of[row - 1][position] in "nd":
            seen[position, letters_of[row - 1][position], attribute(tag, "s")] += 1
    formats: dict[int, Formats] = {}
    for (position, letter, style), _ in reversed(seen.most_common()):
        formats.setdefault(position, {})[letter] = styles.get(style, 0)
    named = {n: {letter: code for letter, code in each.items() if code not in _NONE} for n, each in formats.items()}
    return {n: each for n, each in sorted(named.items()) if each}


def sheet_head(path: Path, name: str) -> str:
    """Return the first bytes of a sheet; empty if the workbook is not XLSX."""
    try:
        with zipfile.ZipFile(path) as archive:
            return read_head(archive, sheet_parts(archive).get(name, "?"), _SAMPLE_BYTES)
    except zipfile.BadZipFile:
        return ""


def column_positions(head: str, width: int) -> dict[str, int]:
    """Return the position of each column by its letters; none if the first bytes do not show all columns."""
    places = (_PLACE.fullmatch(attribute(tag, "r")) for tag in _CELL.findall(head))
    numbers = {found[1]: column_number(found[1].encode()) for found in places if found}
    first = min(numbers.values(), default=0)
    if not numbers or max(numbers.values()) - first + 1 != width:
        return {}
    return {letters: number - first for letters, number in numbers.items()}


def _styles(text: str) -> dict[str, str | int]:
    """Return the number format of each cell style, by the number of the style."""
    codes = {attribute(tag, "numFmtId"): html.unescape(attribute(tag, "formatCode")) for tag in _CODE.findall(text)}
    styles = text.partition("<cellXfs")[2].partition("</cellXfs>")[0]
    numbers = [attribute(tag, "numFmtId") for tag in _STYLE.findall(styles)]
    built_in = {each: int(each) for each in numbers if _BUILT_IN.fullmatch(each) and int(each) < _FIRST_CODE}
    known = built_in | codes
    return {str(n): known.get(each, 0) for n, each in enumerate(numbers)}
