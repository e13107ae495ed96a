"""The state of a data folder as OpenMetrics text, for the text-file collector of a node exporter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from firmlake.report.status import Status

_Sample = tuple[dict[str, str], float]


def render_metrics(status: Status) -> str:
    """Write the metrics as text. A metric without a value yet is left out. Times are in seconds since 1970."""
    return "\n".join([*_lines(status), "# EOF"]) + "\n"


def _lines(status: Status) -> Iterator[str]:
    for name, meaning, samples in _families(status):
        yield f"# TYPE firmlake_{name} gauge"
        yield f"# HELP firmlake_{name} {meaning}"
        for labels, value in samples:
            inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            yield f"firmlake_{name}{{{inside}}} {value:.15g}" if inside else f"firmlake_{name} {value:.15g}"


def _families(status: Status) -> Iterator[tuple[str, str, Iterable[_Sample]]]:
    yield "written_timestamp_seconds", "When these metrics were written", [({}, datetime.now(UTC).timestamp())]
    yield "running", "1 while a process works on the data folder", [({}, float(bool(status.running)))]
    yield "outdated", "1 if another version of firmlake made the warehouse", [({}, float(bool(status.outdated)))]
    yield "held", "1 if a gate holds the newest generation back", [({}, float(bool(status.held)))]
    yield from _families_of_lists(status)
    yield "failed_deliveries", "Exports and loads whose last attempt failed", [({}, len(status.undelivered))]
    if status.last_run:
        yield "generation", "Number of the newest generation, also one held back", [({}, status.last_run.generation)]
    counts = [
        ({"dataset": dataset, "status": state}, float(count))
        for dataset, states in status.companies.items()
        for state, count in states.items()
    ]
    yield "companies", "Companies by dataset and latest status", counts
    lacking = [
        ({"list": each.list_name or "", "dataset": each.dataset or "", "cause": each.cause}, float(each.company_count))
        for each in status.incomplete
    ]
    yield "incomplete_companies", "Companies that lack a dataset, by list (empty: all) and cause", lacking
    for name, moment in (("oldest", status.oldest_answer_at), ("newest", status.newest_answer_at)):
        if moment:
            yield f"{name}_answer_timestamp_seconds", f"The {name} answer held", [({}, _seconds(moment))]
    if status.credits_remaining is not None:
        yield "credits_remaining", "Credits left, as last told", [({}, status.credits_remaining)]
    if bill := status.bill:
        yield "month_credits", "Credits spent in this calendar month", [({}, bill.spent)]
        if bill.budget is not None:
            yield "month_credits_budget", "run.max_credits_per_month", [({}, bill.budget)]
        yield "free_refreshes", "Companies refreshed for free since the first run", [({}, bill.free_refreshes)]
        yield "forecast_credits", "Credits of the next four weeks", [({}, bill.forecast)]
    exports = [({"target": last.target}, _seconds(last.exported_at)) for last in status.exports]
    yield "last_export_timestamp_seconds", "The last export to each place", exports
    yield "disk_bytes", "Size of a folder", [({"folder": name}, size) for name, size in status.disk_bytes.items()]
    yield "disk_free_bytes", "Free space on the disk of the data folder", [({}, status.disk_free_bytes)]


def _families_of_lists(status: Status) -> Iterator[tuple[str, str, Iterable[_Sample]]]:
    """Yield what is known of each list, with its name as label, so that no list hides another."""
    other = [each for each in status.failures if not each.list_name]
    failed = [({"list": each.name}, float(bool(each.failure))) for each in status.lists]
    failed.append(({"list": ""}, float(bool(other))))
    yield "failed", "1 if work on the list, or without a list, failed last", failed
    unfinished = [({"list": each.name}, float(len(each.unfinished))) for each in status.lists]
    yield "unfinished_runs", "Runs of the list that are not in the warehouse", unfinished
    codes = [({"list": each.name}, each.exit_code) for each in status.lists if each.exit_code is not None]
    yield "last_run_exit_code", "Exit code of the list's failure or last run, 0 if it is done", codes
    runs = [({"list": each.name}, each.last_run) for each in status.lists if each.last_run]
    ended = [(labels | {"outcome": run["outcome"]}, _seconds(run["finished_at"])) for labels, run in runs]
    yield "last_run_finished_timestamp_seconds", "End of the list's last published run, by outcome", ended
    durations = [(labels, (run["finished_at"] - run["started_at"]).total_seconds()) for labels, run in runs]
    yield "last_run_duration_seconds", "From its plan to its last answer", durations
    for metric, column, meaning in _OF_RUN:
        yield metric, meaning, [(at, run[column]) for at, run in runs if run[column] is not None]


_OF_RUN = (
    ("last_run_companies", "target_count", "Companies that the list's last run asked for"),
    ("last_run_refused_lines", "refused_count", "Lines of its list that name no company"),
    ("last_run_credits", "credit_count", "Credits it was charged"),
    ("last_run_expected_credits", "expected_credit_count", "Credits our ledger expects of it"),
    ("last_run_free_refreshes", "free_refresh_count", "Companies it refreshed for free"),
    ("last_run_drift_records", "drift_count", "Records that differ from the contract"),
    ("last_run_requests", "request_count", "Requests it sent, every attempt counted"),
)
"""Metrics of a list's last run: name, column of `ListRun`, and meaning."""


def _seconds(moment: datetime) -> float:
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
