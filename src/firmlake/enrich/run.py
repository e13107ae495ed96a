"""The runner: the one function that carries out an enrichment, whoever starts it.

A run is planned, frozen, fetched shard by shard, staged, finished, published and summed up. With `run.expand` each step
outward is a run of its own. Each shard is handed to staging as soon as it is fetched, while others are in flight.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from contextvars import copy_context
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

import polars as pl

from firmlake.api import service
from firmlake.core.errors import FirmlakeError, InterruptedRunError, SomeFailedError, Stopped
from firmlake.core.lock import lock
from firmlake.core.log import log
from firmlake.core.memory import collecting_rarely
from firmlake.core.run import Folders, Outcome, Run
from firmlake.core.settings import Settings
from firmlake.core.signals import graceful
from firmlake.core.steps import utc_now
from firmlake.enrich import plan as planning
from firmlake.enrich.observer import Observer
from firmlake.enrich.stages import fetching, finish, publish_run
from firmlake.exports.list_file import FileBack, check_file_back, write_list
from firmlake.report.summary import RunSummary, failures, summarise
from firmlake.tables.stage import Manifest, finish_stage, stage_shard
from firmlake.warehouse.generations import LINK, open_warehouse
from firmlake.warehouse.members import held_name

__all__ = ["Published", "carry_out", "enrich", "redrive", "shortfall"]

_SHARDS_AT_ONCE = 2
"""So that none waits for the end of another; more would only share the same allowance."""
_SIGNALS_EVERY_SECONDS = 0.2
_FAILED_MAX = 10
_KEY = ("country", "company_number")


class Published(NamedTuple):
    """What a run came to.

    Attributes:
        failed: The first companies that failed: country, company number, dataset, reason, attempts.
    """

    run: Run
    outcome: Outcome
    summary: RunSummary
    failed: list[tuple[str, str, str, str, int]]


def enrich(
    settings: Settings,
    company_list: Path,
    holder: str,
    observer: Observer | None = None,
    now: Callable[[], datetime] = utc_now,
    file_back: FileBack | None = None,
) -> list[Published]:
    """Fetch what is missing or stale for the companies of a list, and publish it; then go outward by `run.expand`.

    Args:
        settings: The budgets are those of all steps together.
        company_list: A file.
        holder: Who holds the data folder meanwhile, for others to read.
        observer: Follows the run; None shows nothing.
        now: The clock, UTC.
        file_back: Where the list is written to, with what is held of its companies; None writes it nowhere.

    Returns:
        The runs that were published: that of the list, then one for each step outward.

    Raises:
        FirmlakeError: Nothing could be published; what has landed is kept, and the same call goes on with it.
    """
    planning.check_expand(settings)
    observer = observer or Observer()
    if file_back:
        check_file_back(file_back, company_list)
    with _data_folder(settings, holder):
        first = carry_out(settings, lambda: _plan_list(settings, company_list, file_back, now()), observer, now)
        if first is None:
            return []
        published = [first, *_go_outward(settings, first, observer, now)]
        if file_back:
            name = held_name(first.run)
            write = partial(write_list, first.run.folders, name, file_back, settings.run.duckdb_memory)
            observer.written(observer.step(f"write {file_back.path.name}", write))
        return published


def redrive(
    settings: Settings, holder: str, observer: Observer | None = None, now: Callable[[], datetime] = utc_now
) -> list[Published]:
    """Ask again for the companies that failed, whatever list they came from; else as `enrich`.

    Returns:
        The run; none where there is nobody to ask.
    """
    with _data_folder(settings, holder):
        made = carry_out(settings, lambda: planning.plan_redrive(settings, now()), observer or Observer(), now)
    return [made] if made else []


def carry_out(
    settings: Settings,
    plan: Callable[[], planning.Planned],
    observer: Observer,
    now: Callable[[], datetime],
    title: str = "",
) -> Published | None:
    """Carry out one run, for a caller that holds the data folder.

    Args:
        settings: Its settings.
        plan: Makes the plan.
        observer: Follows the run.
        now: The clock, UTC.
        title: Which step outward it is; empty for a list.

    Returns:
        The run that was published; None where there is nobody to ask.

    Raises:
        FirmlakeError: As `enrich`.
    """
    name = f"{title}: {{}}".format if title else "{}".format
    frozen = observer.step(name("plan"), partial(_freeze, settings, plan, observer, now, title))
    if frozen is None:
        return None
    run, expected = frozen
    stopped, staged = None, dict[int, Manifest]()
    if run.plan.shard_count and not run.is_fetched:
        stopped, staged = _fetch(settings, run, expected, observer, name)
        observer.fetched(stopped.message if stopped else "")
    shards = [
        staged.get(shard) or observer.step(name(f"stage shard {shard}"), partial(stage_shard, run, shard))
        for shard in run.shards()
    ]
    outcome = observer.step(name("publish"), partial(_publish, settings, run, shards, stopped, now))
    with open_warehouse(run.folders) as connection:
        summary = summarise(connection, run.run_id, run.folders.warehouse / LINK)
        assert summary
        published = Published(run, outcome, summary, failures(connection, run.run_id, _FAILED_MAX))
    observer.published(published)
    return published


def shortfall(published: Iterable[Published]) -> FirmlakeError | None:
    """Say as an error what published runs left undone, the worst of it; None where all is done."""
    found: list[FirmlakeError] = []
    for outcome in (each.outcome for each in published):
        if outcome.outcome == "stopped":
            found.append(Stopped(f"Published what there is, but stopped: {outcome.reason}", outcome.next_step))
        elif outcome.outcome == "some_failed":
            found.append(SomeFailedError(f"Published, but {outcome.reason}", outcome.next_step))
    return max(found, key=lambda error: error.exit_code, default=None)


# ---------------------------------------------------------------------------------------------------------------------


def _data_folder(settings: Settings, holder: str) -> AbstractContextManager[None]:
    service.check_access(settings)
    return lock(Folders.of(settings), holder)


def _plan_list(settings: Settings, company_list: Path, file_back: FileBack | None, now: datetime) -> planning.Planned:
    planned = planning.plan(settings, company_list, now)
    if file_back:
        lines = planned.companies.line_count - planned.companies.header_count
        check_file_back(file_back, company_list, lines)
    return planned


def _go_outward(
    settings: Settings, first: Published, observer: Observer, now: Callable[[], datetime]
) -> list[Published]:
    """Fetch the companies beside those of a run, step by step, until a budget or the companies end."""
    made, known = [first], pl.DataFrame()
    for step in range(1, settings.run.depth + 1 if settings.run.expand else 1):
        last = made[-1]
        if last.outcome.outcome == "stopped":
            break
        inner = last.run.table("companies").select(_KEY)
        known = pl.concat([known, inner]) if step > 1 else inner
        settings = planning.spend(settings, last.summary.expected_credit_count, last.summary.request_count)
        plan = partial(planning.plan_outward, settings, inner, known, step, now())
        title = f"Step {step} of {settings.run.depth}, {settings.run.expand}"
        ended = carry_out(settings, plan, observer, now, title)
        if ended is None:
            break
        made.append(ended)
    return made[1:]


def _freeze(
    settings: Settings,
    plan: Callable[[], planning.Planned],
    observer: Observer,
    now: Callable[[], datetime],
    title: str,
) -> tuple[Run, int] | None:
    """Plan a run and freeze it. The plan itself is dropped: the targets of a million companies take 400 MB.

    Returns:
        The run and about how many requests it takes; None where there is nobody to ask.
    """
    planned = plan()
    observer.planned(planned, title)
    if planned.companies.companies.is_empty():
        return None
    run = planning.freeze(settings, planned, now())
    log("planned", run=run.run_id, list=run.plan.list_name, companies=run.plan.target_count)
    return run, sum(planned.estimate.request_counts.values())


def _fetch(
    settings: Settings, run: Run, expected: int, observer: Observer, name: Callable[[str], str]
) -> tuple[Stopped | None, dict[int, Manifest]]:
    """Fetch all shards, and stage each that is fetched whole.

    Returns:
        Why fetching stopped before its end; None when every company is answered or given up. And what was staged.
    """
    staged: dict[int, Manifest] = {}
    one_at_a_time = threading.Lock()  # the frames of a shard take as much memory again

    @collecting_rarely()
    def fetch_and_stage(shard: int) -> None:
        fetched = observer.step(name(f"fetch shard {shard}"), partial(fetcher.fetch_shard, shard), str)
        with one_at_a_time:
            stage = partial(stage_shard, run, shard, fetched.progress)
            staged[shard] = observer.step(name(f"stage shard {shard}"), stage)

    with (
        graceful() as stop,
        observer.fetching(expected, settings.api.names) as on_answer,
        service.connect(settings, stop, observer.waiting) as client,
        fetching(settings, run, client, on_answer) as fetcher,
    ):
        stopped = _in_threads(fetch_and_stage, range(1, run.plan.shard_count + 1), stop)
    return stopped, staged


def _in_threads(work: Callable[[int], None], shards: Sequence[int], stop: threading.Event) -> Stopped | None:
    """Do the work of all shards, a few at once. However this ends, none of it is under way any more.

    Args:
        work: Of a shard, by its number; in the context of the caller, which is how Prefect knows the flow run.
        shards: Their numbers.
        stop: Makes the work end early.

    Returns:
        Why a shard stopped before its end; None where none did.

    Raises:
        InterruptedRunError: A signal came.
        FirmlakeError: Nothing more can be fetched now.
    """
    stopped: Stopped | None = None
    with ThreadPoolExecutor(_SHARDS_AT_ONCE, thread_name_prefix="shard") as pool:
        pending = {pool.submit(copy_context().run, work, shard) for shard in shards}
        try:
            while pending:
                # Not for ever: Polars leaves a handler for SIGINT that does not wake a thread from an endless wait.
                done, pending = wait(pending, _SIGNALS_EVERY_SECONDS, FIRST_COMPLETED)
                for future in done:
                    try:
                        future.result()
                    except InterruptedRunError:
                        raise
                    except Stopped as error:
                        stopped = stopped or error
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return stopped


def _publish(
    settings: Settings, run: Run, shards: Sequence[Manifest], stopped: Stopped | None, now: Callable[[], datetime]
) -> Outcome:
    """Decide how a run ended, and load it into the next generation of the warehouse."""
    manifest = finish_stage(run, shards)
    outcome = finish(settings, run, manifest, stopped, now())
    log("fetched", run=run.run_id, outcome=outcome.outcome, reason=outcome.reason)
    made = publish_run(settings, run, manifest, outcome, now())
    log("published", run=run.run_id, warehouse=made)
    return outcome
