"""The summary of a published run, as one value that a terminal, a flow or a script can show."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, get_origin

import duckdb
import msgspec

from firmlake.core.sql import fetch_dicts, read_queries
from firmlake.report.causes import find_doubts
from firmlake.report.feed import AlertCounts, count_alerts
from firmlake.tables.schemas import COMPANY_TABLES
from firmlake.warehouse.gates import Unchanged
from firmlake.warehouse.generations import HELD

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
    def is_charged_too_much(self) -> bool:
        """Whether the service says that it charged more than our ledger expects."""
        return (self.credit_count or 0) > self.expected_credit_count

    @property
    def unexplained_bill(self) -> str:
        """A warning if the bill differs from our ledger; empty if they agree or the service reports no charges."""
        if self.credit_count is None or self.credit_count == self.expected_credit_count:
            return ""
        difference = self.credit_count - self.expected_credit_count
        comment = "Ask the service before the next run" if self.is_charged_too_much else _BOUGHT_BEFORE
        return (
            f"Unexplained bill: the service charged {self.credit_count:,} credits, our ledger expects "
            f"{self.expected_credit_count:,} ({abs(difference):,} {'more' if difference > 0 else 'fewer'}). {comment}; "
            "`FROM spend` has every run, `requests` every charge"
        )


_EMPTY: dict[Any, Any] = {bool: False, int: 0, str: "", dict: {}, list: []}


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
