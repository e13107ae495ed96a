"""Doubts about a run that ended as it should: signs that the service means something else than firmlake reads.

Each doubt is a sentence that names the field or the companies, and the setting or command that helps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import duckdb

from firmlake.api.contract import DATASETS, FieldKind
from firmlake.core.company import ADJECTIVES
from firmlake.core.text import count_of, shown
from firmlake.tables.schemas import TABLES, polars_schema
from firmlake.warehouse.versions import count_rows

__all__ = ["Doubt", "count_read", "find_doubts", "step_for"]

_FIELDS_MAX = 3
_EXAMPLE_MAX = 40

_UNKNOWN_MIN = 3
"""So many companies of a country, all unknown, are no accident."""


class Doubt(NamedTuple):
    """A sign that the service means something else than firmlake reads.

    Attributes:
        text: What was seen.
        next_step: What helps; empty if nothing does.
        is_loss: Whether values were discarded.
    """

    text: str
    next_step: str = ""
    is_loss: bool = False

    def __str__(self) -> str:
        return f"{self.text}. {self.next_step}" if self.next_step else self.text


def find_doubts(connection: duckdb.DuckDBPyConnection, run_id: str) -> list[Doubt]:
    """List what a person should look at in a run; empty if the answers are as assumed."""
    return [
        *_other_scales(connection, run_id),
        *_decimals(connection, run_id),
        *_unread(connection, run_id),
        *_unknown(connection, run_id),
        *_left_out(connection, run_id),
        *_accounts(connection, run_id),
    ]


def step_for(dataset: str, column: str, reason_code: str) -> str:
    """Return what helps to read the values of a field that were discarded for this reason."""
    if reason_code == "ambiguous_number":
        return "Set contract.decimal_mark to the mark that the service writes before decimals, then `firmlake replay`"
    if reason_code in ("beyond_one", "unknown_scale"):
        scales = f'contract.scales = {{"{dataset}.{column}" = 100}}'
        return f"If the service states per cent, set {scales}, then `firmlake replay`"
    if reason_code == "not_whole":
        return f'To keep them, set contract.types = {{"{dataset}.{column}" = "decimal"}}, then `firmlake replay`'
    return (
        "`firmlake query 'FROM rejects'` says why. Have the service send what its specification says, or update "
        "firmlake and `firmlake replay`; answers are kept"
    )


def count_read(dataset: str, column: str, unread: int) -> str:
    """Return the SQL that counts the values of a field that were read, given how many were not.

    A list of codes has a table of its own; each record counts as one value.
    """
    return f'count("{column}")' if column in polars_schema(TABLES[dataset]) else f"count(*) - {unread}"


# ---------------------------------------------------------------------------------------------------------------------


def _other_scales(connection: duckdb.DuckDBPyConnection, run_id: str) -> Iterator[Doubt]:
    """Tell of fields with values beyond 1 where shares or scores of 1 were expected."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for dataset, kind, path, count in connection.execute(_SCALES, [run_id]).fetchall():
        counts.setdefault((dataset, path.rpartition("[].")[2]), Counter())[kind] += count
    for (dataset, path), of_kind in counts.items():
        column, kind = _field(dataset, path)
        beyond, withheld = of_kind["other_scale"], of_kind["withheld_value"]
        became = (
            "kept as received" if kind == "score" else "discarded" if withheld else "discarded if above 2, or a finding"
        )
        what = f"{dataset}.{column} is beyond 1 in {count_of(beyond, 'record')}, where it was {became}"
        if withheld and beyond:
            what += f"; values up to 2 ({withheld:,}) may be per cent too and were discarded with them"
        elif withheld:
            records = count_of(withheld, "record")
            what = f"{dataset}.{column} was discarded in {records}, because earlier values are beyond 1"
        vouch = ", or 1 if it does not" if withheld else ""
        setting = f'contract.scales = {{"{dataset}.{column}" = 100}}'
        yield Doubt(
            f"Another scale: {what}",
            f"If the service states per cent, set {setting}{vouch}, then `firmlake replay`",
            is_loss=kind != "score",
        )


def _decimals(connection: duckdb.DuckDBPyConnection, run_id: str) -> Iterator[Doubt]:
    """Tell of whole numbers that the service states with decimals."""
    for dataset, path, count in connection.execute(_FRACTIONS, [run_id]).fetchall():
        column, _ = _field(dataset, path)
        setting = f'contract.types = {{"{dataset}.{column}" = "decimal"}}'
        yield Doubt(
            f"Decimals: {dataset}.{column} is no whole number in {count_of(count, 'record')}, where it was discarded",
            f"To keep it, set {setting}, then `firmlake replay`",
            is_loss=True,
        )


def _unread(connection: duckdb.DuckDBPyConnection, run_id: str) -> Iterator[Doubt]:
    """Tell of other fields with values that did not fit: how many, an example as received, and what helps."""
    by_step: dict[str, list[str]] = {}
    for dataset, path, code, count, example in connection.execute(_UNREAD, [run_id]).fetchall():
        column, kind = _field(dataset, path)
        values = count_read(dataset, column, count)
        read = count_rows(connection, _READ.format(dataset=dataset, values=values), run_id) if column else 0
        such = f" (such as {shown(example)[:_EXAMPLE_MAX]})" if kind not in ("text", "codes") else ""
        of_all = f"{count:,} of {read + count:,} values" if column else count_of(count, "record")
        by_step.setdefault(step_for(dataset, column, code), []).append(f"{dataset}.{column or path} in {of_all}{such}")
    for step, fields in by_step.items():
        more = f", and {len(fields) - _FIELDS_MAX} more fields" if len(fields) > _FIELDS_MAX else ""
        text = f"Not read: {', '.join(fields[:_FIELDS_MAX])}{more}; discarded, and kept in extra_json"
        yield Doubt(text, step, is_loss=True)


def _unknown(connection: duckdb.DuckDBPyConnection, run_id: str) -> Iterator[Doubt]:
    """Tell of countries of which the service knows no company."""
    for country, count in connection.execute(_NONE_FOUND, [run_id, _UNKNOWN_MIN]).fetchall():
        zero = ", such as with the leading zero (api.keep_leading_zero)" if country == "BE" else ""
        yield Doubt(
            f"None found: the service knows none of {count:,} {ADJECTIVES.get(country, country)} companies",
            f"If they exist, it expects their numbers in another spelling{zero}: "
            "`firmlake check LIST --write FILE` finds out, then run the list with --config FILE --refresh",
        )


def _left_out(connection: duckdb.DuckDBPyConnection, run_id: str) -> Iterator[Doubt]:
    """Tell of companies that count as unknown only because no answer tells of them: that may be a passing fault."""
    found = connection.execute(_LEFT_OUT, [run_id]).fetchall()
    if found:
        counts = ", ".join(f"{dataset} of {count_of(count, 'company')}" for dataset, count, _ in found)
        yield Doubt(
            f"Not mentioned: the service answered, but said nothing about {counts} (such as {found[0][2]}), so they "
            "count as not found",
            "If they exist, run the list again with --refresh",
        )


def _accounts(connection: duckdb.DuckDBPyConnection, run_id: str) -> Iterator[Doubt]:
    """Tell of companies whose newest accounts cannot be compared, such as accounts in thousands."""
    for count, example in connection.execute(_DOUBTFUL, [run_id]).fetchall():
        yield Doubt(
            f"Doubtful accounts: the newest of {count_of(count, 'company')} (such as {example})",
            "Growth, medians and sums leave them out; `firmlake query 'FROM portfolio WHERE NOT is_comparable'` lists "
            "them",
        )


def _field(dataset: str, path: str) -> tuple[str, FieldKind]:
    """Return the column and the kind of a field; of an object that is no field, an empty text."""
    fields = DATASETS[dataset].fields.items()
    return next(((name, field.kind) for name, field in fields if path == field.path), ("", "text"))


_SCALES = """
    SELECT dataset, kind, path, record_count FROM drift
    WHERE run_id = ? AND kind IN ('other_scale', 'withheld_value') ORDER BY ALL
"""
_FRACTIONS = """
    SELECT dataset, path, count(*) FROM rejects
    WHERE run_id = ? AND effect = 'value' AND reason_code = 'not_whole' GROUP BY ALL ORDER BY ALL
"""
_UNREAD = """
    SELECT dataset, regexp_replace(path, '^.*\\[\\]\\.', '') AS field,
           if(reason_code = 'ambiguous_number', reason_code, '') AS cause, count(*) AS value_count,
           first(value ORDER BY country, company_number, position)
    FROM rejects
    WHERE run_id = ? AND effect = 'value' AND value IS NOT NULL
        AND reason_code NOT IN ('not_whole', 'beyond_one', 'unknown_scale')
    GROUP BY ALL ORDER BY value_count DESC, dataset, field
"""
_READ = """
    SELECT {values} FROM {dataset}
    SEMI JOIN (FROM company_state WHERE run_id = ? AND dataset = '{dataset}') s USING (country, company_number)
"""
_LEFT_OUT = """
    SELECT dataset, sum(record_count)::BIGINT, min(example) FROM drift
    WHERE run_id = ? AND kind = 'left_out' GROUP BY ALL ORDER BY ALL
"""
_DOUBTFUL = """
    SELECT count(*), min(country || ' ' || company_number || ': ' || incomparable_because)
    FROM portfolio SEMI JOIN (FROM company_state WHERE run_id = ?) USING (country, company_number)
    WHERE NOT is_comparable HAVING count(*) > 0
"""
_NONE_FOUND = """
    SELECT country, count(DISTINCT company_number) FROM company_state
    WHERE country NOT IN (SELECT country FROM company_state WHERE status IN ('reported', 'empty')) AND run_id = ?
    GROUP BY country HAVING count(DISTINCT company_number) FILTER (status = 'not_found') >= ?
        AND count_if(status <> 'not_found') = 0
    ORDER BY country
"""
