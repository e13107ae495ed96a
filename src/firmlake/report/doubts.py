"""Doubts about a run that ended as it should: signs that the service means something else than firmlake reads.

Each doubt is a sentence that names the field or the companies, and the setting or command that helps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import duckdb

from firmlake.api.contract import DATASETS, FieldKind

__all__ = ["find_doubts"]

_UNKNOWN_MIN = 3
"""So many companies of a country, all unknown, are no accident."""
_PEOPLE = {"BE": "Belgian", "NL": "Dutch", "FR": "French"}


def find_doubts(connection: duckdb.DuckDBPyConnection, run_id: str) -> list[str]:
    """List what a person should look at in a run; empty if the answers are as assumed."""
    return [*_other_scales(connection, run_id), *_decimals(connection, run_id), *_unknown(connection, run_id)]


# ---------------------------------------------------------------------------------------------------------------------


def _other_scales(connection: duckdb.DuckDBPyConnection, run_id: str) -> Iterator[str]:
    """Tell of fields with values beyond 1 where shares or scores of 1 were expected."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for dataset, kind, path, count in connection.execute(_SCALES, [run_id]).fetchall():
        counts.setdefault((dataset, path.rpartition("[].")[2]), Counter())[kind] += count
    for (dataset, path), of_kind in counts.items():
        column, kind = _field(dataset, path)
        beyond, withheld = of_kind["other_scale"], of_kind["withheld_value"]
        became = "kept as received" if kind == "score" else "discarded"
        what = f"{dataset}.{column} is beyond 1 in {_records(beyond)}, where it was {became}"
        if withheld and beyond:
            what += f"; smaller values ({withheld:,}) may be per cent too and were discarded with them"
        elif withheld:
            what = f"{dataset}.{column} was discarded in {_records(withheld)}, because earlier values are beyond 1"
        vouch = ", or 1 if it does not" if withheld else ""
        setting = f'contract.scales = {{"{dataset}.{column}" = 100}}'
        yield f"Another scale: {what}. If the service states per cent, set {setting}{vouch}, then `firmlake replay`"


def _decimals(connection: duckdb.DuckDBPyConnection, run_id: str) -> Iterator[str]:
    """Tell of whole numbers that the service states with decimals."""
    for dataset, path, count in connection.execute(_FRACTIONS, [run_id]).fetchall():
        column, _ = _field(dataset, path)
        setting = f'contract.types = {{"{dataset}.{column}" = "decimal"}}'
        yield (
            f"Decimals: {dataset}.{column} is no whole number in {_records(count)}, where it was discarded. "
            f"To keep it, set {setting}, then `firmlake replay`"
        )


def _unknown(connection: duckdb.DuckDBPyConnection, run_id: str) -> Iterator[str]:
    """Tell of countries of which the service knows no company."""
    for country, count in connection.execute(_NONE_FOUND, [run_id, _UNKNOWN_MIN]).fetchall():
        zero = ", such as with the leading zero (api.keep_leading_zero)" if country == "BE" else ""
        yield (
            f"None found: the service knows none of {count:,} {_PEOPLE.get(country, country)} companies. "
            f"If they exist, it expects their numbers in another spelling{zero}: "
            "`firmlake check LIST --write FILE` finds out, then run the list with --config FILE --refresh"
        )


def _field(dataset: str, path: str) -> tuple[str, FieldKind]:
    """Return the column and the kind of a field."""
    fields = (field for group in DATASETS[dataset].groups.values() for field in group.fields.items())
    return next((name, field.kind) for name, field in fields if path == field.path)


def _records(count: int) -> str:
    return f"{count:,} {'record' if count == 1 else 'records'}"


_SCALES = """
    SELECT dataset, kind, path, record_count FROM drift
    WHERE run_id = ? AND kind IN ('other_scale', 'withheld_value') ORDER BY ALL
"""
_FRACTIONS = """
    SELECT dataset, path, count(*) FROM rejects
    WHERE run_id = ? AND effect = 'value' AND ends_with(reason, 'is no whole number') GROUP BY ALL ORDER BY ALL
"""
_NONE_FOUND = """
    SELECT country, count(DISTINCT company_number) FROM company_state
    WHERE country NOT IN (SELECT country FROM company_state WHERE status IN ('reported', 'empty')) AND run_id = ?
    GROUP BY country HAVING count(DISTINCT company_number) FILTER (status = 'not_found') >= ?
        AND count_if(status <> 'not_found') = 0
    ORDER BY country
"""
