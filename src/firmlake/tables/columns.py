"""Read the values of many records at once, field by field, if they are plain: at the speed of Arrow, or not at all.

`read_cell` in `cells.py` defines the meaning of a value; what is read here is the same.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import date
from itertools import accumulate
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.csv
from msgspec import Raw

from firmlake.tables.cells import DECIMALS, FRACTION_MAX
from firmlake.tables.leaves import Leaf
from firmlake.tables.schemas import KIND_TYPES

__all__ = ["TEXTS", "arrow_type", "cast_column", "read_csv", "read_plain"]

_FIRST_DAY = date(1, 1, 1)
TEXTS: dict[str, msgspec.json.Decoder[Any]] = {
    "text": msgspec.json.Decoder(list[str | None]),
    "codes": msgspec.json.Decoder(list[list[str] | None]),
}
"""The kinds of fields with texts, and what decodes their values."""
_ARROW = {
    "date": pa.date32(),
    "integer": pa.int64(),
    "score": pa.float64(),
    "codes": pa.string(),
    "text": pa.string(),
}
_LINES = msgspec.json.Encoder().encode_lines
_BARE = b"0123456789.-nul,\t\n"
_QUOTED = _BARE + b'"'
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_MANY = b"0" * 30
"""More digits than that are too many for a number of ours; Arrow is not asked about them."""


def read_plain(cells: Mapping[Leaf, Sequence[Raw]]) -> dict[str, pl.Series]:
    """Read the fields whose values are all plain, by column; the others are left out.

    Args:
        cells: JSON of the values of each field, null where a record has none. A tab may stand before a null.
    """
    read = _read_numbers([leaf for leaf in cells if leaf.kind not in TEXTS], cells)
    for leaf, values in cells.items():
        if leaf.kind in TEXTS:
            try:
                read[leaf.name] = _read_texts(leaf, values)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
    return read


def read_csv(csv: bytes, columns: Sequence[str], types: Mapping[str, pa.DataType], nulls: list[str]) -> pa.Table:
    """Read lines of values.

    Args:
        csv: The lines.
        columns: The column of each value in a line.
        types: The columns to be read; one that the lines do not have is null.
        nulls: What is null. Texts are null where the empty text is, and only unquoted.

    Raises:
        ValueError: A value is not of its column's type.
    """
    try:
        return pyarrow.csv.read_csv(
            io.BytesIO(csv),
            read_options=pyarrow.csv.ReadOptions(use_threads=False, column_names=columns, block_size=len(csv) + 1),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=types,
                include_columns=types,
                include_missing_columns=True,
                null_values=nulls,
                strings_can_be_null="" in nulls,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowException:
        raise ValueError from None


def arrow_type(leaf: Leaf) -> pa.DataType:
    """Return the type that a field is read as, with its point where it was received.

    Decimals are wider than ours: Arrow accepts digits beyond the precision, and Polars makes null of too big a value.
    """
    return pa.decimal128(38, DECIMALS[leaf.kind][1] - leaf.shift) if leaf.kind in DECIMALS else _ARROW[leaf.kind]


def cast_column(leaf: Leaf, raw: pl.Series) -> pl.Series:
    """Cast a column to the type of its field.

    Raises:
        ValueError: A value does not fit.
    """
    column = raw.cast(KIND_TYPES[leaf.kind], strict=False)  # a value that is too big becomes null
    if column.null_count() > raw.null_count() or not _fits(leaf, column):
        raise ValueError
    return column


# ---------------------------------------------------------------------------------------------------------------------


def _read_numbers(leaves: Sequence[Leaf], cells: Mapping[Leaf, Sequence[Raw]]) -> dict[str, pl.Series]:
    """Read numbers and dates of many fields at once, halving the fields as long as a value is irregular."""
    if not leaves:
        return {}
    try:
        return _read_together(leaves, [cells[leaf] for leaf in leaves])
    except ValueError:
        half = len(leaves) // 2
        return _read_numbers(leaves[:half], cells) | _read_numbers(leaves[half:], cells) if half else {}


def _read_together(leaves: Sequence[Leaf], columns: Sequence[Sequence[Raw]]) -> dict[str, pl.Series]:
    """Read numbers and dates; raise a ValueError if one is not plain."""
    if any(leaf.shift and leaf.kind not in DECIMALS for leaf in leaves):
        raise ValueError
    lines, count = _LINES([*zip(*columns, strict=True)]), len(columns[0])  # a list: msgspec 0.22 leaks iterators
    bare = _QUOTED if any(leaf.kind == "date" for leaf in leaves) else _BARE
    if lines.translate(None, bare) != b"[]" * count or _MANY in lines.translate(_DIGITS):
        raise ValueError
    types = {leaf.name: arrow_type(leaf) for leaf in leaves}
    table = read_csv(lines.translate(None, b"[]"), [*types], types, ["null", "\tnull"])
    quoted = sum(count - table[leaf.name].null_count for leaf in leaves if leaf.kind == "date")
    if len(table) != count or lines.count(b'"') != 2 * quoted:  # other quotes are those of numbers in strings
        raise ValueError
    return {leaf.name: cast_column(leaf, pl.Series(leaf.name, _move_point(leaf, table[leaf.name]))) for leaf in leaves}


def _move_point(leaf: Leaf, column: pa.ChunkedArray) -> pa.Array:
    values = column.combine_chunks()
    if not leaf.shift:
        return values
    return pa.Array.from_buffers(pa.decimal128(38, DECIMALS[leaf.kind][1]), len(values), values.buffers())


def _fits(leaf: Leaf, column: pl.Series) -> bool:
    if leaf.kind == "date":
        return not (column < _FIRST_DAY).any()
    if leaf.kind == "fraction":
        return not (column > FRACTION_MAX).any()
    return leaf.kind != "score" or not column.is_infinite().any()


def _read_texts(leaf: Leaf, cells: Sequence[Raw]) -> pl.Series:
    values = TEXTS[leaf.kind].decode(msgspec.json.encode(cells))
    return pl.Series(leaf.name, values, pl.String) if leaf.kind == "text" else _lists(leaf.name, values)


def _lists(name: str, values: Sequence[list[str] | None]) -> pl.Series:
    """Make a column of lists. `pa.array` would import pandas where it is installed; Polars takes 40 times as long."""
    ends = accumulate((len(value or ()) for value in values), initial=0)
    starts = [None if value is None else start for value, start in zip([*values, []], ends, strict=True)]
    flat = pl.Series([text for value in values for text in value or ()], dtype=pl.String)
    lists = pa.LargeListArray.from_arrays(pl.Series(starts, dtype=pl.Int64).to_arrow(), flat.to_arrow())
    return pl.Series(name, lists, pl.List(pl.String))
