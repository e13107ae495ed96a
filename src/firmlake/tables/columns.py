"""Read columns of values at the speed of Polars and Arrow, as far as they are spelled as usual.

`read_cell` in `cells.py` and `number_in` in `number_texts.py` define the meaning of a value; what is read here is the
same. All other values are left to them.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import date
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.csv
from msgspec import Raw

from firmlake.tables.cells import DATE, DECIMALS, FRACTION_MAX
from firmlake.tables.leaves import Leaf
from firmlake.tables.number_texts import numbers_in
from firmlake.tables.schemas import KIND_TYPES

__all__ = ["TEXTS", "ReadColumn", "arrow_type", "cast_column", "read_columns", "read_csv"]

_FIRST_DAY = date(1, 1, 1)
_EXACT = pl.Decimal(38, 18)
"""Holds numbers of up to 18 digits before and 9 after the point with an exponent of one digit, without loss; a number
that is too big for it becomes null."""
_TO_POINT = bytes.maketrans(b",", b".")
TEXTS: dict[str, msgspec.json.Decoder[Any]] = {
    "text": msgspec.json.Decoder(list[str | None]),
    "codes": msgspec.json.Decoder(list[list[str] | None]),
}
"""The kinds of fields with texts, and what decodes their values."""
RARE = ("timestamp", "boolean")
"""The kinds of fields that only lists of the service have, so few that their values are read one by one."""
_ARROW = {
    "date": pa.date32(),
    "integer": pa.decimal128(38, 0),
    "score": pa.float64(),
    "codes": pa.string(),
    "text": pa.string(),
}


class ReadColumn(NamedTuple):
    """The values of a field.

    Attributes:
        values: What was read; null where a value is null or was not read.
        in_texts: Places of the numbers that came in texts and were read.
        rest: Places of the values that were not read.
    """

    values: pl.Series
    in_texts: Sequence[int] = ()
    rest: Sequence[int] = ()


def read_columns(cells: Mapping[Leaf, Sequence[Raw]]) -> dict[Leaf, ReadColumn]:
    """Read the values of fields as far as they are spelled as usual; those of one kind are read together.

    Args:
        cells: JSON of the values of each field; null, or `objects.ABSENT`, where a record has none.
    """
    kinds: dict[object, list[Leaf]] = {}
    for leaf in cells:
        kinds.setdefault(leaf if leaf.kind in TEXTS else (leaf.kind, leaf.shift, leaf.marks), []).append(leaf)
    read: dict[Leaf, ReadColumn] = {}
    for leaves in kinds.values():
        alike = leaves[0]
        columns = [cells[leaf] for leaf in leaves]
        if alike.kind in TEXTS:
            read[alike] = _read_texts(alike, *columns)
        elif alike.kind in RARE:
            read |= {leaf: _read_none(leaf, cells[leaf]) for leaf in leaves}
        else:
            read |= _read_numbers(leaves, columns)
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
    """Return the type that a field is read as.

    Decimals are wider than ours: Arrow accepts digits beyond the precision, and Polars makes null of too big a value.
    """
    return _ARROW.get(leaf.kind) or pa.decimal128(38, DECIMALS[leaf.kind][1])


def cast_column(leaf: Leaf, raw: pl.Series) -> pl.Series:
    """Cast a column to the type of its field; a value that does not fit becomes null."""
    column = raw.cast(KIND_TYPES[leaf.kind], strict=False)
    fits = _fits(leaf, column)
    return column if fits is None else _only(column, fits)


# ---------------------------------------------------------------------------------------------------------------------


def _read_texts(leaf: Leaf, cells: Sequence[Raw]) -> ReadColumn:
    try:
        values = TEXTS[leaf.kind].decode(msgspec.json.encode(cells))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _read_none(leaf, cells)
    return ReadColumn(pl.Series(leaf.name, values, pl.String) if leaf.kind == "text" else _lists(leaf.name, values))


def _read_none(leaf: Leaf, cells: Sequence[Raw]) -> ReadColumn:
    return ReadColumn(pl.Series(leaf.name, [], KIND_TYPES[leaf.kind]), rest=range(len(cells)))


def _read_numbers(leaves: Sequence[Leaf], columns: Sequence[Sequence[Raw]]) -> dict[Leaf, ReadColumn]:
    """Read numbers or dates of fields of one kind: as JSON spells them, and numbers also as they stand in texts."""
    leaf, count = leaves[0], len(columns[0])
    texts, bare = _list_cells(columns)
    values = _read_plain(leaf, texts, bare)
    is_left = values.is_null() & ~texts.str.ends_with("null")
    if is_left.any():
        numbers = numbers_in(texts.filter(is_left), leaf.kind, leaf.marks)
        values.scatter(is_left.arg_true(), _read_plain(leaf, numbers, numbers))
        is_left &= values.is_null()
    has_texts = leaf.kind != "date" and bare is not texts
    is_text = values.is_not_null() & texts.str.starts_with('"') if has_texts else is_left.clear()
    starts = range(0, len(texts), count)
    parts = [[each.slice(start, count) for each in (values, is_text, is_left)] for start in starts]
    return {
        leaf: ReadColumn(own.alias(leaf.name), *(_places(each) for each in marked))
        for leaf, (own, *marked) in zip(leaves, parts, strict=True)
    }


def _places(marked: pl.Series) -> list[int]:
    return marked.arg_true().to_list() if marked.any() else []


def _list_cells(columns: Sequence[Sequence[Raw]]) -> tuple[pl.Series, pl.Series]:
    """Make a column of the JSON of columns that follow each other, and one without quotes and with points for commas.

    Bytes that are no text, and line feeds, are replaced; no number or date has any.
    """
    lines = b"\n".join([b"\n".join(cells) for cells in columns])
    if lines.count(b"\n") >= sum(map(len, columns)):
        lines = b"\n".join([bytes(cell).replace(b"\n", b" ") for cells in columns for cell in cells])
    texts = pl.Series(lines.decode(errors="replace").split("\n"))
    if b'"' not in lines:
        return texts, texts
    return texts, pl.Series(lines.translate(_TO_POINT, b'"').decode(errors="replace").split("\n"))


def _read_plain(leaf: Leaf, texts: pl.Series, bare: pl.Series) -> pl.Series:
    """Read dates and numbers that are spelled as usual, exactly, and make null of all others."""
    is_plain = texts.str.contains(_spelling(leaf))
    if leaf.kind == "date":
        return cast_column(leaf, _only(bare.str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False), is_plain))
    if leaf.kind == "score":
        return cast_column(leaf, _only(bare.cast(pl.Float64, strict=False), is_plain))
    exact = bare.cast(_EXACT, strict=False)
    if leaf.shift:
        values = exact.to_arrow()
        moved = pa.decimal128(_EXACT.precision, _EXACT.scale + leaf.shift)
        exact = pl.Series(pa.Array.from_buffers(moved, len(values), values.buffers()))
    fitted = exact.cast(KIND_TYPES[leaf.kind] if leaf.kind in DECIMALS else pl.Decimal(38, 0), strict=False)
    return cast_column(leaf, _only(fitted, is_plain & (fitted == exact)))


def _spelling(leaf: Leaf) -> str:
    """Return a pattern of dates, or of numbers that Polars casts to `_EXACT`, or scores to floats, without loss.

    A number in a text has one reading unless it has three decimals, which may be thousands.
    """
    if leaf.kind == "date":
        return f'^"{DATE.pattern}"$'
    if leaf.kind == "score" and leaf.shift:
        return "^$"
    decimals = 30 if leaf.kind == "score" else 9
    number = rf"-?[0-9]{{1,18}}(?:\.[0-9]{{1,{decimals}}}0{{0,9}})?(?:[eE][+-]?[0-9])?"
    in_text = rf'"-?(?:0|[1-9][0-9]{{0,17}})(?:[{leaf.marks}](?:[0-9]{{1,2}}|[0-9]{{4,9}}))?"'
    return f"^(?:{number}|{in_text})$"


def _only(column: pl.Series, fits: pl.Series) -> pl.Series:
    """Make null of the values that do not fit."""
    return column if fits.all() else column.zip_with(fits, pl.Series([None], dtype=column.dtype))


def _fits(leaf: Leaf, column: pl.Series) -> pl.Series | None:
    if leaf.kind == "date":
        return column >= _FIRST_DAY
    if leaf.kind == "fraction":
        return column <= FRACTION_MAX
    return column.is_finite() if leaf.kind == "score" else None


def _lists(name: str, values: Sequence[list[str] | None]) -> pl.Series:
    """Make a column of lists. `pa.array` would import pandas where it is installed; Polars takes 40 times as long."""
    ends = accumulate((len(value or ()) for value in values), initial=0)
    starts = [None if value is None else start for value, start in zip([*values, []], ends, strict=True)]
    flat = pl.Series([text for value in values for text in value or ()], dtype=pl.String)
    lists = pa.LargeListArray.from_arrays(pl.Series(starts, dtype=pl.Int64).to_arrow(), flat.to_arrow())
    return pl.Series(name, lists, pl.List(pl.String))
