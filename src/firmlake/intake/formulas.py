"""Find the formulas of an XLSX sheet whose values are missing.

A program that is no spreadsheet writes formulas without their values. A spreadsheet computes them whenever it opens
the file, so people see values that the file does not hold until they save it.
"""

from __future__ import annotations

import re
from typing import Final

from firmlake.intake.number_formats import column_positions

__all__ = ["find_uncomputed"]

_UNCOMPUTED: Final = re.compile(
    r"<c\s([^<>]*[^<>/])>\s*<f\b(?:[^<>]*/>|[^<>]*>[^<>]*</f>)\s*(?:<v\s*/>|<v>\s*</v>)?\s*</c>"
)
_PLACE: Final = re.compile(r"""(?:^|\s)r=["']([A-Z]{1,3})([0-9]{1,7})["']""")
_TEXT: Final = re.compile(r"""(?:^|\s)t=["']str["']""")
"""A formula whose value is a text, which may be empty."""


def find_uncomputed(head: str, width: int, start: int) -> tuple[int, ...]:
    """Return the positions of the columns with such formulas, from the first rows of a sheet.

    Args:
        head: The `sheet_head` of the sheet.
        width: Number of its columns.
        start: The first row that counts, from 1.
    """
    tags = [tag for tag in _UNCOMPUTED.findall(head) if not _TEXT.search(tag)]
    places = [found for tag in tags if (found := _PLACE.search(tag)) and int(found[2]) >= start]
    if not places:
        return ()
    positions = column_positions(head, width)
    return tuple(sorted({positions[found[1]] for found in places if found[1] in positions}))
