"""The main job under Prefect: a company list becomes Parquet files and a generation of the warehouse.

    python flows/enrich.py                                              the sample list, on the embedded service
    python flows/enrich.py LIST [--config FILE] [--set KEY=VALUE ...]   the scheduled job, by hand
    firmlake.flows.enrich.enrich                                        its entrypoint, for deployments

The flow does the same work as `firmlake run`; Prefect schedules, shows, cancels and reports it. The state of a run is
kept in its folder alone: the same command, or `firmlake run`, resumes it after a kill -9, even without Prefect's
database.
"""

from __future__ import annotations

if __name__ == "__main__":
    from by_hand import run_by_hand

    # Before Prefect is imported, since it reads its environment on import. Imports this file again, and never returns.
    run_by_hand()

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb

from artifacts import (
    ProgressArtifact,
    alert_rows,
    announce,
    failure_lines,
    failure_rows,
    show_on_page,
    show_report,
    summary_line,
)
from firmlake.api.exchange import Answer
from firmlake.core.clock import utc_now
from firmlake.core.errors import FirmlakeError
from firmlake.core.folders import Folders
from firmlake.core.settings import ApiSettings, DatasetName, Settings
from firmlake.delivery.list_file import FileBack, Written
from firmlake.enrich import run as runner
from firmlake.enrich.observer import Observer, Published
from firmlake.enrich.plan import Planned
from firmlake.enrich.run import shortfall
from firmlake.intake.source import local_list
from firmlake.report.page import write_report
from firmlake.terminal.company_lists import describe_written
from firmlake.terminal.plan import describe_list, describe_plan, describe_prices
from firmlake.terminal.progress import Counter, show_progress
from firmlake.terminal.runs import show_summary
from firmlake.warehouse.generations import open_warehouse
from job import as_task, end, job, read_job, record, show, tell


@job(hours=48)
def enrich(
    company_list: str | None = None,
    config: str | None = None,
    overrides: dict[str, str] | None = None,
    out: str | None = None,
    columns: list[str] | None = None,
    sql: str = "",
    datasets: list[DatasetName] | None = None,
    max_credits: int | None = None,
) -> str:
    """Fetch what is missing or stale for the companies of a list, and publish it.

    Args:
        company_list: A file, an s3://, gs:// or az:// address, or a DuckDB file. None uses the sample list on the
            embedded service, if started by hand.
        config: A settings file. None reads config/firmlake.toml.
        overrides: Settings by dotted key. Prefect stores and shows all parameters: pass no secrets.
        out: Write the list with the figures of its companies to this file: .csv, .parquet or .xlsx.
        columns: Columns to add to that file, named as in `firmlake run --columns`. None adds the default columns.
        sql: Use the result of this DuckDB query as the list; with a DuckDB file, a query over it.
        datasets: Datasets to fetch. None uses `run.datasets`.
        max_credits: Stop before spending more credits. None uses `run.max_credits`.

    Returns:
        The name of the run.
    """
    typed = {"datasets": ",".join(datasets or ()) or None, "max_credits": max_credits}
    given = {f"run.{name}": str(value) for name, value in typed.items() if value is not None}
    settings, source = read_job(company_list, config, {**(overrides or {}), **given}, sql)
    wanted = FileBack(Path(out), tuple(columns or ())) if out else None
    with local_list(source, sql, settings, Folders.of(settings).inputs) as path:
        observer = OnPage(settings.run.credit_price)
        published = runner.enrich(settings, path, f"the flow enrich over {path}", observer, file_back=wanted)
    as_task("report", lambda: report(settings, published))
    return conclude(published)


class OnPage(Observer):
    """The observer that shows a run on its page in Prefect: steps as tasks, progress and results as artifacts."""

    step = staticmethod(as_task)

    def __init__(self, credit_price: str = "") -> None:
        self.credit_price = credit_price

    def planned(self, planned: Planned, title: str) -> None:
        """Log what was read from the list, and what the run will cost."""
        if title:
            tell(f"{title}:")
        for line in (*describe_list(planned.companies), *describe_plan(planned)):
            tell(line)

    @contextmanager
    def fetching(self, expected: int, api: ApiSettings) -> Iterator[Callable[[Answer], object]]:
        """Show the progress of fetching on the page, and on stderr if started by hand."""
        self._counter = Counter(expected, api)
        with show_progress(self._counter), ProgressArtifact(self._counter) as self._artifact:
            yield self._counter.count

    def waiting(self, why: str) -> None:
        """Show why fetching waits, beside the progress."""
        self._counter.why = why

    def advised(self, advice: str) -> None:
        """Log which settings were found."""
        tell(advice)

    def fetched(self, stopped: str) -> None:
        """Log the number of requests, their duration and the credits."""
        tell(f"Fetched: {self._counter.summary()}")
        if not stopped:
            self._artifact.finish()

    def published(self, published: Published) -> None:
        """Show the result of the run on stdout, in its log and on its page."""
        show(lambda: show_summary(published.summary, published.failed))
        for line in (summary_line(published.summary), *failure_lines(published.failed)):
            record(line)
        with open_warehouse(published.run.folders, with_held=True) as connection:
            rows = failure_rows(connection, published.summary.run_id)
            alerts = alert_rows(connection, published.summary.run_id)
        announce(published, alerts)
        show_on_page(published.summary, rows, alerts)

    def priced(self, planned: Planned) -> None:
        """Log what the rest of the list will cost, after a sample of it."""
        for line in describe_prices(planned, self.credit_price):
            tell(line)

    def written(self, written: Written) -> None:
        """Log which file was written."""
        for line in describe_written(written):
            tell(line)


def report(settings: Settings, published: Sequence[Published]) -> None:
    """Write the report as a file, and show its path on the page."""
    for last in published[-1:]:
        try:
            memory = settings.run.duckdb_memory
            made = write_report(last.run.folders, utc_now(), memory_limit=memory, run=settings.run)
            show_report(made, last.summary)
        except (FirmlakeError, OSError, duckdb.Error) as error:
            tell(f"Published, but the report could not be written ({error}); `firmlake report` tries again")


def conclude(published: Sequence[Published]) -> str:
    """End as the worst of the runs did.

    An incomplete run is Failed in Prefect although it is published: notifications and automations depend on the state,
    and a completed run would go unnoticed.
    """
    if error := shortfall(published):
        raise error
    if not published:
        return end("", "There is nothing to fetch")
    return end(published[0].summary.run_id, "; ".join(summary_line(each.summary) for each in published))
