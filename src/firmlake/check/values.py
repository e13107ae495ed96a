"""The values of records by field: as they are in JSON, and as firmlake reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import UNSET

from firmlake.api.contract import DATASETS, Field
from firmlake.tables.number_texts import MARKS, number_in

__all__ = ["NUMBERS", "Records", "each_record", "given_values", "is_number", "list_odd", "odd_values", "read_values"]

Records = dict[str, dict[str, list[dict[str, Any]]]]
"""Records by dataset and group, as read from JSON with exact decimals."""
NUMBERS = ("integer", "money", "ratio", "fraction", "score")
"""The kinds of fields that hold numbers."""
_EXAMPLES_MAX = 3


def each_record(records: Records) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield dataset, group and content of every record that is an object."""
    for dataset, groups in records.items():
        for group, rows in groups.items():
            yield from ((dataset, group, row) for row in rows if isinstance(row, dict))


def given_values(records: Records, kinds: Iterable[str]) -> Iterator[tuple[str, Field, Any]]:
    """Yield place, field and value of every field of these kinds; the value is UNSET if its key is absent."""
    wanted = set(kinds)
    for dataset, _, record in each_record(records):
        for field in DATASETS[dataset].fields.values():
            if field.kind in wanted:
                yield f"{dataset} {field.path}", field, _at(record, field.path)


def read_values(records: Records, kinds: Iterable[str], marks: str = MARKS) -> Iterator[tuple[str, Field, Any]]:
    """Yield the same as `given_values`, but with texts that stand for numbers read with these decimal marks."""
    for place, field, value in given_values(records, kinds):
        yield place, field, _as_meant(field.kind, value, marks) if isinstance(value, str) else value


def is_number(value: Any) -> bool:
    """Return whether a value is a JSON number."""
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def odd_values(found: Iterable[tuple[str, Field, Any]], is_odd: Callable[[Field, Any], bool]) -> dict[str, list[Any]]:
    """Collect the odd values by place; an absent value or null is not odd."""
    odd: dict[str, list[Any]] = {}
    for place, field, value in found:
        is_read = field.is_company_number and isinstance(value, int)
        if value is not None and value is not UNSET and not is_read and is_odd(field, value):
            odd.setdefault(place, []).append(value)
    return odd


def list_odd(odd: dict[str, list[Any]]) -> str:
    """List fields with odd values on one line, each with its first odd value."""
    listed = [f"{place} ({of_place[0]!s:.40}, {len(of_place)} times)" for place, of_place in odd.items()]
    more = f" and {len(listed) - _EXAMPLES_MAX} more fields" if len(listed) > _EXAMPLES_MAX else ""
    return ", ".join(listed[:_EXAMPLES_MAX]) + more


# ---------------------------------------------------------------------------------------------------------------------


def _at(record: Any, path: str) -> Any:
    """Read the value at a path; None if a parent is null, UNSET if a key is absent."""
    for name in path.split("."):
        if record is None:
            return None
        record = record.get(name, UNSET) if isinstance(record, dict) else UNSET
    return record


def _as_meant(kind: str, text: str, marks: str) -> Decimal | str | None:
    if not text and kind in (*NUMBERS, "date"):
        return None
    number = number_in(msgspec.json.encode(text), kind, marks) if kind in NUMBERS else None
    return text if number is None else Decimal(number.decode())
