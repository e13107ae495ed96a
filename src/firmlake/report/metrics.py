"""The state of a data folder as OpenMetrics text, for the text-file collector of a node exporter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from firmlake.core.errors import EXIT_DONE, EXIT_SOME_FAILED, EXIT_STOPPED
from firmlake.report.state import Status
from firmlake.report.summary import RunSummary

__all__ = ["render_metrics"]

_EXIT_CODES = {"done": EXIT_DONE, "some_failed": EXIT_SOME_FAILED, "stopped": EXIT_STOPPED}
_Sample = tuple[dict[str, str], float]


def render_metrics(status: Status) -> str:
    """Write the metrics as text. A metric without a value yet is left out. Times are in seconds since 1970."""
    return "\n".join([*_lines(status), "# EOF"]) + "\n"


# ---------------------------------------------------------------------------------------------------------------------


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
    yield "unfinished_runs", "Runs that are not in the warehouse", [({}, len(status.unfinished))]
    yield "failed", "1 if work on the data folder failed since the last run", [({}, float(bool(status.failure)))]
    yield "failed_deliveries", "Exports and loads whose last attempt failed", [({}, len(status.undelivered))]
    if last := status.last_run:
        yield (
            "last_run_finished_timestamp_seconds",
            "End of the last published run, by outcome",
            [({"outcome": last.outcome}, _seconds(last.finished_at))],
        )
        yield "last_run_companies", "Companies the last run asked for", [({}, last.target_count)]
        yield "last_run_refused_lines", "Lines of its list that name no company", [({}, last.refused_count)]
        yield "last_run_exit_code", "Exit code of the last run, 0 if it is done", [({}, _exit_code(status))]
        yield "last_run_duration_seconds", "From the plan to the last answer", [({}, _duration(last))]
        if last.credit_count is not None:
            yield "last_run_credits", "Credits the last run was charged", [({}, last.credit_count)]
        yield "last_run_expected_credits", "Credits our ledger expects of it", [({}, last.expected_credit_count)]
        yield "last_run_free_refreshes", "Companies it refreshed for free", [({}, last.free_refresh_count)]
        drift = sum(count for *_, count in last.drift)
        yield "last_run_drift_records", "Records that differ from the contract", [({}, drift)]
        yield "generation", "Number of the newest generation", [({}, last.generation)]
        yield "last_run_requests", "Requests the last run sent, every attempt counted", [({}, last.request_count)]
    counts = [
        ({"dataset": dataset, "status": state}, float(count))
        for dataset, states in status.companies.items()
        for state, count in states.items()
    ]
    yield "companies", "Companies by dataset and latest status", counts
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


def _exit_code(status: Status) -> int:
    if status.failure and not status.failure.is_mended:
        return status.failure.exit_code
    return _EXIT_CODES.get(status.last_run.outcome, EXIT_DONE) if status.last_run else EXIT_DONE


def _duration(last: RunSummary) -> float:
    return (last.finished_at - last.started_at).total_seconds()


def _seconds(moment: datetime) -> float:
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
