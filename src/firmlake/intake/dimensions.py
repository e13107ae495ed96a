"""Measure how much memory the worksheets of an XLSX file need, before any is loaded.

A reader allocates the rectangle that encloses all cells, so a single cell at XFD1048576 takes 549 GB. The dimensions
that a sheet declares cannot be trusted, so the cells themselves are scanned.
"""

from __future__ import annotations

import html
import re
import zipfile
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["attribute", "column_number", "measure_sheets", "read_head", "sheet_parts"]

_CHUNK_BYTES: Final = 4 * 2**20
_MAX_INDEX_BYTES: Final = 16 * 2**20
_CELL: Final = re.compile(rb"<(?:\w+:)?c[\s/>]")
_PLACE: Final = re.compile(rb"""\sr\s*=\s*["']([A-Za-z]+)([0-9]+)""")
_SHEET: Final = re.compile(r"<(?:\w+:)?sheet\s[^<>]*>")
_RELATION: Final = re.compile(r"<(?:\w+:)?Relationship\s[^<>]*>")
_STRINGS: Final = "xl/sharedStrings.xml"


class Extent(NamedTuple):
    """The size of one worksheet.

    Attributes:
        cell_count: Cells of the rectangle from the first cell of the sheet to the last.
        is_small: Whether it can be loaded safely without a memory limit.
    """

    cell_count: int
    is_small: bool


_SMALL_BYTES: Final = 16 * 2**20
_SMALL_CELLS: Final = 2_000_000
_SMALL_TEXT_BYTES: Final = 512 * 2**20


def measure_sheets(path: Path) -> dict[str, Extent]:
    """Return the extent of each worksheet of an XLSX file, by name.

    Raises:
        zipfile.BadZipFile: The file changed since its format was detected.
    """
    with zipfile.ZipFile(path) as archive:
        parts = {part.filename: part.file_size for part in archive.infolist()}
        strings = parts.get(_STRINGS, 0)
        return {name: _measure(archive, part, strings) for name, part in sheet_parts(archive).items() if part in parts}


def _measure(archive: zipfile.ZipFile, part: str, string_bytes: int) -> Extent:
    last_row = last_column = cell_count = place_count = byte_count = 0
    for chunk in _chunks(archive, part):
        places = _PLACE.findall(chunk)
        byte_count += len(chunk)
        cell_count += len(_CELL.findall(chunk))
        place_count += len(places)
        last_column = max([last_column, *map(column_number, {letters for letters, _ in places})])
        last_row = max([last_row, *map(int, {row[:9] for _, row in places})])
    longest_text = min(string_bytes, max(cell_count, 1) * string_bytes)
    is_small = byte_count <= _SMALL_BYTES and string_bytes <= _SMALL_BYTES and place_count == cell_count
    is_small &= last_row * last_column <= _SMALL_CELLS and cell_count * longest_text <= _SMALL_TEXT_BYTES
    return Extent(last_row * last_column, is_small)


def column_number(letters: bytes) -> int:
    """Return the number of a column from its letters: `A` is 1, `XFD` is 16,384."""
    return reduce(lambda number, letter: number * 26 + letter - 64, letters.upper()[:6], 0)


def _chunks(archive: zipfile.ZipFile, part: str) -> Iterator[bytes]:
    """Yield a part in pieces that end before a tag."""
    rest = b""
    with archive.open(part) as file:
        while block := file.read(_CHUNK_BYTES):
            whole, mark, tail = (rest + block).rpartition(b"<")
            if len(tail) > _CHUNK_BYTES:  # a very long text, or no XML
                whole, mark, tail = rest + block, b"", b""
            if whole:
                yield whole
            rest = mark + tail
    yield rest


def sheet_parts(archive: zipfile.ZipFile) -> dict[str, str]:
    """Return the part of each worksheet, by name, from the workbook's index; none if the file is not XLSX."""
    book = read_head(archive, "xl/workbook.xml")
    relations = {
        attribute(tag, "Id"): attribute(tag, "Target").lstrip("/").removeprefix("xl/")
        for tag in _RELATION.findall(read_head(archive, "xl/_rels/workbook.xml.rels"))
    }
    return {
        html.unescape(attribute(tag, "name")): "xl/" + relations.get(attribute(tag, r"\w+:id"), "?")
        for tag in _SHEET.findall(book)
    }


def read_head(archive: zipfile.ZipFile, part: str, max_bytes: int = _MAX_INDEX_BYTES) -> str:
    """Return the first bytes of a part as text; empty if there is no such part."""
    try:
        with archive.open(part) as file:
            return file.read(max_bytes).decode(errors="replace")
    except KeyError:
        return ""


def attribute(tag: str, name: str) -> str:
    """Return the value of an attribute of a tag as written; empty if the tag has no such attribute."""
    found = re.search(rf"""(?:^|\s){name}\s*=\s*(["'])(.*?)\1""", tag)
    return found[2] if found else ""
