"""The summary of a published run, as one value that a terminal, a flow or a script can show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, get_origin

import duckdb
import msgspec

from firmlake.api.contract import DATASETS, FieldKind
from firmlake.core.company import ADJECTIVES
from firmlake.core.sql import fetch_dicts, read_queries
from firmlake.core.text import count_of, shown
from firmlake.report.feed import AlertCounts, count_alerts
from firmlake.tables.schemas import COMPANY_TABLES, TABLES, polars_schema
from firmlake.warehouse.gates import Unchanged
from firmlake.warehouse.generations import HELD
from firmlake.warehouse.versions import count_rows

_SQL = read_queries(__file__)

STATUSES = ("reported", "empty", "not_found", "failed", "forbidden", "unavailable", "waiting", "fresh")
"""The statuses of a company and dataset in a run. Fresh ones were not asked for."""

_RARE = ("forbidden", "unavailable")
_BOUGHT_BEFORE = (
    "Some were bought before by another data folder or user of these credits, or by answers that never arrived, "
    "because the connection broke or a run was killed; they are not refreshed for free"
)


class FailureGroup(NamedTuple):
    """The companies of a run that failed for one dataset for the same reason, with at most three as examples."""

    dataset: str
    reason: str
    company_count: int
    examples: list[str]


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of a published run.

    Attributes:
        datasets: For each dataset, the number of companies with each of `STATUSES`.
        rows: Rows that the run wrote, by table.
        changed_company_count: Companies whose rows were written.
        credit_count: Credits that the service reports it charged; None if it does not report them.
        expected_credit_count: Credits that our ledger of paid companies expects.
        free_refresh_count: Companies refreshed for free in the last days of their paid window: the credits saved.
        reject_count: Records left out because a value that identifies them does not fit.
        discard_count: Values that did not fit and are null in their columns.
        drift: Differences from the contract: dataset, kind, path, records.
        alerts: What the run did to the alerts; None if there are neither rules nor alerts.
        doubts: What a person should look at, although the run ended as it should; see `find_doubts`.
        reason: Why it is not done; empty where it is. `next_step` is what to do about that.
        is_unchanged: Whether the run had nothing to load, so that it is not in the warehouse: all its companies are
            fresh, and the list, its settings and the rules of alerts are those of the last run.
    """

    run_id: str
    outcome: str
    reason: str = ""
    next_step: str = ""
    list_name: str
    started_at: datetime
    finished_at: datetime
    line_count: int
    company_count: int
    refused_count: int
    repeated_count: int
    fresh_count: int
    target_count: int
    request_count: int
    credit_count: int | None
    expected_credit_count: int
    free_refresh_count: int = 0
    datasets: dict[str, dict[str, int]]
    rows: dict[str, int]
    changed_company_count: int
    reject_count: int
    discard_count: int
    drift: list[tuple[str, str, str, int]]
    alerts: AlertCounts | None = None
    doubts: list[str] = []
    generation: int
    warehouse: Path
    is_unchanged: bool = False

    @property
    def is_held(self) -> bool:
        """Whether a gate holds the generation back, so that readers do not see it."""
        return self.warehouse.match(HELD)

    @property
    def unexplained_bill(self) -> str:
        """A warning if the bill differs from our ledger; empty if they agree or the service reports no charges."""
        if self.credit_count is None or self.credit_count == self.expected_credit_count:
            return ""
        difference = self.credit_count - self.expected_credit_count
        comment = "Ask the service before the next run" if difference > 0 else _BOUGHT_BEFORE
        return (
            f"Unexplained bill: the service charged {self.credit_count:,} credits, our ledger expects "
            f"{self.expected_credit_count:,} ({abs(difference):,} {'more' if difference > 0 else 'fewer'}). {comment}; "
            "`FROM spend` has every run, `requests` every charge"
        )


_EMPTY: dict[Any, Any] = {bool: False, int: 0, str: "", dict: {}, list: []}

_FIELDS_MAX = 3
_EXAMPLE_MAX = 40
_UNKNOWN_MIN = 3
"""So many companies of a country, all unknown, are no accident."""
NONE_FOUND_MIN = 10
"""So many make a run incomplete (exit 3); see `enrich.finish`."""


class Doubt(NamedTuple):
    """A sign that the service means something else than firmlake reads, and what helps; empty if nothing does.

    `is_loss` says that values were discarded.
    """

    text: str
    next_step: str = ""
    is_loss: bool = False

    def __str__(self) -> str:
        return f"{self.text}. {self.next_step}" if self.next_step else self.text


def shown_statuses(datasets: Mapping[str, Mapping[str, int]]) -> list[str]:
    """List the statuses to show as columns of a table of counts. Rare statuses are listed only if they occur."""
    occurring = {status for counts in datasets.values() for status, count in counts.items() if count}
    return [status for status in STATUSES if status not in _RARE or status in occurring]


def summarise(
    connection: duckdb.DuckDBPyConnection, run_id: str, warehouse: Path, *, has_rules: bool = True
) -> RunSummary | None:
    """Read the summary of a run from a generation; None if the generation does not hold the run.

    `has_rules` says whether its plan has rules of alerts.
    """
    found = fetch_dicts(connection.execute(_SQL["run"], [run_id]))
    if not found:
        return None
    values = found[0]
    for name in ("started_at", "finished_at"):
        values[name] = values[name].replace(tzinfo=UTC)
    written = msgspec.json.decode(values.pop("row_counts"), type=dict[str, int])
    datasets: dict[str, dict[str, int]] = {dataset: {} for dataset in values.pop("datasets").split(",")}
    for dataset, status, count in connection.execute(_SQL["statuses"], [run_id]).fetchall():
        datasets[dataset][status] = count
    for counts in datasets.values():
        counts["fresh"] = values["company_count"] - sum(counts.values())
    ((reject_count, discard_count),) = connection.execute(_SQL["rejects"], [run_id]).fetchall()
    drift = connection.execute(_SQL["drift"], [run_id]).fetchall()
    return RunSummary(
        **values,
        datasets=datasets,
        rows={table: written[table] for tables in COMPANY_TABLES.values() for table in tables},
        reject_count=reject_count,
        discard_count=discard_count,
        drift=drift,
        alerts=count_alerts(connection, run_id, has_rules=has_rules),
        doubts=list(map(str, find_doubts(connection, run_id))),
        warehouse=warehouse,
    )


def summarise_unchanged(
    connection: duckdb.DuckDBPyConnection,
    last_id: str,
    unchanged: Unchanged,
    warehouse: Path,
    *,
    has_rules: bool = True,
) -> RunSummary:
    """Return the summary of a run that had nothing to load, after the last published run of the same list.

    `has_rules` says whether its plan has rules of alerts.
    """
    last = summarise(connection, last_id, warehouse)
    assert last
    counts = {"fresh": last.company_count - unchanged.waiting_count, "waiting": unchanged.waiting_count}
    of_all = {status: count for status, count in counts.items() if count}
    ((generation,),) = connection.execute("SELECT max(generation) FROM loads").fetchall()
    return RunSummary(
        run_id=unchanged.run_id, started_at=unchanged.started_at, finished_at=unchanged.finished_at,
        outcome=unchanged.outcome, reason=unchanged.reason, next_step=unchanged.next_step,
        is_unchanged=True, list_name=last.list_name,
        line_count=last.line_count, company_count=last.company_count, refused_count=last.refused_count,
        repeated_count=last.repeated_count, fresh_count=counts["fresh"], target_count=counts["waiting"],
        request_count=0, credit_count=0, expected_credit_count=0, datasets=dict.fromkeys(last.datasets, of_all),
        rows=dict.fromkeys(last.rows, 0), changed_company_count=0, reject_count=0, discard_count=0, drift=[],
        alerts=count_alerts(connection, unchanged.run_id, has_rules=has_rules),
        generation=generation, warehouse=warehouse,
    )  # fmt: skip


def summary_of_nothing() -> dict[str, Any]:
    """Return the fields of a summary where there was nothing to fetch and so no run: all are empty, 0 or null."""
    fields = msgspec.structs.fields(RunSummary)
    empty = {each.name: _EMPTY.get(get_origin(each.type) or each.type) for each in fields}
    return {**empty, "outcome": "done"}


def failures(connection: duckdb.DuckDBPyConnection, run_id: str, most: int) -> list[tuple[str, str, str, str, int]]:
    """List up to `most` failed companies of a run: country, company number, dataset, reason, attempts."""
    return connection.execute(_SQL["failures"], [run_id, most]).fetchall()


def failure_groups(connection: duckdb.DuckDBPyConnection, run_id: str, most: int) -> list[FailureGroup]:
    """List up to `most` groups of failed companies of a run by dataset and reason, the largest first."""
    return [FailureGroup(*row) for row in connection.execute(_SQL["failure_groups"], [run_id, most]).fetchall()]


def find_doubts(connection: duckdb.DuckDBPyConnection, run_id: str) -> list[Doubt]:
    """List what a person should look at in a run; empty if the answers are as assumed."""
    return [
        *_other_scales(connection, run_id),
        *_unread(connection, run_id),
        *_unknown(connection, run_id),
        *_left_out(connection, run_id),
        *_accounts(connection, run_id),
    ]


def tell_none_found(country: str, count: int) -> tuple[str, str]:
    """Say that the service knows no company of a country, and what helps."""
    zero = ", such as with the leading zero (api.keep_leading_zero)" if country == "BE" else ""
    return (
        f"the service knows none of {count:,} {ADJECTIVES.get(country, country)} companies",
        f"If they exist, it expects their numbers in another spelling{zero}: "
        "`firmlake check LIST --write FILE` finds out, then run the list with --config FILE --refresh",
    )


class Unread(NamedTuple):
    """A field, or an object of fields, with values that a run discarded.

    Attributes:
        column: Its column; of an object, the first of its columns; empty where a record was expected.
        name: What it is called: dataset and column, or dataset and path.
        code: The reason of most of these values, or a frequent one.
        lost: How many they are.
        total: The values of the field that the run received; 0 where a record was expected.
        example: One of them, as received; empty where it may be a text.
    """

    dataset: str
    column: str
    path: str
    name: str
    code: str
    lost: int
    total: int
    example: str

    @property
    def step(self) -> str:
        """What helps to read the values."""
        return _STEPS.get(self.code, _STEPS[""]).format(field=f'"{self.dataset}.{self.column}"')


_STEPS = {
    "ambiguous_number": "Set contract.decimal_mark to the mark that the service writes before decimals, then "
    "`firmlake replay`",
    **dict.fromkeys(
        ("beyond_one", "unknown_scale"),
        "If the service states per cent, set contract.scales = {{{field} = 100}}, then `firmlake replay`",
    ),
    "not_whole": 'To keep them, set contract.types = {{{field} = "decimal"}}, then `firmlake replay`',
    "": "`firmlake query 'FROM rejects'` says why. Have the service send what its specification says, or update "
    "firmlake and `firmlake replay`; answers are kept",
}
"""What helps to read discarded values, by the reason."""


def read_unread(connection: duckdb.DuckDBPyConnection, run_id: str, besides: Sequence[str] = ()) -> Iterator[Unread]:
    """Read the fields with values that a run discarded, apart from those for some reasons; the worst first."""
    for dataset, path, code, lost, value in connection.execute(_SQL["unread"], [run_id, besides]).fetchall():
        fields = DATASETS[dataset].fields.items()
        inside = [(name, each) for name, each in fields if each.path == path or each.path.startswith(f"{path}.")]
        total, column, kind = 0, "", "text"
        if inside:
            column, kind = inside[0][0], inside[0][1].kind
            # A list of codes has a table of its own; each record counts as one value.
            values = f'count("{column}")' if column in polars_schema(TABLES[dataset]) else f"count(*) - {lost}"
            total = lost + count_rows(connection, _SQL["read"].format(dataset=dataset, values=values), run_id)
        name = column if inside and inside[0][1].path == path else path
        example = "" if kind in ("text", "codes") else shown(value)[:_EXAMPLE_MAX]
        yield Unread(dataset, column, path, f"{dataset}.{name}", code, lost, total, example)


def _other_scales(connection: duckdb.DuckDBPyConnection, run_id: str) -> Iterator[Doubt]:
    """Tell of fields with values beyond 1 where shares or scores of 1 were expected."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for dataset, kind, path, count in connection.execute(_SQL["scales"], [run_id]).fetchall():
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


def _unread(connection: duckdb.DuckDBPyConnection, run_id: str) -> Iterator[Doubt]:
    """Tell of other fields with values that did not fit: how many, an example as received, and what helps."""
    by_step: dict[str, list[str]] = {}
    for each in read_unread(connection, run_id, _TOLD_APART):
        such = f" (such as {each.example})" if each.example else ""
        of_all = f"{each.lost:,} of {each.total:,} values" if each.total else count_of(each.lost, "record")
        by_step.setdefault(each.step, []).append(f"{each.name} in {of_all}{such}")
    for step, fields in by_step.items():
        more = f", and {len(fields) - _FIELDS_MAX} more fields" if len(fields) > _FIELDS_MAX else ""
        text = f"Not read: {', '.join(fields[:_FIELDS_MAX])}{more}; discarded, and kept in extra_json"
        yield Doubt(text, step, is_loss=True)


_TOLD_APART = ("beyond_one", "unknown_scale")
"""Reasons of discarded values that the doubt about scales tells of."""


def _unknown(connection: duckdb.DuckDBPyConnection, run_id: str) -> Iterator[Doubt]:
    """Tell of countries of which the service knows no company."""
    few = [run_id, _UNKNOWN_MIN, NONE_FOUND_MIN - 1]
    for country, count in connection.execute(_SQL["none_found"], few).fetchall():
        text, step = tell_none_found(country, count)
        yield Doubt(f"None found: {text}", step)


def _left_out(connection: duckdb.DuckDBPyConnection, run_id: str) -> Iterator[Doubt]:
    """Tell of companies that count as unknown only because no answer tells of them: that may be a passing fault."""
    found = connection.execute(_SQL["left_out"], [run_id]).fetchall()
    if found:
        counts = ", ".join(f"{dataset} of {count_of(count, 'company')}" for dataset, count, _ in found)
        yield Doubt(
            f"Not mentioned: the service answered, but said nothing about {counts} (such as {found[0][2]}), so they "
            "count as not found",
            "If they exist, run the list again with --refresh",
        )


def _accounts(connection: duckdb.DuckDBPyConnection, run_id: str) -> Iterator[Doubt]:
    """Tell of companies whose newest accounts cannot be compared, such as accounts in thousands."""
    for count, example in connection.execute(_SQL["doubtful"], [run_id]).fetchall():
        yield Doubt(
            f"Doubtful accounts: the newest of {count_of(count, 'company')} (such as {example})",
            "Growth, medians and sums leave them out; `firmlake query 'FROM portfolio WHERE NOT is_comparable'` lists "
            "them",
        )


def _field(dataset: str, path: str) -> tuple[str, FieldKind]:
    """Return the column and the kind of a field; of an object that is no field, an empty text."""
    fields = DATASETS[dataset].fields.items()
    return next(((name, field.kind) for name, field in fields if path == field.path), ("", "text"))
