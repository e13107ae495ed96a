"""Findings about records: compare their keys, types, scales, shapes and order with the contract."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from msgspec import UNSET

from firmlake.api.contract import DATASETS, KNOWN_VALUES
from firmlake.check.finding import Finding
from firmlake.check.types import find_decimals, find_types
from firmlake.check.values import Records, each_record, is_number, list_odd, odd_values, read_values

__all__ = ["examine_records"]

_EXAMPLES_MAX = 3


def examine_records(records: Records) -> list[Finding]:
    """Compare records with the contract, and return one finding for each assumption about records.

    Args:
        records: All records that were received, of any shape.

    References:
        docs/service_gaps.md.
    """
    if not any(group for groups in records.values() for group in groups.values()):
        return [Finding(row, "no records were received", "not_observed") for row in _EXAMINED]
    return [examine(records) for examine in _EXAMINED.values()]


# ---------------------------------------------------------------------------------------------------------------------


def _find_absent(records: Records) -> Finding:
    absent, seen = Counter[str](), Counter[str]()
    groups = {**records, "relationships": {}}  # an anonymous party has hardly any keys
    for place, _, value in read_values(groups, _KINDS):
        seen[place] += 1
        absent[place] += value is UNSET
    missing = +absent
    if not missing:
        return Finding("absent keys", "every key is present, with null where there is no value", "as_assumed")
    instead = {place.partition(" ")[0] for place in _unknown(records)}
    never = Counter(
        {place: n for place, n in missing.items() if n == seen[place] and place.partition(" ")[0] in instead}
    )
    if never:
        return Finding(
            "absent keys", f"in no record: {_list(never)}; but there are unknown fields", "needs_you",
            next_step="Check whether an unknown field is one of these under a new name: its values are in extra_json "
            "only",
        )  # fmt: skip
    return Finding("absent keys", f"absent: {_list(missing)}; read as null", "covered")


def _find_unknown(records: Records) -> Finding:
    unknown = _unknown(records)
    if not unknown:
        return Finding("unknown fields", "none", "as_assumed")
    return Finding("unknown fields", f"{_list(unknown)}; kept in extra_json", "covered")


def _unknown(records: Records) -> Counter[str]:
    """Count the fields that the contract does not have, by place."""
    unknown: Counter[str] = Counter()
    for dataset, group, record in each_record(records):
        if group == "child":
            continue
        known = {field.path for field in DATASETS[dataset].fields.values()}
        unknown.update(f"{dataset} {path}" for path in _paths(record) if not _is_known(path, known))
    return unknown


def _is_known(path: str, known: set[str]) -> bool:
    return path in known or any(other.startswith(f"{path}.") for other in known)


def _paths(record: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in record.items():
        yield prefix + key
        if isinstance(value, dict) and not prefix:
            yield from _paths(value, f"{key}.")


def _find_integers(records: Records) -> Finding:
    odd = odd_values(read_values(records, ["integer"]), lambda _, value: is_number(value) and value % 1 != 0)
    if not odd:
        return Finding("integers", "whole numbers", "as_assumed")
    return _contract(
        "integers", f"with decimals: {list_odd(odd)}", "types", dict.fromkeys(map(_column, odd), "decimal")
    )


def _find_fractions(records: Records) -> Finding:
    return _find_scale(records, "scale of fractions", "fraction", "no stake and no ratio came")


def _find_scores(records: Records) -> Finding:
    return _find_scale(records, "scale of scores", "score", "no lookalikes came")


def _find_scale(records: Records, row: str, kind: str, nothing: str) -> Finding:
    """Find whether values go up to 1 or 100. One field up to 100 means that all of this kind in its dataset do."""
    values: dict[str, list[Any]] = {}
    for place, _, value in read_values(records, [kind]):
        if is_number(value):
            values.setdefault(place, []).append(value)
    if not values:
        return Finding(row, nothing, "not_observed")
    largest = {place: max(of_place) for place, of_place in values.items()}
    if max(largest.values()) <= 1:
        return Finding(row, f"{min(map(min, values.values()))} to {max(largest.values())}", "as_assumed")
    datasets = {place.split()[0] for place, most in largest.items() if most > 1}
    places = dict.fromkeys(place for place, _, _ in read_values(records, [kind]) if place.split()[0] in datasets)
    seen = ", ".join(f"{place} up to {most}" for place, most in largest.items() if most > 1)
    return _contract(row, f"of 100, not of 1: {seen}", "scales", dict.fromkeys(map(_column, places), 100))


def _contract(row: str, seen: str, key: str, found: dict[str, Any]) -> Finding:
    """Make a finding that a setting under `contract` covers."""
    return Finding(row, seen, "covered", {f"contract.{key}": found})


def _column(place: str) -> str:
    """Name a field as in the settings: by its dataset and our column."""
    dataset, path = place.split()
    fields = DATASETS[dataset].fields.items()
    return f"{dataset}.{next(column for column, field in fields if field.path == path)}"


def _find_children(records: Records) -> Finding:
    row = "`children` of relationships"
    children = records.get("relationships", {}).get("child", [])
    shapes = Counter(_shape(child) for child in children)
    if not children:
        return Finding(row, "none of the companies has any", "not_observed")
    if set(shapes) <= {"identifier"}:
        return Finding(row, f"{len(children)} like parents", "as_assumed")
    seen = ", ".join(f"{count} by {shape}" for shape, count in shapes.items())
    if "unknown" in shapes:
        example = next(child for child in children if _shape(child) == "unknown")
        keys = ", ".join(example) if isinstance(example, dict) else type(example).__name__
        return Finding(row, f"{seen} ({keys}); kept as JSON in extra_json", "covered")
    return Finding(row, seen, "covered")


def _shape(child: Any) -> str:
    if not isinstance(child, dict):
        return "unknown"
    if "identifier" in child:
        return "identifier"
    if isinstance(child.get("companyId", ""), dict | None):
        return "companyId"
    return "country and companyNumber" if {"country", "companyNumber"} <= child.keys() else "unknown"


def _find_order(records: Records) -> Finding:
    row = "item order"
    ends = [str(record.get("endDate")) for _, group, record in each_record(records) if group == "period"]
    newest = sum(first > second for first, second in pairwise(ends))
    oldest = sum(first < second for first, second in pairwise(ends))  # also counts the step from company to company
    if newest == oldest:
        return Finding(row, "too few periods to tell", "not_observed")
    if newest > oldest:
        return Finding(row, "newest first", "as_assumed")
    return Finding(row, "oldest first; firmlake orders periods by date", "covered")


def _find_functions(records: Records) -> Finding:
    row, known = "`function`", KNOWN_VALUES["relationships", "function"]
    seen = Counter(
        record["function"] for _, _, record in each_record(records) if isinstance(record.get("function"), str)
    )  # fmt: skip
    if not seen:
        return Finding(row, "no parents or children were received", "not_observed")
    new = ", ".join(sorted(value for value in seen if value not in known))
    if not new:
        return Finding(row, ", ".join(seen), "as_assumed")
    return Finding(row, f"others too: {new}; kept, and recorded in drift", "covered")


def _find_health(records: Records) -> Finding:
    values = [value for place, _, value in read_values(records, ["integer"]) if "health" in place and is_number(value)]
    if not values:
        return Finding("`healthIndicator`", "never given", "not_observed")
    return Finding("`healthIndicator`", f"{min(values)} to {max(values)}, stored as it is", "as_assumed")


def _list(counts: Counter[str]) -> str:
    most = counts.most_common(_EXAMPLES_MAX)
    more = f" and {len(counts) - _EXAMPLES_MAX} more" if len(counts) > _EXAMPLES_MAX else ""
    return ", ".join(f"{place} ({count})" for place, count in most) + more


_KINDS = ("text", "date", "integer", "money", "ratio", "fraction", "score", "codes")
_EXAMINED: dict[str, Callable[[Records], Finding]] = {
    "absent keys": _find_absent,
    "unknown fields": _find_unknown,
    "types": find_types,
    "integers": _find_integers,
    "decimals": find_decimals,
    "scale of fractions": _find_fractions,
    "scale of scores": _find_scores,
    "`children` of relationships": _find_children,
    "item order": _find_order,
    "`function`": _find_functions,
    "`healthIndicator`": _find_health,
}
