"""Convert the JSON values of one field to a typed column: all at once if they are plain, otherwise one by one.

`read_cell` defines the meaning of a value. `read_column` returns the same values at the speed of Arrow, or None.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from itertools import accumulate
from math import isinf
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.csv
from msgspec import Raw

from firmlake.tables.number_texts import AMBIGUOUS, is_ambiguous
from firmlake.tables.reading import Leaf
from firmlake.tables.schemas import KIND_TYPES

__all__ = [
    "BEYOND_ONE",
    "DATE",
    "DECIMALS",
    "MisfitError",
    "arrow_type",
    "fits",
    "moved",
    "plain",
    "read_cell",
    "read_column",
    "read_columns",
    "read_csv",
]

DECIMALS = {kind: (each.precision, each.scale) for kind, each in KIND_TYPES.items() if isinstance(each, pl.Decimal)}
"""Precision and scale of the kinds that are decimals."""
CENT_NOISE = Decimal("0.0001")
"""Read an amount closer than this to a whole cent as that cent: services that use floats may send 12.340000001."""
FRACTION_MAX = Decimal(1)
"""More is not a share of a whole. Percentages would be off by a factor of 100, which a sum would not show."""

BEYOND_ONE = "is more than 1, where a share of a whole was expected"
"""The reason why a fraction does not fit; `contract.scales` sets the number that the service sends for 1."""

_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, rounding=ROUND_HALF_EVEN)
_INT64 = 2**63
_PLAIN_MAX = 60
DATE = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ]00:00(?::00(?:\.0+)?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?")
"""A date, or its midnight, as libraries write dates that have only a type for times."""
_FIRST_DAY = date(1, 1, 1)
_TEXTS: dict[str, msgspec.json.Decoder[Any]] = {
    "text": msgspec.json.Decoder(list[str | None]),
    "codes": msgspec.json.Decoder(list[list[str] | None]),
}
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


class MisfitError(ValueError):
    """A value does not fit; the message says why."""


def read_columns(leaves: Sequence[Leaf], columns: Sequence[Sequence[Raw]]) -> list[pl.Series] | None:
    """Read the numbers and dates of many records at once, if all of them are plain; otherwise return None.

    Args:
        leaves: Fields of any kind but texts.
        columns: JSON of the values of each field, null where a record has none. A tab may stand before a null.
    """
    lines, count = _LINES([*zip(*columns, strict=True)]), len(columns[0])  # a list: msgspec 0.22 leaks iterators
    bare = _QUOTED if any(leaf.kind == "date" for leaf in leaves) else _BARE
    if lines.translate(None, bare) != b"[]" * count or _MANY in lines.translate(_DIGITS):
        return None
    if any(leaf.shift and leaf.kind not in DECIMALS for leaf in leaves):
        return None
    types = {leaf.name: arrow_type(leaf) for leaf in leaves}
    table = read_csv(lines.translate(None, b"[]"), [*types], types, ["null", "\tnull"])
    if table is None:
        return None
    quoted = sum(table[leaf.name].length() - table[leaf.name].null_count for leaf in leaves if leaf.kind == "date")
    if lines.count(b'"') != 2 * quoted:
        return None  # the rest are those of numbers in strings
    finished = (_finish(leaf, table[leaf.name].combine_chunks(), count) for leaf in leaves)
    whole = [column for column in finished if column is not None]
    return whole if len(whole) == len(leaves) else None


def read_column(leaf: Leaf, cells: Sequence[Raw]) -> pl.Series | None:
    """Read the values of a field, if all of them are plain; otherwise return None."""
    if leaf.kind not in _TEXTS:
        columns = read_columns([leaf], [cells])
        return columns[0] if columns else None
    try:
        values = _TEXTS[leaf.kind].decode(msgspec.json.encode(cells))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return pl.Series(leaf.name, values, pl.String) if leaf.kind == "text" else _lists(leaf.name, values)


def read_csv(csv: bytes, columns: Sequence[str], types: Mapping[str, pa.DataType], nulls: list[str]) -> pa.Table | None:
    """Read lines of values; None if one is not of its column's type.

    Args:
        csv: The lines.
        columns: The column of each value in a line.
        types: The columns to be read; one that the lines do not have is null.
        nulls: What is null. Texts are null where the empty text is, and only unquoted.
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
        return None


def arrow_type(leaf: Leaf) -> pa.DataType:
    """Return the type that a field is read as, with its point where it was received.

    Decimals are wider than ours: Arrow accepts digits beyond the precision, and Polars makes null of too big a value.
    """
    return pa.decimal128(38, DECIMALS[leaf.kind][1] - leaf.shift) if leaf.kind in DECIMALS else _ARROW[leaf.kind]


def read_cell(leaf: Leaf, cell: Raw) -> Any:
    """Read one value, exactly.

    Ratios, fractions and decimals with more digits than their type has are rounded half to even, amounts only if they
    are less than a hundredth of a cent from a whole one.

    Raises:
        MisfitError: The value does not fit.
    """
    text = bytes(cell)
    if text.lstrip() == b"null":
        return None
    if leaf.kind in DECIMALS:
        return _to_decimal(leaf, text)
    if leaf.kind == "integer":
        return _to_integer(text)
    if leaf.kind == "score":
        return _to_float(leaf, text)
    return _to_date(text) if leaf.kind == "date" else _to_texts(leaf, text)


def moved(text: bytes, places: int) -> Decimal:
    """Read a JSON number and move its point to the left, exactly.

    Raises:
        MisfitError: The text is no number.
    """
    if text[:1] not in b"-0123456789":
        raise MisfitError(f"it {AMBIGUOUS}" if is_ambiguous(text) else f"a number was expected, not {_name(text)}")
    try:
        return _EXACT.scaleb(Decimal(text.decode()), -places)
    except InvalidOperation:
        raise MisfitError("an exponent too big to read") from None


def fits(leaf: Leaf, column: pl.Series) -> bool:
    """Tell whether a column that was read at once holds only values that fit."""
    if leaf.kind == "date":
        return not (column < _FIRST_DAY).any()
    if leaf.kind == "fraction":
        return not (column > FRACTION_MAX).any()
    return leaf.kind != "score" or not column.is_infinite().any()


def plain(value: Decimal) -> str:
    """Print a decimal without trailing zeros and, unless that would be very long, without an exponent."""
    if abs(value.adjusted()) > _PLAIN_MAX or len(value.as_tuple().digits) > _PLAIN_MAX:
        return f"{value:.17g}"
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


# ---------------------------------------------------------------------------------------------------------------------


def _finish(leaf: Leaf, values: pa.Array, count: int) -> pl.Series | None:
    """Move the point if a setting says so, and cast the column to its type; None if a value does not fit."""
    if leaf.shift:
        values = pa.Array.from_buffers(pa.decimal128(38, DECIMALS[leaf.kind][1]), len(values), values.buffers())
    raw = pl.Series(leaf.name, values)
    column = raw.cast(KIND_TYPES[leaf.kind], strict=False)  # a value that is too big becomes null
    is_whole = len(column) == count and column.null_count() == raw.null_count()
    return column if is_whole and fits(leaf, column) else None


def _lists(name: str, values: Sequence[list[str] | None]) -> pl.Series:
    """Make a column of lists. `pa.array` would import pandas where it is installed; Polars takes 40 times as long."""
    ends = accumulate((len(value or ()) for value in values), initial=0)
    starts = [None if value is None else start for value, start in zip([*values, []], ends, strict=True)]
    flat = pl.Series([text for value in values for text in value or ()], dtype=pl.String)
    lists = pa.LargeListArray.from_arrays(pl.Series(starts, dtype=pl.Int64).to_arrow(), flat.to_arrow())
    return pl.Series(name, lists, pl.List(pl.String))


def _to_decimal(leaf: Leaf, text: bytes) -> Decimal:
    precision, scale = DECIMALS[leaf.kind]
    limit = Decimal(10) ** (precision - scale)
    number = moved(text, leaf.shift)
    if leaf.kind == "fraction" and number > FRACTION_MAX:
        raise MisfitError(f"{plain(number)[:40]} {BEYOND_ONE}")
    if -limit < number < limit:
        fitted = number.quantize(Decimal(1).scaleb(-scale), context=_EXACT) if number else Decimal(0)
        if leaf.kind == "money" and abs(_EXACT.subtract(fitted, number)) >= CENT_NOISE:
            raise MisfitError(f"{plain(number)[:40]} has more than {scale} decimals")
        if -limit < fitted < limit:
            return fitted
    raise MisfitError(f"more than {precision - scale} digits before the point")


def _to_integer(text: bytes) -> int:
    number = moved(text, 0)
    if not -_INT64 <= number < _INT64:
        raise MisfitError("an integer of more than 64 bits")
    if number != number.to_integral_value(context=_EXACT):
        raise MisfitError(f"{plain(number)[:40]} is no whole number")
    return int(number)


def _to_float(leaf: Leaf, text: bytes) -> float:
    number = moved(text, leaf.shift)
    value = float(text) if not leaf.shift else float(number)
    if isinf(value):
        raise MisfitError("a number too big")
    return value


def _to_date(text: bytes) -> date:
    value = _to_text(text)
    try:
        if found := DATE.fullmatch(value):
            return date.fromisoformat(found[1])
    except ValueError:
        pass
    raise MisfitError(f"{value[:40]!r} is no date YYYY-MM-DD")


def _to_texts(leaf: Leaf, text: bytes) -> str | list[str]:
    if leaf.kind != "codes":
        return _to_text(text)
    try:
        return [_to_text(bytes(code)) for code in _RAWS.decode(text)]
    except msgspec.DecodeError:
        raise MisfitError(f"an array of texts was expected, not {_name(text)}") from None


_RAWS = msgspec.json.Decoder(list[Raw])


def _to_text(text: bytes) -> str:
    if text[:1] != b'"':
        raise MisfitError(f"a text was expected, not {_name(text)}")
    try:
        return msgspec.json.decode(text, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise MisfitError("the text holds bytes that are none, or half a character") from None


def _name(text: bytes) -> str:
    """Name the kind of a JSON value."""
    kinds = {b"{": "an object", b"[": "an array", b'"': "a text", b"t": "true", b"f": "false", b"n": "null"}
    return kinds.get(text[:1], "a number")
