"""Read records of any shape: a value that does not fit affects neither its record nor the others.

Values of one field are read together. Unknown keys, and every value that does not fit, go into `extra_json` as
received.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import polars as pl
from msgspec import Raw

from firmlake.tables.apart import take_apart
from firmlake.tables.cells import DECIMALS, MisfitError, moved, plain, read_cell
from firmlake.tables.columns import TEXTS, read_plain
from firmlake.tables.leaves import Leaf
from firmlake.tables.notes import NOT_THERE, Notes, Records
from firmlake.tables.number_texts import number_in
from firmlake.tables.objects import Shape
from firmlake.tables.schemas import KIND_TYPES

__all__ = ["read_tolerantly"]

_DIGITS = re.compile(rb"[0-9]+")


def read_tolerantly(shape: Shape, raws: Sequence[Raw], start: int) -> Records:
    """Read records, each valid JSON.

    Args:
        shape: The shape of their group.
        raws: The records, at least one.
        start: Index of the first.
    """
    cells, notes = take_apart(shape, raws, start)
    read = read_plain(cells)
    for leaf, values in cells.items():
        if leaf.name not in read:
            read[leaf.name] = _read_field(leaf, values, notes)
        for number in read[leaf.name].is_null().arg_true() if leaf.required else ():
            notes.reject(number, leaf.path, None, NOT_THERE, "record")
    return notes.records([read[leaf.name] for leaf in shape.leaves], len(raws))


# ---------------------------------------------------------------------------------------------------------------------


def _read_field(leaf: Leaf, cells: Sequence[Raw], notes: Notes) -> pl.Series:
    """Read the values of a field that are not all plain: as they were meant, or else one by one."""
    meant = _as_meant(leaf, cells, notes)
    if meant is not cells and (read := read_plain({leaf: meant})):
        return read[leaf.name]
    values = [_read_cell(number, leaf, *both, notes) for number, both in enumerate(zip(meant, cells, strict=True))]
    return pl.Series(leaf.name, values, KIND_TYPES[leaf.kind])


def _as_meant(leaf: Leaf, cells: Sequence[Raw], notes: Notes) -> Sequence[Raw]:
    """Read the numbers in strings, and add quotes to company numbers written as integers."""
    if leaf.kind in TEXTS and not leaf.is_company_number:
        return cells
    meant = [*cells]
    seen: dict[str, list[int]] = {}
    for number, cell in enumerate(cells):
        if found := _meaning(leaf, bytes(cell)):
            kind, json = found
            seen.setdefault(kind, []).append(number)
            meant[number] = Raw(json)
    for kind, numbers in seen.items():
        notes.observe(kind, leaf.path, cells[numbers[0]], numbers[0], len(numbers))
    return meant if seen else cells


def _meaning(leaf: Leaf, cell: bytes) -> tuple[str, bytes] | None:
    """Return the JSON that was meant, with the kind of the difference, if a value is of another type but clear."""
    if leaf.is_company_number:
        return ("number_for_text", b'"%b"' % cell) if _DIGITS.fullmatch(cell) else None
    if cell == b'""':
        return "empty_text", b"null"
    number = None if leaf.kind == "date" or cell[:1] != b'"' else number_in(cell, leaf.kind, leaf.marks)
    return ("text_for_number", number) if number else None


def _read_cell(number: int, leaf: Leaf, cell: Raw, received: Raw, notes: Notes) -> Any:
    try:
        value = read_cell(leaf, cell)
    except MisfitError as misfit:
        notes.discard(number, leaf.path, received, str(misfit), leaf.mode)
        return None
    if value is not None and leaf.kind in DECIMALS and value != (exact := moved(bytes(cell), leaf.shift)):
        notes.observe("rounded_value", leaf.path, plain(exact).encode(), number)
    return value
