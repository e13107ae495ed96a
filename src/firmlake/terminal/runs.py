"""The output about a run, one company and a check."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from firmlake.check.finding import VERDICTS, needs_you, worth_saying
from firmlake.core.settings import Settings
from firmlake.core.text import count_of
from firmlake.delivery.list_file import Written
from firmlake.enrich.check import Checked
from firmlake.enrich.contact import REQUESTS_MAX, Asking
from firmlake.enrich.events import Advice, Event, Fetched, Fetching, PlanMade, Priced, Published
from firmlake.enrich.lookup import HeldCompany
from firmlake.intake.lines import list_name_of
from firmlake.report.feed import describe_counts
from firmlake.report.summary import FailureGroup, RunSummary, shown_statuses
from firmlake.terminal.company_lists import describe_written
from firmlake.terminal.plan import describe_list, describe_plan, describe_prices, describe_refused
from firmlake.terminal.progress import Counter, show_progress
from firmlake.terminal.rows import Part, Table


class RunOutput:
    """Shows the events of a run: lines about its plan, the progress of fetching, and the summary of its result.

    Use it as a context manager, which ends the progress however the run ends.
    """

    def __init__(
        self, settings: Settings, say: Callable[[str], object], show: Callable[[Iterable[Part]], object]
    ) -> None:
        self._settings, self._say, self._show = settings.run, say, show
        self._is_resumed = False
        self._progress = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.close()

    def __call__(self, event: Event) -> Counter | None:
        """Show an event."""
        self._progress.close()  # of an attempt that the service refused, too
        if isinstance(event, PlanMade):
            self._is_resumed = event.planned.unfinished is not None
        match event:
            case Fetching(expected, api):
                self.counter = Counter(expected, api)
                self._progress.enter_context(show_progress(self.counter))
                return self.counter
            case Fetched():
                self._say(f"Fetched{' now' if self._is_resumed else ''}: {self.counter.summary()}")
            case Published():
                self._show(summary_parts(event.summary, event.failed, is_resumed=self._is_resumed))
            case _:
                for line in self._describe(event):
                    self._say(line)
                if isinstance(event, PlanMade) and event.planned.companies.companies.is_empty():
                    self._show(["There is nothing to fetch"])
        return None

    def _describe(self, event: Event) -> Iterator[str]:
        match event:
            case PlanMade(planned, title):
                yield from [f"\n{title}:"] if title else []
                if not planned.companies.companies.is_empty():
                    name = self._settings.list_name or list_name_of(planned.companies.path)
                    yield from describe_list(planned.companies)
                    yield from describe_refused(planned.companies, name)
                    yield from describe_plan(planned)
            case Advice(text):
                yield text
            case Priced(planned):
                yield "\nThe rest of the list, judged by what was fetched so far:"
                yield from describe_prices(planned, self._settings.credit_price)
            case Written():
                yield from describe_written(event)


def summary_parts(summary: RunSummary, failed: Sequence[FailureGroup], *, is_resumed: bool = False) -> Iterator[Part]:
    """Yield the result of a run; after a complete first run, also suggest a query."""
    statuses = shown_statuses(summary.datasets)
    rows = [[dataset, *(counts.get(status, 0) for status in statuses)] for dataset, counts in summary.datasets.items()]
    yield Table(("companies by dataset", *(status.replace("_", " ") for status in statuses)), rows)
    if summary.is_unchanged:
        yield f"Nothing to load: the list, its settings and rules are those of its last run. {_NEWEST.format(summary)}"
        yield from _suggest(summary)
        return
    written = ", ".join(f"{count:,} {table}" for table, count in summary.rows.items())
    yield f"Rows written: {written}"
    told, counted = summary.credit_count, f"{summary.expected_credit_count:,} by our count"
    spent = counted if told is None else f"{told:,}"
    unfit = f"Rejected records: {summary.reject_count:,}   Discarded values: {summary.discard_count:,}"
    all_in = " in all" if is_resumed else ""
    yield f"Requests{all_in}: {summary.request_count:,}   Credits{all_in}: {spent}   {unfit}"
    if summary.free_refresh_count:
        yield f"Refreshed for free: {count_of(summary.free_refresh_count, 'company')}, each saving a credit"
    if summary.unexplained_bill:
        yield summary.unexplained_bill
    if summary.drift:
        yield Table(("drift in", "kind", "where", "records"), summary.drift)
        yield "Drift is what differs from the specification; docs/data_dictionary.md (table drift) explains each kind"
    if failed:
        rows = [[f.dataset, f.company_count, f.reason, ", ".join(_examples(f))] for f in failed]
        yield Table(("failed dataset", "companies", "because", "such as"), rows)
        yield "`firmlake query 'FROM dead_letters'` lists all of them"
    if summary.alerts:
        alerts = f"`firmlake alerts --data {_data(summary)}`"  # the demo's folder is not the one in the settings
        yield f"Alerts: {describe_counts(summary.alerts)}; {alerts} lists them"
    yield from summary.doubts
    yield f"Warehouse: {summary.warehouse} (generation {summary.generation}, run {summary.run_id}, {summary.outcome})"
    yield from _suggest(summary)


def _suggest(summary: RunSummary) -> Iterator[Part]:
    """Suggest a first query, as long as there is one generation."""
    if summary.generation == 1 and summary.outcome == "done" and not summary.is_held:
        yield f"Next: {first_query(summary)}"


def first_query(summary: RunSummary) -> str:
    """Return a command that queries the warehouse of a run."""
    command = Path(sys.executable).with_name("firmlake")
    here = command.relative_to(Path.cwd()) if command.is_relative_to(Path.cwd()) else command
    name = "firmlake" if shutil.which("firmlake") else shlex.quote(str(here))
    return f'{name} query --data {_data(summary)} "{_QUERY}"'


def _data(summary: RunSummary) -> str:
    return shlex.quote(str(summary.warehouse.parents[1]))


def company_parts(found: HeldCompany) -> Iterator[Part]:
    """Yield the data of one company."""
    if not found.is_found:
        what = "no answer to show" if found.shortfall else "the service does not know this company"
        yield f"{found.company}: {what}"
        return
    yield f"{found.company}: {found.name or '-'}, {found.place or '-'}"
    for table, columns in _COMPANY_COLUMNS.items():
        frame = found.tables.get(table)
        if frame is not None:
            names = [name.replace("_", " ") for name in columns]
            yield Table(names, frame.select(columns).rows(), f"{table} ({frame.height})", is_folded=False)
    for dataset, path, reason in found.rejects:
        yield f"Does not fit in {dataset}: {path or 'a record'}: {reason}"


def _examples(failed: FailureGroup) -> list[str]:
    return [*failed.examples, *(["..."] if failed.company_count > len(failed.examples) else [])]


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

_NEWEST = "Generation {0.generation} stays as it is: {0.warehouse}"

_QUERY = "SELECT name, revenue FROM financials JOIN companies USING (country, company_number) LIMIT 5"


def describe_asking(settings: Settings, asking: Asking) -> str:
    """Describe what a check will ask for and cost, before anything is sent."""
    names = ", ".join(map(str, asking.companies))
    stranger = f", and for {asking.stranger}, which does not exist" if asking.stranger else ""
    return (
        f"Asks {settings.api.base_url} for {names}{stranger}: at most {count_of(asking.credit_count, 'credit')} and "
        f"{REQUESTS_MAX} requests. Nothing is changed at the service: lists are only read. If the service charges for "
        "every request and its headers show that, the check stops"
    )


def check_content(checked: Checked) -> dict[str, Any]:
    """Convert a check to plain values for JSON."""
    return {
        "findings": checked.findings, "settings": checked.changes, "request_count": checked.request_count,
        "credits_charged": checked.charged, "run_id": checked.run_id or None,
        "needs_you_count": len(needs_you(checked.findings)),
    }  # fmt: skip


def describe_file(path: Path, checked: Checked) -> str:
    """Describe the settings file that a check wrote, and what to do with it."""
    points = needs_you(checked.findings)
    has = (
        f"{count_of(len(checked.changes), 'new setting')}" if checked.changes else "the settings in use, and no new one"
    )
    if points and not checked.changes:
        return f"{path}, with {has}: runs will end as without it. First do what the table asks of you, then check again"
    first = "First do what the table asks of you. " if points else ""
    return f"{path}, with {has}. {first}To use it: `firmlake run LIST --config {shlex.quote(str(path))}`"


def checked_parts(checked: Checked) -> Iterator[Part]:
    """Yield the findings as a table, then the next steps."""
    yield Table(
        ("assumption", "seen", "verdict"),
        [(one.assumption, one.seen, VERDICTS[one.verdict]) for one in checked.findings],
    )
    charged = "credits unknown" if checked.charged is None else f"{count_of(checked.charged, 'credit')} charged"
    yield (
        f"{count_of(checked.request_count, 'request')}, {charged}; "
        f"{count_of(len(checked.changes), 'setting')} to change"
    )
    for one in [*needs_you(checked.findings), *worth_saying(checked.findings)]:
        yield f"- {one.assumption}: {one.seen}. {one.next_step}"
