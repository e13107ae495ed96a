"""Read single values: what the JSON of a value means, exactly.

A number in a text counts if there is exactly one way to read it, without marks between thousands. `records.py` reads
plain values the same, but many at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from math import isinf
from typing import Any, NamedTuple

import msgspec
import polars as pl
from msgspec import Raw

from firmlake.core.errors import Reason, make_reason
from firmlake.tables.leaves import MARKS, Leaf
from firmlake.tables.schemas import KIND_TYPES

DECIMALS = {kind: (each.precision, each.scale) for kind, each in KIND_TYPES.items() if isinstance(each, pl.Decimal)}
"""Precision and scale of the kinds that are decimals."""
FRACTION_MAX = Decimal(2)
"""A share above 1 is an error, such as of rounding or typing, which checks of the warehouse find. More than twice the
whole is no share: percentages would be off by a factor of 100, which a sum would not show."""

_CENT_NOISE = Decimal("0.0001")
"""Read an amount closer than this to a whole cent as that cent: services that use floats may send 12.340000001."""
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, rounding=ROUND_HALF_EVEN)
_INT64 = 2**63
_PLAIN_MAX = 60
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATE = re.compile(
    r"(?P<year>[0-9]{4})(?P<mark>[-/.]?)(?P<month>[0-9]{2})(?P=mark)(?P<day>[0-9]{2})"
    r"(?:[Tt ](?!2[23]:00(?::00(?:\.0+)?)?(?:[Zz]|[+-]00:?00))"
    r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?(?:[Zz]|[+-][0-9]{2}:?[0-9]{2})?)?"
)
"""A date that begins with the year, or a time on it as RFC 3339 and libraries without a type for dates write it.

Exactly 22:00 and 23:00 in UTC are not clear: there the next day begins in Brussels, Amsterdam and Paris.
"""
_YEAR_LAST = re.compile(r"([0-9]{1,2})(?P<mark>[./-])([0-9]{1,2})(?P=mark)([0-9]{4})")
"""With points, the day comes first everywhere; 03/04/2024 and 03-04-2024 may be a day in March or in April."""
_MILLISECONDS = re.compile(r"/Date\((-?[0-9]{1,13})([+-](?:0[0-9]|1[0-4])[0-5][0-9])?\)/")
"""A time as OData 2 writes it: since 1970 in UTC, perhaps with the zone of the clock that said so."""
_DIGITS = re.compile(rb"[0-9]+")


class Cell(NamedTuple):
    """What a value says."""

    value: Any = None  # null if it is null, or does not fit
    kind: str = ""  # how it differs from the contract although it is clear, such as "text_for_number"; or empty
    misfit: Reason | None = None  # why it does not fit
    rounded: bytes = b""  # what it was before it was rounded; empty if it was not


class _MisfitError(ValueError):
    """A value does not fit: why, as a code of `reasons.toml`, and what the sentence of the reason names."""

    def __init__(self, code: str, **facts: object) -> None:
        self.reason = make_reason(code, **facts)
        super().__init__(self.reason.text)


def read_cell(leaf: Leaf, received: bytes) -> Cell:
    """Read the JSON of one value, exactly.

    Ratios, fractions and decimals with more digits than their type has are rounded half to even, amounts only if they
    are less than a hundredth of a cent from a whole one.
    """
    if received == b"null":
        return _NULL
    if leaf.kind in ("fraction", "score") and received.endswith(b'%"'):  # whatever the scale of bare numbers is
        leaf, received = leaf._replace(shift=2), received[:-2].rstrip() + b'"'
    kind, json = _meaning(leaf, received)
    if json == b"null":
        return Cell(kind=kind)
    try:
        if leaf.kind not in DECIMALS:
            return Cell(_OTHERS[leaf.kind](leaf, json), kind)
        value, exact = _to_decimal(leaf, json)
        return Cell(value, kind, rounded=b"" if value is exact or value == exact else _plain(exact).encode())
    except _MisfitError as misfit:
        return Cell(kind=kind, misfit=misfit.reason)


_NULL = Cell()


def number_in(cell: bytes, kind: str, marks: str = MARKS) -> bytes | None:
    """Return the number that a JSON string holds, as JSON spells it; None if there is none, or if it may be another.

    A value is judged by itself, so that it is read alike in every answer and every order. Marks between thousands are
    not read, so three decimals may be thousands, except where numbers hardly ever reach a thousand. `marks` may
    separate decimals.

    Example:
        >>> number_in(b'"8109058,52"', "money"), number_in(b'"591.240"', "money"), number_in(b'"591.240"', "ratio")
        (b'8109058.52', None, b'591.240')
    """
    found = _IN_TEXT.fullmatch(cell)
    mark = (found["mark"] or b"").decode() if found else ""
    if not found or mark not in marks or (found["exponent"] and (mark == "," or "." not in marks)):
        return None
    is_small = kind == "fraction" or (kind in _SMALL and mark == ".")
    if len(marks) > 1 and not is_small and _MAY_BE_THOUSANDS.fullmatch(cell):
        return None
    return cell[1:-1].replace(b",", b".")


def _meaning(leaf: Leaf, cell: bytes) -> tuple[str, bytes]:
    """Return the JSON that was meant, with the kind of the difference, if a value is of another type but clear."""
    if leaf.is_company_number and _DIGITS.fullmatch(cell):
        return "number_for_text", b'"%b"' % cell
    if cell[:1] == b'"' and leaf.kind not in _TEXTS:
        if cell == b'""':
            return "empty_text", b"null"
        if leaf.kind not in _TIMES and (number := number_in(cell, leaf.kind, leaf.marks)):
            return "text_for_number", number
    return "", cell


_TEXTS, _TIMES = ("text", "codes"), ("date", "timestamp", "boolean")


def _moved(text: bytes, places: int) -> Decimal:
    """Read a JSON number and move its point to the left, exactly."""
    if text[:1] not in b"-0123456789":
        if _MAY_BE_THOUSANDS.fullmatch(text):  # `contract.decimal_mark` decides
            raise _MisfitError("ambiguous_number")
        raise _MisfitError("not_a_number", kind=_name(text))
    try:
        number = Decimal(text.decode())
        return _EXACT.scaleb(number, -places) if places else number
    except InvalidOperation:
        raise _MisfitError("exponent_too_big") from None


def _plain(value: Decimal) -> str:
    """Print a decimal without trailing zeros and, unless that would be very long, without an exponent."""
    if abs(value.adjusted()) > _PLAIN_MAX or len(value.as_tuple().digits) > _PLAIN_MAX:
        return f"{value:.17g}"
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _to_decimal(leaf: Leaf, text: bytes) -> tuple[Decimal, Decimal]:
    """Return the number that fits the column, and the one received."""
    number, (limit, unit) = _moved(text, leaf.shift), _LIMITS[leaf.kind]
    if leaf.kind == "fraction" and number > FRACTION_MAX:
        raise _MisfitError("beyond_one", number=_plain(number)[:40])
    if -limit < number < limit:
        fitted = number.quantize(unit, context=_EXACT) if number else Decimal(0)
        if fitted == number:
            return fitted, fitted
        if leaf.kind == "money" and abs(_EXACT.subtract(fitted, number)) >= _CENT_NOISE:
            raise _MisfitError("too_many_decimals", number=_plain(number)[:40], count=-unit.adjusted())
        if -limit < fitted < limit:
            return fitted, number
    raise _MisfitError("too_many_digits", count=limit.adjusted())


_LIMITS = {kind: (Decimal(1).scaleb(each[0] - each[1]), Decimal(1).scaleb(-each[1])) for kind, each in DECIMALS.items()}
"""The power of ten that a number does not reach, and the smallest number, of each kind that is a decimal."""


def _to_integer(_leaf: Leaf, text: bytes) -> int:
    number = _moved(text, 0)
    if not -_INT64 <= number < _INT64:
        raise _MisfitError("too_many_bits")
    if number != number.to_integral_value(context=_EXACT):
        raise _MisfitError("not_whole", number=_plain(number)[:40])
    return int(number)


def _to_float(leaf: Leaf, text: bytes) -> float:
    number = _moved(text, leaf.shift)
    value = float(number) if leaf.shift else float(text)
    if isinf(value):
        raise _MisfitError("number_too_big")
    return value


def _to_date(leaf: Leaf, text: bytes) -> date:
    value = _to_text(leaf, text)
    if found := _MILLISECONDS.fullmatch(value):
        zone = datetime.strptime(found[2] or "+0000", "%z").tzinfo
        value = (_EPOCH + timedelta(milliseconds=int(found[1]))).astimezone(zone).isoformat()
    dates = set[date]()
    if found := _DATE.fullmatch(value):
        dates = _to_dates(found.group("year", "month", "day"))
    elif found := _YEAR_LAST.fullmatch(value):
        one, mark, two, year = found.groups()
        readings = {"day": (year, two, one), "month": (year, one, two)}
        order = leaf.date_order or ("day" if mark == "." else "")
        dates = _to_dates(*([readings[order]] if order else readings.values()))
    if len(dates) == 1:
        return dates.pop()
    raise _MisfitError("ambiguous_date" if dates else "not_a_date", value=repr(value[:40]))


def _to_dates(*parts: Sequence[str]) -> set[date]:
    """Return the dates that exist, of year, month and day."""
    dates = set()
    for each in parts:
        with suppress(ValueError):
            dates.add(date(*map(int, each)))
    return dates


def _to_moment(leaf: Leaf, text: bytes) -> datetime:
    """Read a time in UTC without its zone; a time that states no zone is one in UTC."""
    value = _to_text(leaf, text)
    try:
        moment = msgspec.convert(value, datetime)
        return (moment.astimezone(UTC) if moment.tzinfo else moment).replace(tzinfo=None)
    except (msgspec.ValidationError, OverflowError):
        raise _MisfitError("not_a_time", value=repr(value[:40])) from None


def _to_boolean(_leaf: Leaf, text: bytes) -> bool:
    if text not in (b"true", b"false"):
        raise _MisfitError("not_a_boolean", kind=_name(text))
    return text == b"true"


def _to_codes(leaf: Leaf, text: bytes) -> list[str]:
    try:
        return [_to_text(leaf, bytes(code)) for code in _RAWS.decode(text)]
    except msgspec.DecodeError:
        raise _MisfitError("not_texts", kind=_name(text)) from None


_RAWS = msgspec.json.Decoder(list[Raw])
_DECODE = msgspec.json.Decoder(str).decode


def _to_text(_leaf: Leaf, text: bytes) -> str:
    if text[:1] != b'"':
        raise _MisfitError("not_a_text", kind=_name(text))
    try:
        return _DECODE(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _MisfitError("broken_text") from None


_OTHERS: dict[str, Callable[[Leaf, bytes], Any]] = {
    "integer": _to_integer,
    "score": _to_float,
    "date": _to_date,
    "timestamp": _to_moment,
    "boolean": _to_boolean,
    "text": _to_text,
    "codes": _to_codes,
}
"""What reads the values of the kinds that are no decimals."""


def _name(text: bytes) -> str:
    """Name the kind of a JSON value."""
    kinds = {b"{": "an object", b"[": "an array", b'"': "a text", b"t": "true", b"f": "false", b"n": "null"}
    return kinds.get(text[:1], "a number")


# --- numbers in texts ------------------------------------------------------------------------------------------------

_IN_TEXT = re.compile(rb'"-?(?:0|[1-9][0-9]*)(?:(?P<mark>[.,])[0-9]+)?(?P<exponent>[eE][+-]?[0-9]+)?"')
_MAY_BE_THOUSANDS = re.compile(rb'"-?[1-9][0-9]{0,2}[.,][0-9]{3}"')
_SMALL = ("ratio", "fraction", "score")
"""Kinds whose numbers have many decimals and hardly ever reach a thousand: 1.234 is read as JSON spells it. A fraction
never does, so that 1,234 has decimals too."""
