"""The runner: carry out an enrichment for the command line, Prefect and Python.

A run is planned, frozen, fetched and staged shard by shard, finished, published and summarised. With `run.expand`, each
expansion step is a run of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path

import msgspec
import polars as pl

from firmlake.api import service
from firmlake.core.clock import utc_now
from firmlake.core.errors import DriftError, FirmlakeError, SomeFailedError, Stopped
from firmlake.core.failure import about_run
from firmlake.core.folders import Folders
from firmlake.core.freeze import remove_run
from firmlake.core.lock import lock
from firmlake.core.log import log
from firmlake.core.memory import give_back, share_arena
from firmlake.core.run import Outcome, Run
from firmlake.core.settings import Settings
from firmlake.enrich import expand
from firmlake.enrich import plan as planning
from firmlake.enrich.finish import decide_outcome, publish_run
from firmlake.enrich.observer import Observer, Published
from firmlake.enrich.shards import fetch_shards
from firmlake.enrich.start import start_or_resume
from firmlake.exports.list_file import FileBack, check_file_back, write_list
from firmlake.landing.segments import list_segments
from firmlake.report.summary import failure_groups, summarise
from firmlake.tables.stage import Manifest, finish_stage, stage_shard, stage_shards
from firmlake.warehouse.generations import LINK, open_warehouse
from firmlake.warehouse.lists import held_name
from firmlake.warehouse.publish import check_room

__all__ = ["carry_out", "enrich", "redrive", "shortfall"]

_FAILED_MAX = 10
_KEY = ("country", "company_number")


def enrich(
    settings: Settings,
    company_list: Path,
    holder: str,
    observer: Observer | None = None,
    now: Callable[[], datetime] = utc_now,
    file_back: FileBack | None = None,
) -> list[Published]:
    """Fetch and publish what is missing or stale for the companies of a list, then for those found by `run.expand`.

    Args:
        settings: The budgets hold for the list and all expansion steps together.
        company_list: A file.
        holder: The text that others see if they find the data folder locked.
        observer: Follows the run; None shows nothing.
        now: The clock, UTC.
        file_back: Where to write the list with the figures of its companies; None writes no file.

    Returns:
        The published runs: first that of the list, then one per expansion step.

    Raises:
        FirmlakeError: Nothing could be published. Landed answers are kept; the same call resumes from them.
    """
    expand.check_expand(settings)
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
    """Ask again for the companies that failed, from any list, and publish the answers.

    Args:
        settings: Budgets and limits.
        holder: The text that others see if they find the data folder locked.
        observer: Follows the run; None shows nothing.
        now: The clock, UTC.

    Returns:
        The published run, or an empty list if nothing has failed.

    Raises:
        FirmlakeError: Nothing could be published. Landed answers are kept; the same call resumes from them.
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
        settings: The settings of the run.
        plan: Makes the plan.
        observer: Follows the run.
        now: The clock, UTC.
        title: The name of the expansion step; empty for the company list itself.

    Returns:
        The published run; None if there is nothing to ask for.

    Raises:
        FirmlakeError: Nothing could be published. Landed answers are kept; the same call resumes from them.
    """
    name = f"{title}: {{}}".format if title else "{}".format
    started = observer.step(name("plan"), partial(_start, settings, plan, observer, now, title))
    if started is None:
        return None
    with about_run(started[0].run_id):
        return _fetch_and_publish(settings, *started, observer, name, now)


def shortfall(published: Iterable[Published]) -> FirmlakeError | None:
    """Return the most serious shortfall of published runs as an error; None if nothing was left undone."""
    found: list[FirmlakeError] = []
    for outcome in (each.outcome for each in published):
        if outcome.outcome == "stopped":
            found.append(Stopped(f"Published what was fetched, but stopped: {outcome.reason}", outcome.next_step))
        elif outcome.outcome == "some_failed":
            found.append(SomeFailedError(f"Published, but {outcome.reason}", outcome.next_step))
    return max(found, key=lambda error: error.exit_code, default=None)


# ---------------------------------------------------------------------------------------------------------------------


def _fetch_and_publish(
    settings: Settings,
    run: Run,
    expected: int,
    credit_count: int,
    observer: Observer,
    name: Callable[[str], str],
    now: Callable[[], datetime],
) -> Published:
    give_back()
    stopped, staged = None, dict[int, Manifest]()
    if run.plan.shard_count and not run.is_fetched:
        check_room(run.folders)
        within = msgspec.structs.replace(settings.run, max_credits=credit_count)
        limited = msgspec.structs.replace(settings, run=within)
        stopped, staged = fetch_shards(limited, run, expected, observer, name, now)
        observer.fetched(stopped.message if stopped else "")
    shards = [
        staged.get(shard) or observer.step(name(f"stage shard {shard}"), partial(stage_shard, run, shard))
        for shard in run.shards()
    ]
    outcome = observer.step(name("publish"), partial(_publish, settings, run, shards, stopped, now))
    with open_warehouse(run.folders) as connection:
        summary = summarise(connection, run.run_id, run.folders.warehouse / LINK)
        assert summary
        published = Published(run, outcome, summary, failure_groups(connection, run.run_id, _FAILED_MAX))
    observer.published(published)
    return published


@contextmanager
def _data_folder(settings: Settings, holder: str) -> Iterator[None]:
    share_arena()
    service.check_access(settings)
    with lock(Folders.of(settings), holder):
        yield


def _plan_list(settings: Settings, company_list: Path, file_back: FileBack | None, now: datetime) -> planning.Planned:
    planned = planning.plan(settings, company_list, now)
    if file_back:
        lines = planned.companies.line_count - planned.companies.header_count
        check_file_back(file_back, company_list, lines)
    return planned


def _go_outward(
    settings: Settings, first: Published, observer: Observer, now: Callable[[], datetime]
) -> list[Published]:
    """Carry out the expansion steps until `run.depth`, a budget or the companies are exhausted."""
    made, known = [first], pl.DataFrame()
    for step in range(1, settings.run.depth + 1 if settings.run.expand else 1):
        last = made[-1]
        if last.outcome.outcome == "stopped":
            break
        inner = last.run.table("companies").select(_KEY)
        known = pl.concat([known, inner]) if step > 1 else inner
        spent = max(last.summary.credit_count or 0, last.summary.expected_credit_count)
        spent += last.run.plan.credits_before
        settings = expand.spend(settings, spent, last.summary.request_count)
        plan = partial(expand.plan_outward, settings, first.run.plan.again, inner, known, step, now())
        title = f"Step {step} of {settings.run.depth}, {settings.run.expand}"
        ended = carry_out(settings, plan, observer, now, title)
        if ended is None:
            break
        made.append(ended)
    return made[1:]


def _start(
    settings: Settings,
    plan: Callable[[], planning.Planned],
    observer: Observer,
    now: Callable[[], datetime],
    title: str,
) -> tuple[Run, int, int] | None:
    """Plan a run and start it. The plan is then released: the targets of a million companies take 400 MB.

    Returns:
        The run, its estimated number of requests, and the credits it may spend (-1: any number); None if there is
        nothing to ask for.
    """
    planned, replaced = plan(), list[Run]()
    while planned.replaced:
        for earlier in planned.replaced:
            is_continued = earlier.plan.list_sha256 == planned.companies.sha256
            spent = planned.budget.before if is_continued else 0
            observer.step(f"publish run {earlier.run_id}", partial(_publish_replaced, settings, earlier, spent, now))
        replaced += planned.replaced
        planned = plan()  # the answers just published are fresh now
    observer.planned(planned._replace(replaced=tuple(replaced)), title)
    if planned.companies.companies.is_empty():
        return None
    run = start_or_resume(settings, planned, now())
    log("planned", run=run.run_id, list=run.plan.list_name, companies=run.plan.target_count)
    expected = sum(planned.estimate.request_counts.values()) - planned.estimate.left_out_count
    return run, expected, planned.budget.credits


def _publish_replaced(settings: Settings, run: Run, spent: int, now: Callable[[], datetime]) -> None:
    """Publish what an unfinished run has fetched, without further requests; remove the run if it has fetched nothing.

    The credits that it and earlier attempts spent count towards the budget of the run that replaces it. If drift
    prevents publishing, the run stays refused, and the run that replaces it continues.
    """
    if not spent and not any(list_segments(run.folders.landing(run.run_id, shard)) for shard in run.shards()):
        remove_run(run)
        return
    stopped = Stopped("it was interrupted, and then its list, the budget or what is due changed", "")
    with suppress(DriftError):
        _publish(settings, run, stage_shards(run), stopped, now, spent)


def _publish(
    settings: Settings,
    run: Run,
    shards: Sequence[Manifest],
    stopped: Stopped | None,
    now: Callable[[], datetime],
    credits_passed_on: int = 0,
) -> Outcome:
    """Load a run into the next generation, after deciding its outcome unless an earlier attempt did."""
    manifest, outcome = finish_stage(run, shards), run.outcome()
    if outcome is None or outcome.is_refused:
        outcome = decide_outcome(settings, run, manifest, stopped, now(), credits_passed_on)
    log("fetched", run=run.run_id, outcome=outcome.outcome, reason=outcome.reason)
    made = publish_run(settings, run, manifest, outcome, now())
    log("published", run=run.run_id, warehouse=made)
    return outcome
