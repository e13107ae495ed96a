"""The output about a plan, a run and its results."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from firmlake.core.text import one_line, shown
from firmlake.enrich.lookup import HeldCompany
from firmlake.enrich.plan import Planned
from firmlake.enrich.sample import Whole
from firmlake.enrich.targets import count_companies
from firmlake.intake.company_list import CompanyList
from firmlake.report.alerts import describe_counts
from firmlake.report.feed import Event, describe
from firmlake.report.summary import FailureGroup, RunSummary, shown_statuses
from firmlake.terminal.echo import echo
from firmlake.terminal.progress import duration
from firmlake.terminal.results import QueryResult, show_whole
from firmlake.terminal.rows import SHOWN_FIRST, SHOWN_MAX, count_of, show_long_table, show_table

__all__ = [
    "describe_list",
    "describe_plan",
    "describe_refused",
    "first_query",
    "plan_content",
    "show_changes",
    "show_company",
    "show_refused",
    "show_summary",
]

_REFUSED_MAX = 10
_REFUSED_NAMED = 5
_GIVEN_MAX = 60


def describe_list(companies: CompanyList) -> Iterator[str]:
    """Describe what was read from a company list."""
    yield (
        f"{shown(companies.path.name)}: {count_of(companies.companies.height, 'company', 'companies')} accepted, "
        f"{count_of(companies.repaired.height, 'line')} repaired, {companies.refused.height:,} refused, "
        f"{companies.repeated_count} repeated"
    )
    yield from companies.guesses


def describe_plan(planned: Planned) -> Iterator[str]:
    """Describe what a run will fetch and cost."""
    if planned.unfinished:
        yield f"Continuing run {planned.unfinished.run_id} of {planned.unfinished.plan.started_at:%Y-%m-%d %H:%M} UTC"
    still, held = ("Still to fetch", "fresh or landed") if planned.unfinished else ("To fetch", "fresh")
    content = plan_content(planned)
    requests = ", ".join(f"{dataset} {count}" for dataset, count in content["requests"].items())
    yield (
        f"{still}: {count_of(content['target_count'], 'company', 'companies')} ({content['fresh_count']} {held}), "
        f"about {sum(content['requests'].values())} requests{f' ({requests})' if requests else ''}, "
        f"at most {count_of(content['credits'], 'credit', 'credits')}, "
        f"{duration(content['minutes'] * 60)} at the allowance"
    )
    yield from _describe_waits(planned)
    if planned.whole:
        count, whole = planned.whole
        yield (
            f"A sample: the whole list is {count_of(count, 'company', 'companies')}, about "
            f"{sum(whole.request_counts.values())} requests, at most {count_of(whole.credit_count, 'credit')}, "
            f"{duration(whole.minutes * 60)} at the allowance"
        )
    if count := content["free_refreshes"]:
        yield (
            f"Refreshed for free, in the last days of their paid window: {count_of(count, 'company', 'companies')} of "
            "these, which saves as many credits"
        )
    if planned.refresh_off:
        yield planned.refresh_off
    if line := planned.budget.tell(content["credits"]):
        yield line
    if content["waiting_count"]:
        setting = planned.budget.limit.split(" ")[0] or "run.max_credits"
        yield f"Left out by {setting}: {count_of(content['waiting_count'], 'company', 'companies')}"
    if left := content["left_out_requests"]:
        yield f"Left to the next run by run.max_requests: about {count_of(left, 'request', 'requests')}"
    if planned.ahead:
        count, latest = planned.ahead
        yield (
            f"{count_of(count, 'answer has a time', 'answers have times')} in the future, up to "
            f"{latest:%Y-%m-%d %H:%M} UTC: the clock was wrong then, so these do not count as fresh or paid for"
        )
    for run_id in content["replaced"]:
        yield (
            f"Run {run_id} was interrupted, and its list has changed or its rest costs more than the budget: what it "
            "fetched is published first"
        )
    for other in content["unfinished_elsewhere"]:
        yield (
            f"Run {other['run_id']} of {other['list']} is unfinished and has paid for "
            f"{count_of(other['paid_count'], 'company', 'companies')} of these: run {other['list']} again first, so "
            "that they are not fetched twice"
        )


def plan_content(planned: Planned) -> dict[str, Any]:
    """Convert a plan to plain values for JSON."""
    companies = planned.companies
    asked = count_companies(planned.targets)
    return {
        "list": str(companies.path),
        "company_count": companies.companies.height,
        "repaired_count": companies.repaired.height,
        "refused_count": companies.refused.height,
        "repeated_count": companies.repeated_count,
        "fresh_count": companies.companies.height - asked,
        "target_count": asked - planned.waiting_count,
        "waiting_count": planned.waiting_count,
        "requests": planned.estimate.request_counts,
        "left_out_requests": planned.estimate.left_out_count,
        "credits": planned.estimate.credit_count,
        "free_refreshes": planned.estimate.refresh_count,
        "minutes": round(planned.estimate.minutes, 2),
        "wait_seconds": round(planned.waits.wait_seconds, 1) if planned.waits else 0.0,
        "waits_because": planned.waits.why if planned.waits else "",
        "continues_run": planned.unfinished.run_id if planned.unfinished else None,
        "whole": _whole_content(planned.whole),
        "replaced": [run.run_id for run in planned.replaced],
        "unfinished_elsewhere": [
            {"run_id": run.run_id, "list": run.plan.list_name, "paid_count": count} for run, count in planned.others
        ],
        "guesses": companies.guesses,
        "refused": companies.refused.head(1000).to_dicts(),
    }


def _whole_content(whole: Whole | None) -> dict[str, Any] | None:
    if whole is None:
        return None
    return {
        "target_count": whole.target_count,
        "requests": whole.estimate.request_counts,
        "credits": whole.estimate.credit_count,
        "minutes": round(whole.estimate.minutes, 2),
    }


def describe_refused(companies: CompanyList, name: str) -> Iterator[str]:
    """Describe the first refused lines of a list, and how to see all of the list `name`."""
    for line, given, reason in companies.refused.select("line", "given", "reason").head(_REFUSED_NAMED).rows():
        text = "" if given is None else f"{one_line(given, _GIVEN_MAX) or '(empty)'}: "  # a forgotten line has no text
        yield f"  line {line}: {text}{reason}"
    if companies.refused.height > _REFUSED_NAMED:
        yield f"  and {companies.refused.height - _REFUSED_NAMED:,} more: firmlake list show {shlex.quote(name)}"


def show_refused(companies: CompanyList) -> None:
    """List the first refused lines."""
    rows = companies.refused.select("line", "given", "reason").head(_REFUSED_MAX).rows()
    if rows:
        show_table(("line", "given", "refused because"), rows)
    if companies.refused.height > _REFUSED_MAX:
        echo(f"... and {companies.refused.height - _REFUSED_MAX} more; `--json` lists up to a thousand")


def show_summary(summary: RunSummary, failed: Sequence[FailureGroup], *, is_resumed: bool = False) -> None:
    """Print the result of a run; after the first one that left nothing undone, also a first query."""
    statuses = shown_statuses(summary.datasets)
    rows = [[dataset, *(counts.get(status, 0) for status in statuses)] for dataset, counts in summary.datasets.items()]
    show_table(("companies by dataset", *(status.replace("_", " ") for status in statuses)), rows)
    written = ", ".join(f"{count:,} {table}" for table, count in summary.rows.items())
    echo(f"Rows written: {written}")
    spent = "unknown" if summary.credit_count is None else f"{summary.credit_count:,}"
    unfit = f"Rejected records: {summary.reject_count:,}   Discarded values: {summary.discard_count:,}"
    all_in = " in all" if is_resumed else ""
    echo(f"Requests{all_in}: {summary.request_count:,}   Credits{all_in}: {spent}   {unfit}")
    if summary.free_refresh_count:
        echo(
            f"Refreshed for free: {count_of(summary.free_refresh_count, 'company', 'companies')}, as many credits saved"
        )
    if summary.unexplained_bill:
        echo(summary.unexplained_bill)
    if summary.drift:
        show_table(("drift in", "kind", "where", "records"), summary.drift)
    if failed:
        rows = [[f.dataset, f.company_count, f.reason, ", ".join(_examples(f))] for f in failed]
        show_table(("failed dataset", "companies", "because", "such as"), rows)
        echo("`firmlake query 'FROM dead_letters'` has every one of them")
    if summary.alerts:
        echo(f"Alerts: {describe_counts(summary.alerts)}; `firmlake alerts` lists them")
    for line in summary.doubts:
        echo(line)
    echo(f"Warehouse: {summary.warehouse} (generation {summary.generation}, run {summary.run_id}, {summary.outcome})")
    if summary.generation == 1 and summary.outcome == "done":
        echo(f"Next: {first_query(summary)}")


def first_query(summary: RunSummary) -> str:
    """Return a command that queries the warehouse of a run."""
    command = Path(sys.executable).with_name("firmlake")
    here = command.relative_to(Path.cwd()) if command.is_relative_to(Path.cwd()) else command
    name = "firmlake" if shutil.which("firmlake") else shlex.quote(str(here))
    return f'{name} query --data {shlex.quote(str(summary.warehouse.parents[1]))} "{_QUERY}"'


def show_company(found: HeldCompany) -> None:
    """Print the data of one company."""
    if not found.is_found:
        echo(f"{found.company}: the service knows no such company")
        return
    echo(f"{found.company}: {found.name or '-'}, {found.place or '-'}")
    for table, columns in _COMPANY_COLUMNS.items():
        frame = found.tables.get(table)
        if frame is not None:
            answer = QueryResult([name.replace("_", " ") for name in columns], frame.select(columns).rows())
            show_whole(answer, f"{table} ({frame.height})")
    for dataset, path, reason in found.rejects:
        echo(f"Does not fit in {dataset}: {path or 'a record'}: {reason}")


def show_changes(events: Iterable[Event]) -> None:
    """Print events: all of them, or on a terminal the number of each kind and the first ones if there are many."""
    kinds: Counter[str] = Counter()
    events = _counted(events, kinds)
    columns = ("found", "name", "number", "event", "about", "change")
    if not sys.stdout.isatty():
        show_long_table(columns, map(_change, events))
    else:
        first = list(islice(events, SHOWN_MAX + 1))
        is_long = len(first) > SHOWN_MAX
        show_table(columns, [_change(event) for event in first[: SHOWN_FIRST if is_long else None]])
        if is_long:
            deque(events, maxlen=0)  # counts the rest
            show_table(("event", "events"), [(kind.replace("_", " "), count) for kind, count in kinds.most_common()])
            echo(
                f"Shown: the first {SHOWN_FIRST}. --kind, --company, --list and --since choose others; "
                "--out FILE.csv writes all"
            )
    echo(count_of(kinds.total(), "event", "events"))


# ---------------------------------------------------------------------------------------------------------------------


def _describe_waits(planned: Planned) -> Iterator[str]:
    """Say what the run has to expect of the allowance, if that is less than the settings allow."""
    if waits := planned.waits:
        if waits.why:
            yield f"The first request is sent in {duration(waits.wait_seconds)}: {waits.why}"
        if waits.pace:
            yield f"Pace: {waits.pace}"


def _examples(failed: FailureGroup) -> list[str]:
    return [*failed.examples, *(["..."] if failed.company_count > len(failed.examples) else [])]


def _counted(events: Iterable[Event], kinds: Counter[str]) -> Iterator[Event]:
    """Count the events of each kind as they pass."""
    for event in events:
        kinds[event.kind] += 1
        yield event


def _change(event: Event) -> tuple[str | None, ...]:
    return (f"{event.found_at:%Y-%m-%d}", event.name, event.subject, event.kind.replace("_", " "), *describe(event))


_COMPANY_COLUMNS = {
    "financials": (
        "end_date", "revenue", "ebitda", "net_profit", "total_assets", "equity", "debt", "employee_count",
    ),
    "lookalikes": ("rank", "lookalike_country", "lookalike_company_number", "score"),
    "relationships": (
        "direction", "related_kind", "related_name", "related_country", "related_company_number", "function",
        "stake_fraction",
    ),
}  # fmt: skip

_QUERY = "SELECT name, revenue FROM financials JOIN companies USING (country, company_number) LIMIT 5"
