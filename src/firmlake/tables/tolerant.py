"""Read records of any shape: a value that does not fit affects neither its record nor the others.

Values of one kind are read together by `columns.py`; what it leaves is read here by the exact rule. Unknown keys, and
every value that does not fit, go into `extra_json` as received.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import polars as pl
from msgspec import Raw

from firmlake.core.reasons import Reason, make_reason
from firmlake.tables.apart import take_apart
from firmlake.tables.cells import DECIMALS, MisfitError, moved, plain, read_cell
from firmlake.tables.columns import TEXTS, ReadColumn, read_columns
from firmlake.tables.leaves import Leaf
from firmlake.tables.notes import Notes, Records
from firmlake.tables.number_texts import number_in
from firmlake.tables.objects import Shape
from firmlake.tables.schemas import KIND_TYPES

__all__ = ["read_tolerantly"]

_DIGITS = re.compile(rb"[0-9]+")


class _Cell(NamedTuple):
    """A value as read: the kind of the difference if it came as another type, and what it was before it was rounded."""

    value: Any = None
    kind: str = ""
    misfit: Reason | None = None
    rounded: bytes = b""


def read_tolerantly(shape: Shape, raws: Sequence[Raw], start: int) -> Records:
    """Read records, each valid JSON.

    Args:
        shape: The shape of their group.
        raws: The records, at least one.
        start: Index of the first.
    """
    cells, notes = take_apart(shape, raws, start)
    columns = read_columns(cells)
    read = {}
    for leaf, values in cells.items():
        read[leaf.name] = _complete(leaf, values, columns[leaf], notes)
        for number in read[leaf.name].is_null().arg_true() if leaf.required else ():
            notes.reject(number, leaf.path, None, make_reason("missing"), "record")
    return notes.records([read[leaf.name] for leaf in shape.leaves], len(raws))


# ---------------------------------------------------------------------------------------------------------------------


def _complete(leaf: Leaf, cells: Sequence[Raw], column: ReadColumn, notes: Notes) -> pl.Series:
    """Read the rest of a column by the exact rule, equal values once, and note what is odd about them."""
    if not column.in_texts and not column.rest:
        return column.values
    read = cache(partial(_read_cell, leaf))
    rest = [(place, read(bytes(cells[place]))) for place in column.rest]
    kinds = {"text_for_number": [*column.in_texts]} if column.in_texts else {}
    for place, cell in rest:
        if cell.kind:
            kinds.setdefault(cell.kind, []).append(place)
    for first, count, kind in sorted((min(places), len(places), kind) for kind, places in kinds.items()):
        notes.observe(kind, leaf.path, cells[first], first, count)
    for place, cell in rest:
        if cell.misfit:
            notes.discard(place, leaf.path, cells[place], cell.misfit, leaf.mode)
        elif cell.rounded:
            notes.observe("rounded_value", leaf.path, cell.rounded, place)
    values = pl.Series(leaf.name, [cell.value for _, cell in rest], KIND_TYPES[leaf.kind])
    if len(values) == len(cells):
        return values
    return column.values.scatter(column.rest, values) if len(values) else column.values


def _read_cell(leaf: Leaf, received: bytes) -> _Cell:
    if leaf.kind in ("fraction", "score") and received.endswith(b'%"'):  # whatever the scale of bare numbers is
        leaf, received = leaf._replace(shift=2), received[:-2].rstrip() + b'"'
    kind, json = _meaning(leaf, received) or ("", received)
    try:
        value = read_cell(leaf, Raw(json))
    except MisfitError as misfit:
        return _Cell(kind=kind, misfit=misfit.reason)
    if value is not None and leaf.kind in DECIMALS and value != (exact := moved(json, leaf.shift)):
        return _Cell(value, kind, rounded=plain(exact).encode())
    return _Cell(value, kind)


def _meaning(leaf: Leaf, cell: bytes) -> tuple[str, bytes] | None:
    """Return the JSON that was meant, with the kind of the difference, if a value is of another type but clear."""
    if leaf.is_company_number:
        return ("number_for_text", b'"%b"' % cell) if _DIGITS.fullmatch(cell) else None
    if leaf.kind in TEXTS:
        return None
    if cell == b'""':
        return "empty_text", b"null"
    number = None if leaf.kind == "date" or cell[:1] != b'"' else number_in(cell, leaf.kind, leaf.marks)
    return ("text_for_number", number) if number else None
