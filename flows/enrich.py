"""The main job under Prefect: a company list becomes Parquet files and a generation of the warehouse.

    python flows/enrich.py                                              the sample list, on the embedded service
    python flows/enrich.py LIST [--config FILE] [--set KEY=VALUE ...]   the scheduled job, by hand
    flows/enrich.py:enrich                                              its entrypoint, for deployments

Prefect shows, schedules, cancels and reports. What is done is known from the run's folder alone, so that the same
command continues after a kill -9, without Prefect's database, or as `firmlake run`.
"""

from __future__ import annotations

if __name__ == "__main__":
    from by_hand import run_by_hand

    # Before Prefect is imported, which reads its environment then. It imports this file again and does not come back.
    run_by_hand()

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
from prefect import flow, unmapped
from prefect.task_runners import ThreadPoolTaskRunner

from artifacts import ProgressArtifact, failure_rows, show_on_page, show_report, summary_line
from firmlake import __version__
from firmlake.api import service
from firmlake.core.errors import FirmlakeError, Stopped
from firmlake.core.lock import lock
from firmlake.core.run import Folders, Outcome, Run
from firmlake.core.settings import Settings
from firmlake.enrich import plan as planning
from firmlake.enrich import stages as pipeline
from firmlake.landing.fetch import Fetcher, ShardResult
from firmlake.report.page import write_report
from firmlake.report.summary import RunSummary, failures, summarise
from firmlake.tables import stage
from firmlake.tables.stage import Manifest, finish_stage
from firmlake.terminal.progress import Counter, show_progress
from firmlake.terminal.runs import describe_list, describe_plan, show_summary
from firmlake.warehouse.generations import LINK, open_warehouse
from job import CompaniesFailedError, end, finish_tasks, in_one_line, read_job, show, step, tell

_RUNNER: Any = ThreadPoolTaskRunner(max_workers=2)
"""Two shards at once, so that none waits for the end of another; more would only share the same allowance."""


@flow(version=__version__, task_runner=_RUNNER, persist_result=False, retries=0)
@in_one_line
def enrich(company_list: str | None = None, config: str | None = None, overrides: dict[str, str] | None = None) -> str:
    """Fetch what is missing or stale for the companies of a list, and publish it.

    Args:
        company_list: A file. None takes the sample list and the embedded service.
        config: A settings file. None takes config/firmlake.toml.
        overrides: Settings by dotted key. Prefect stores and shows all three: nothing secret belongs here.

    Returns:
        The run's name.
    """
    settings, path = read_job(company_list, config, overrides)
    service.check_access(settings)
    with lock(Folders(Path(settings.paths.data)), f"the flow enrich over {path}"):
        run, expected = plan(settings, path, return_state=True).result()
        stopped = fetch(settings, run, expected)
        shards = finish_tasks(stage_shard.map(list(run.shards()), unmapped(run)))
        outcome = publish(settings, run, shards, stopped, return_state=True).result()
    summary = report(settings, run, return_state=True).result()
    return conclude(outcome, summary)


@step("plan")
def plan(settings: Settings, company_list: Path) -> tuple[Run, int]:
    """Read the list, work out what to ask for, and freeze it; or take up the run that did not end.

    Returns:
        The run, and about how many requests it needs.
    """
    planned = planning.plan(settings, company_list, _now())
    for line in (*describe_list(planned.companies), *describe_plan(planned)):
        tell(line)
    return planning.freeze(settings, planned, _now()), sum(planned.estimate.request_counts.values())


def fetch(settings: Settings, run: Run, expected: int) -> str:
    """Fetch all shards of a run.

    Returns:
        Why it stopped before its end; empty when every company is answered or given up.
    """
    if not run.plan.shard_count or run.is_fetched:
        return ""
    counter, stop = Counter(expected, settings.api.names), threading.Event()
    with (
        service.connect(settings, stop) as client,
        show_progress(counter),
        pipeline.fetching(settings, run, client, counter.count) as fetcher,
    ):
        shards = fetch_shard.map(list(range(1, run.plan.shard_count + 1)), unmapped(fetcher), unmapped(stop))
        progress = ProgressArtifact(counter)
        ended = finish_tasks(shards, stop, progress.update, keep=(Stopped,))
    tell(f"Fetched: {counter.summary()}")
    stops = [error.message for error in ended if isinstance(error, Stopped)]
    if stops:
        return stops[0]
    progress.finish()
    return ""


@step("fetch shard {shard}")
def fetch_shard(shard: int, fetcher: Fetcher, stop: threading.Event) -> ShardResult:
    """Fetch what a shard still lacks; all its requests are made here, and the client repeats them where that helps."""
    try:
        result = fetcher.fetch_shard(shard)
    except Stopped:
        raise
    except BaseException:
        stop.set()  # the other shards would only find out the same
        raise
    return end(
        result,
        f"{result.answered} answered, {result.not_found} not found, {result.failed} failed, {result.pending} open",
    )


@step("stage shard {shard}")
def stage_shard(shard: int, run: Run) -> Manifest:
    """Flatten the landed answers of a shard into Parquet files, unless that is done already."""
    return stage.stage_shard(run, shard)


@step("publish")
def publish(settings: Settings, run: Run, shards: list[Manifest], stopped: str) -> Outcome:
    """Decide how the run ended, and load it into the next generation of the warehouse."""
    manifest = finish_stage(run, shards)
    outcome = pipeline.finish(settings, run, manifest, stopped, _now())
    pipeline.publish_run(settings, run, manifest, outcome, _now())
    return outcome


@step("report")
def report(settings: Settings, run: Run) -> str:
    """Show what the run came to: on stdout, on its page in Prefect, and as a file to look at."""
    summary, failed, rows = _read_summary(run)
    show(lambda: show_summary(summary, failed))
    show_on_page(summary, rows)
    try:
        made = write_report(run.folders, _now(), memory_limit=settings.run.duckdb_memory)
        show_report(made, summary)
    except (FirmlakeError, OSError, duckdb.Error) as error:
        tell(f"Published, but the report could not be written ({error}); `firmlake report` tries again")
    return summary_line(summary)


def conclude(outcome: Outcome, summary: str) -> str:
    """End as the outcome says.

    A run that is not complete is Failed in Prefect although it is published: notifications and automations go by the
    state, and nobody looks at what is green.
    """
    if outcome.outcome == "stopped":
        raise Stopped(f"Published what there is, but stopped: {outcome.reason}", "Run again to go on where it stopped")
    if outcome.outcome == "some_failed":
        raise CompaniesFailedError(f"Published, but {outcome.reason}", pipeline.ASK_AGAIN)
    return end(outcome.run_id, summary)


def _read_summary(run: Run) -> tuple[RunSummary, list[Any], list[dict[str, Any]]]:
    with open_warehouse(run.folders) as connection:
        summary = summarise(connection, run.run_id, run.folders.warehouse / LINK)
        assert summary
        return summary, failures(connection, run.run_id, 10), failure_rows(connection, run.run_id)


def _now() -> datetime:
    return datetime.now(UTC)
