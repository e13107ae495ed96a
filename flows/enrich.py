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
    from by_hand import start

    start(__file__)  # before Prefect is imported, which reads its environment then; never returns

from collections.abc import Sequence
from pathlib import Path

import duckdb

import artifacts
from firmlake.core.errors import FirmlakeError
from firmlake.core.folders import Folders
from firmlake.core.settings import DatasetName, Settings
from firmlake.core.work import utc_now
from firmlake.delivery.list_file import FileBack
from firmlake.enrich import run as runner
from firmlake.enrich.events import Event, Fetched, Fetching, Published
from firmlake.enrich.run import shortfall
from firmlake.intake.source import local_list
from firmlake.report.page import write_report
from firmlake.terminal.progress import Counter
from firmlake.terminal.runs import RunOutput
from job import as_task, end, job, read_job, record, show_parts, tell


@job(hours=48)
def enrich(
    company_list: str | None = None,
    *,
    config: str | None = None,
    overrides: dict[str, str] | None = None,
    out: str | None = None,
    columns: list[str] | None = None,
    sql: str = "",
    datasets: list[DatasetName] | None = None,
    max_credits: int | None = None,
) -> str:
    """Fetch what is missing or stale for the companies of LIST, and publish it.

    Started by hand, it uses the Prefect server that PREFECT_API_URL or your profile names, or a temporary one.

    Args:
        company_list ([LIST]): A file, an s3://, gs:// or az:// address, or a DuckDB file. None uses the sample list on
            the embedded service, if started by hand.
        config: A settings file. None reads config/firmlake.toml.
        overrides: Settings by dotted key. Prefect stores and shows all parameters: pass no secrets.
        out (FILE): Write the list with the figures of its companies to this file: .csv, .parquet or .xlsx.
        columns (NAME): Columns to add to that file, named as in `firmlake run --columns`. None adds the default ones.
        sql (QUERY): Use the result of this DuckDB query as the list; with a DuckDB file, a query over it.
        datasets: Datasets to fetch. None uses `run.datasets`.
        max_credits (N): Stop before spending more credits. None uses `run.max_credits`.

    Returns:
        The name of the run.
    """
    typed = {"datasets": ",".join(datasets or ()) or None, "max_credits": max_credits}
    given = {f"run.{name}": str(value) for name, value in typed.items() if value is not None}
    settings, source = read_job(company_list, config, {**(overrides or {}), **given}, sql)
    wanted = FileBack(Path(out), tuple(columns or ())) if out else None
    with local_list(source, sql, settings, Folders.of(settings).inputs) as path:
        holder = f"the flow enrich over {path}"
        with OnPage(settings, tell, show_parts) as page:
            published = runner.enrich(settings, path, holder, page, file_back=wanted, carry_out=as_task)
    as_task("report", lambda: report(settings, published))
    return conclude(published)


class OnPage(RunOutput):
    """Shows a run in its log and on its page in Prefect: progress and results as artifacts."""

    def __call__(self, event: Event) -> Counter | None:
        """Show an event."""
        counter = super().__call__(event)
        match event:
            case Fetching():
                self._artifact = self._progress.enter_context(artifacts.ProgressArtifact(self.counter))
            case Fetched(""):
                self._artifact.finish()
            case Published():
                record(artifacts.summary_line(event.summary))
                artifacts.show_on_page(event)
        return counter


def report(settings: Settings, published: Sequence[Published]) -> None:
    """Write the report as a file, and show its path on the page."""
    for last in published[-1:]:
        try:
            memory = settings.run.duckdb_memory
            path = write_report(last.run.folders, utc_now(), memory_limit=memory, run=settings.run).resolve()
            text = f"{path}: one file, which a browser opens. The next run replaces it."  # Prefect shows no HTML
            artifacts.show_markdown("enrich-report", text, f"The report after run {last.summary.run_id}")
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
    return end(published[0].summary.run_id, "; ".join(artifacts.summary_line(each.summary) for each in published))
