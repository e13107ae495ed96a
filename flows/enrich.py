"""The main job under Prefect: a company list becomes Parquet files and a generation of the warehouse.

    python flows/enrich.py                                              the sample list, on the embedded service
    python flows/enrich.py LIST [--config FILE] [--set KEY=VALUE ...]   the scheduled job, by hand
    flows/enrich.py:enrich                                              its entrypoint, for deployments

The work is that of `firmlake run`; Prefect shows, schedules, cancels and reports it. What is done is known from the
run's folder alone: the same command continues after a kill -9, without Prefect's database, or as `firmlake run`.
"""

from __future__ import annotations

if __name__ == "__main__":
    from by_hand import run_by_hand

    # Before Prefect is imported, which reads its environment then. It imports this file again and does not come back.
    run_by_hand()

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
from prefect import flow

from artifacts import ProgressArtifact, failure_rows, show_on_page, show_report, summary_line
from firmlake import __version__
from firmlake.api.exchange import Answer
from firmlake.core.errors import FirmlakeError
from firmlake.core.settings import NameSettings, Settings
from firmlake.core.steps import utc_now
from firmlake.enrich import run as runner
from firmlake.enrich.observer import Observer
from firmlake.enrich.plan import Planned
from firmlake.enrich.run import Published, shortfall
from firmlake.exports.list_file import FileBack, Written
from firmlake.report.page import write_report
from firmlake.terminal.company_lists import describe_written
from firmlake.terminal.progress import Counter, show_progress
from firmlake.terminal.runs import describe_list, describe_plan, show_summary
from firmlake.warehouse.generations import open_warehouse
from job import as_task, end, in_one_line, read_job, show, tell


@flow(version=__version__, persist_result=False, retries=0)
@in_one_line
def enrich(
    company_list: str | None = None,
    config: str | None = None,
    overrides: dict[str, str] | None = None,
    out: str | None = None,
    columns: list[str] | None = None,
) -> str:
    """Fetch what is missing or stale for the companies of a list, and publish it.

    Args:
        company_list: A file. None takes the sample list and the embedded service.
        config: A settings file. None takes config/firmlake.toml.
        overrides: Settings by dotted key. Prefect stores and shows all of these: nothing secret belongs here.
        out: File that the list is written to, with what is held of its companies: .csv, .parquet or .xlsx.
        columns: What is added there, as for `firmlake run --columns`. None adds the default.

    Returns:
        The run's name.
    """
    settings, path = read_job(company_list, config, overrides)
    wanted = FileBack(Path(out), tuple(columns or ())) if out else None
    published = runner.enrich(settings, path, f"the flow enrich over {path}", OnPage(), file_back=wanted)
    as_task("report", lambda: report(settings, published))
    return conclude(published)


class OnPage(Observer):
    """Shows a run on its page in Prefect: each step as a task, progress and results as artifacts."""

    step = staticmethod(as_task)

    def planned(self, planned: Planned, title: str) -> None:
        """Log what was read and what it will cost."""
        if title:
            tell(f"{title}:")
        for line in (*describe_list(planned.companies), *describe_plan(planned)):
            tell(line)

    @contextmanager
    def fetching(self, expected: int, names: NameSettings) -> Iterator[Callable[[Answer], object]]:
        """Show how far fetching is: on the page, and by hand on stderr."""
        self._counter = Counter(expected, names)
        with show_progress(self._counter), ProgressArtifact(self._counter) as self._artifact:
            yield self._counter.count

    def waiting(self, why: str) -> None:
        """Show what fetching waits for, beside how far it is."""
        self._counter.why = why

    def fetched(self, stopped: str) -> None:
        """Log what fetching came to."""
        tell(f"Fetched: {self._counter.summary()}")
        if not stopped:
            self._artifact.finish()

    def published(self, published: Published) -> None:
        """Show what the run came to: on stdout, and on its page."""
        show(lambda: show_summary(published.summary, published.failed))
        with open_warehouse(published.run.folders) as connection:
            rows = failure_rows(connection, published.run.run_id)
        show_on_page(published.summary, rows)

    def written(self, written: Written) -> None:
        """Log what was written."""
        for line in describe_written(written):
            tell(line)


def report(settings: Settings, published: Sequence[Published]) -> None:
    """Write the report as a file to look at, and say on the page where it lies."""
    for last in published[-1:]:
        try:
            made = write_report(last.run.folders, utc_now(), memory_limit=settings.run.duckdb_memory)
            show_report(made, last.summary)
        except (FirmlakeError, OSError, duckdb.Error) as error:
            tell(f"Published, but the report could not be written ({error}); `firmlake report` tries again")


def conclude(published: Sequence[Published]) -> str:
    """End as the worst of the runs did.

    A run that is not complete is Failed in Prefect although it is published: notifications and automations go by the
    state, and nobody looks at what is green.
    """
    if error := shortfall(published):
        raise error
    if not published:
        return end("", "There is nobody to ask")
    return end(published[0].run.run_id, "; ".join(summary_line(each.summary) for each in published))
