"""Read single values: what the JSON of a value means, exactly. `columns.py` reads plain values the same, but faster."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from math import isinf
from typing import Any

import msgspec
import polars as pl
from msgspec import Raw

from firmlake.core.reasons import make_reason
from firmlake.tables.leaves import Leaf
from firmlake.tables.number_texts import is_ambiguous
from firmlake.tables.schemas import KIND_TYPES

__all__ = [
    "CENT_NOISE",
    "DATE",
    "DECIMALS",
    "FRACTION_MAX",
    "MisfitError",
    "moved",
    "plain",
    "read_cell",
]

DECIMALS = {kind: (each.precision, each.scale) for kind, each in KIND_TYPES.items() if isinstance(each, pl.Decimal)}
"""Precision and scale of the kinds that are decimals."""
CENT_NOISE = Decimal("0.0001")
"""Read an amount closer than this to a whole cent as that cent: services that use floats may send 12.340000001."""
FRACTION_MAX = Decimal(2)
"""A share above 1 is an error, such as of rounding or typing, which checks of the warehouse find. More than twice the
whole is no share: percentages would be off by a factor of 100, which a sum would not show."""

_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, rounding=ROUND_HALF_EVEN)
_INT64 = 2**63
_PLAIN_MAX = 60
DATE = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ](?:00:00(?::00(?:\.0+)?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?|[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?))?"
)
"""A date, or a time on it, as libraries write dates that have only a type for times.

With a zone only midnight is clear: 23:00 in UTC is the next day in Brussels.
"""


class MisfitError(ValueError):
    """A value does not fit.

    Args:
        code: Why, a code of `core.reasons`.
        facts: What the sentence of the reason names.
    """

    def __init__(self, code: str, **facts: object) -> None:
        self.reason = make_reason(code, **facts)
        super().__init__(self.reason.text)


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
    read = _OTHERS.get(leaf.kind)
    return read(text) if read else _to_texts(leaf, text)


def moved(text: bytes, places: int) -> Decimal:
    """Read a JSON number and move its point to the left, exactly.

    Raises:
        MisfitError: The text is no number.
    """
    if text[:1] not in b"-0123456789":
        raise MisfitError("ambiguous_number") if is_ambiguous(text) else MisfitError("not_a_number", kind=_name(text))
    try:
        return _EXACT.scaleb(Decimal(text.decode()), -places)
    except InvalidOperation:
        raise MisfitError("exponent_too_big") from None


def plain(value: Decimal) -> str:
    """Print a decimal without trailing zeros and, unless that would be very long, without an exponent."""
    if abs(value.adjusted()) > _PLAIN_MAX or len(value.as_tuple().digits) > _PLAIN_MAX:
        return f"{value:.17g}"
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


# ---------------------------------------------------------------------------------------------------------------------


def _to_decimal(leaf: Leaf, text: bytes) -> Decimal:
    precision, scale = DECIMALS[leaf.kind]
    limit = Decimal(10) ** (precision - scale)
    number = moved(text, leaf.shift)
    if leaf.kind == "fraction" and number > FRACTION_MAX:
        raise MisfitError("beyond_one", number=plain(number)[:40])
    if -limit < number < limit:
        fitted = number.quantize(Decimal(1).scaleb(-scale), context=_EXACT) if number else Decimal(0)
        if leaf.kind == "money" and abs(_EXACT.subtract(fitted, number)) >= CENT_NOISE:
            raise MisfitError("too_many_decimals", number=plain(number)[:40], count=scale)
        if -limit < fitted < limit:
            return fitted
    raise MisfitError("too_many_digits", count=precision - scale)


def _to_integer(text: bytes) -> int:
    number = moved(text, 0)
    if not -_INT64 <= number < _INT64:
        raise MisfitError("too_many_bits")
    if number != number.to_integral_value(context=_EXACT):
        raise MisfitError("not_whole", number=plain(number)[:40])
    return int(number)


def _to_float(leaf: Leaf, text: bytes) -> float:
    number = moved(text, leaf.shift)
    value = float(text) if not leaf.shift else float(number)
    if isinf(value):
        raise MisfitError("number_too_big")
    return value


def _to_date(text: bytes) -> date:
    value = _to_text(text)
    try:
        if found := DATE.fullmatch(value):
            return date.fromisoformat(found[1])
    except ValueError:
        pass
    raise MisfitError("not_a_date", value=repr(value[:40]))


def _to_moment(text: bytes) -> datetime:
    """Read a time in UTC without its zone; a time that states no zone is one in UTC."""
    value = _to_text(text)
    try:
        moment = msgspec.convert(value, datetime)
        return (moment.astimezone(UTC) if moment.tzinfo else moment).replace(tzinfo=None)
    except (msgspec.ValidationError, OverflowError):
        raise MisfitError("not_a_time", value=repr(value[:40])) from None


def _to_boolean(text: bytes) -> bool:
    if text not in (b"true", b"false"):
        raise MisfitError("not_a_boolean", kind=_name(text))
    return text == b"true"


_OTHERS: dict[str, Callable[[bytes], Any]] = {"date": _to_date, "timestamp": _to_moment, "boolean": _to_boolean}
"""What reads the values of the kinds that are neither numbers nor texts."""


def _to_texts(leaf: Leaf, text: bytes) -> str | list[str]:
    if leaf.kind != "codes":
        return _to_text(text)
    try:
        return [_to_text(bytes(code)) for code in _RAWS.decode(text)]
    except msgspec.DecodeError:
        raise MisfitError("not_texts", kind=_name(text)) from None


_RAWS = msgspec.json.Decoder(list[Raw])


def _to_text(text: bytes) -> str:
    if text[:1] != b'"':
        raise MisfitError("not_a_text", kind=_name(text))
    try:
        return msgspec.json.decode(text, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise MisfitError("broken_text") from None


def _name(text: bytes) -> str:
    """Name the kind of a JSON value."""
    kinds = {b"{": "an object", b"[": "an array", b'"': "a text", b"t": "true", b"f": "false", b"n": "null"}
    return kinds.get(text[:1], "a number")
