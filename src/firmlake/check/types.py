"""Findings about types: whether values have the types of the contract, and how many decimals numbers have."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec

from firmlake.api.contract import DATASETS, Field
from firmlake.check.finding import Finding
from firmlake.check.values import NUMBERS, Records, given_values, is_number, list_odd, odd_values, read_values
from firmlake.tables.cells import CENT_NOISE, DATE
from firmlake.tables.number_texts import MARKS, is_ambiguous, readings

__all__ = ["find_decimals", "find_types"]

_PLACES = {"money": 2, "ratio": 4, "fraction": 6}
_CENT = Decimal("0.01")
_REQUIRED = {
    f"{name} {field.path}" for name, dataset in DATASETS.items() for field in dataset.fields.values() if field.required
}
"""Places of fields without which a record is rejected."""
_MIDNIGHT = 10
"""Characters of a date; a longer text has a time."""


def find_types(records: Records) -> Finding:
    """Find values of other types: those that can be read anyway, and those that need a setting or a person."""
    marks = _marks_seen(records)
    mark = marks[0] if len(marks) == 1 else ""
    settings = {"contract.decimal_mark": mark} if mark else {}
    read = read_values(records, _FITS, mark or MARKS)
    odd = odd_values(read, lambda field, value: not _FITS[field.kind](value))
    if not odd:
        return _find_read(records, settings)
    if all(_is_doubtful(value) for found in odd.values() for value in found):
        return Finding(
            "types", f"numbers as text whose mark may mean decimals or thousands: {list_odd(odd)}; discarded",
            "needs_you",
            next_step="Set contract.decimal_mark to the mark that the service writes before decimals",
        )  # fmt: skip
    if unread := {place: found for place, found in odd.items() if place in _REQUIRED}:
        return Finding(
            "types", f"other types: {list_odd(unread)}; records are rejected without them", "needs_you", settings,
            next_step="Ask the service to send these fields as its specification says. Answers are kept, so a version "
            "of firmlake that reads them needs only `firmlake replay`",
        )  # fmt: skip
    return Finding(
        "types", f"other types: {list_odd(odd)}; discarded, and kept in extra_json", "needs_you", settings,
        next_step="Check these fields before a large run",
    )  # fmt: skip


def find_decimals(records: Records) -> Finding:
    """Find numbers with more decimals than their columns have."""
    longer = odd_values(read_values(records, _PLACES), _is_longer)
    lost = odd_values(read_values(records, ["money"]), lambda field, value: is_number(value) and _is_lost(value))
    if lost:
        return Finding(
            "decimals", f"more decimals: {list_odd(lost)}; such amounts are null, and kept in extra_json", "needs_you",
            next_step="Ask the service for amounts in whole cents; firmlake does not round amounts",
        )  # fmt: skip
    if longer:
        return Finding("decimals", f"more decimals: {list_odd(longer)}; rounded", "covered")
    return Finding("decimals", "amounts 2, ratios 4, fractions 6 at most", "as_assumed")


# ---------------------------------------------------------------------------------------------------------------------


def _find_read(records: Records, settings: dict[str, Any]) -> Finding:
    """Describe values that can be read although they differ from the specification."""
    quoted = odd_values(given_values(records, NUMBERS), lambda field, value: isinstance(value, str) and value != "")
    empty = odd_values(given_values(records, (*NUMBERS, "date")), lambda field, value: value == "")
    midnights = odd_values(given_values(records, ["date"]), lambda field, value: len(value) > _MIDNIGHT)
    seen = [f"numbers as text: {list_odd(quoted)}; read as numbers"] if quoted else []
    seen += [f"dates with a time: {list_odd(midnights)}; midnights are read as dates"] if midnights else []
    seen += [f"empty texts: {list_odd(empty)}; read as no value"] if empty else []
    if not seen:
        return Finding("types", "as the specification says", "as_assumed")
    return Finding("types", "; ".join(seen), "covered", settings)


def _marks_seen(records: Records) -> list[str]:
    """List the decimal marks that some text proves: no other mark can read that text."""
    texts = {value for _, _, value in given_values(records, NUMBERS) if isinstance(value, str)}
    only = [marks[0] for text in texts if len(marks := [mark for mark in MARKS if readings(text, mark)]) == 1]
    return sorted(set(only))


def _is_doubtful(value: Any) -> bool:
    return isinstance(value, str) and is_ambiguous(msgspec.json.encode(value))


def _is_longer(field: Field, value: Any) -> bool:
    if not is_number(value):
        return False
    exponent = Decimal(value).normalize().as_tuple().exponent
    return isinstance(exponent, int) and -exponent > _PLACES[field.kind]


def _is_lost(amount: int | Decimal) -> bool:
    return abs(round(amount / _CENT) * _CENT - amount) >= CENT_NOISE


_FITS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(NUMBERS, is_number),
    "text": lambda value: isinstance(value, str),
    "date": lambda value: isinstance(value, str) and bool(DATE.fullmatch(value)),
    "codes": lambda value: isinstance(value, list) and all(isinstance(code, str) for code in value),
}
