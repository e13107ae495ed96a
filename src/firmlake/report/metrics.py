"""The state of a data folder as OpenMetrics text, for the text-file collector of a node exporter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from firmlake.report.status import Status

__all__ = ["render_metrics"]

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
    yield "running", "1 while a process works on the data folder", [({}, float(bool(status.running)))]
    yield "unfinished_runs", "Runs that are not in the warehouse", [({}, len(status.unfinished))]
    yield "failed", "1 if work on the data folder failed since the last run", [({}, float(bool(status.failure)))]
    if last := status.last_run:
        yield (
            "last_run_finished_timestamp_seconds",
            "End of the last published run, by outcome",
            [({"outcome": last.outcome}, _seconds(last.finished_at))],
        )
        yield "last_run_companies", "Companies the last run asked for", [({}, last.target_count)]
        yield "last_run_requests", "Answers the last run received", [({}, last.request_count)]
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
    exports = [({"target": last.target}, _seconds(last.exported_at)) for last in status.exports]
    yield "last_export_timestamp_seconds", "The last export to each place", exports
    yield "disk_bytes", "Size of a folder", [({"folder": name}, size) for name, size in status.disk_bytes.items()]
    yield "disk_free_bytes", "Free space on the disk of the data folder", [({}, status.disk_free_bytes)]


def _seconds(moment: datetime) -> float:
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
