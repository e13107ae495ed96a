"""The runner: carry out an enrichment for the command line, Prefect and Python.

A run is planned, begun, fetched and staged shard by shard, finished, published and summarised. With `run.expand`, each
expansion step is a run of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

import msgspec
import polars as pl

from firmlake import __version__
from firmlake.api import service
from firmlake.api.service import service_name
from firmlake.core.company import Company
from firmlake.core.errors import (
    DriftError,
    FirmlakeError,
    HeldError,
    RequestRefusedError,
    SomeFailedError,
    Stopped,
    UsageError,
)
from firmlake.core.folders import Folders
from firmlake.core.log import log
from firmlake.core.process import give_back, share_arena
from firmlake.core.settings import Settings, change_settings
from firmlake.core.text import count_of, duration
from firmlake.core.work import CarryOut, Clock, about_run, at_once, lock, utc_now
from firmlake.delivery.list_file import FileBack, check_file_back, write_list
from firmlake.enrich import expand
from firmlake.enrich import plan as planning
from firmlake.enrich.contact import NO_SETTINGS, Met, adopt, look_closer, meet
from firmlake.enrich.events import Advice, Fetched, PlanMade, Priced, Published, Show, Step, Steps, follow, say_nothing
from firmlake.enrich.finish import decide_outcome, open_staged, publish_run
from firmlake.enrich.held import find_unloaded, is_of_call, renew_index
from firmlake.enrich.plan import Planned
from firmlake.enrich.shards import fetch_shards
from firmlake.enrich.targets import Estimate, count_companies, estimate
from firmlake.enrich.values import VALUES_MIN, changes_by_values, describe_values
from firmlake.intake.lines import CompanyList, ListColumns, lines_of, list_name_of, store_lines
from firmlake.landing.charged import untold_credits
from firmlake.landing.run import UNCHANGED, Outcome, Run, RunPlan, begin, new_run_id, read_runs, remove_run
from firmlake.privacy.cleaning import clean_frame
from firmlake.privacy.forgotten import open_forgotten
from firmlake.report.causes import join_causes, left_out
from firmlake.report.summary import failure_groups, summarise, summarise_unchanged
from firmlake.tables.stage import Manifest, clear_stage, finish_stage, stage_shard, stage_shards
from firmlake.warehouse.gates import Unchanged, find_same_run, why_held
from firmlake.warehouse.generations import kept_open, newest_link, newest_of_all, open_warehouse, restore_link
from firmlake.warehouse.lists import count_held, held_name
from firmlake.warehouse.rules import read_gates, read_rules

_FAILED_MAX = 10
_LOOKED_AT = 10_000
"""Companies of a list among which those of a first contact are chosen."""
_KEY = ("country", "company_number")


def enrich(
    settings: Settings,
    company_list: Path,
    holder: str,
    show: Show = say_nothing,
    now: Clock = utc_now,
    file_back: FileBack | None = None,
    carry_out: CarryOut = at_once,
) -> list[Published]:
    """Fetch and publish what is missing or stale for the companies of a list, then for those found by `run.expand`.

    Args:
        settings: The budgets hold for the list and all expansion steps together.
        company_list: A file.
        holder: The text that others see if they find the data folder locked.
        show: Called with each event, see `follow`.
        now: The clock, UTC.
        file_back: Where to write the list with the figures of its companies, unless a gate holds them back; None writes
            no file.
        carry_out: Carries out each step.

    Returns:
        The published runs: first that of the list, then one per expansion step.

    Raises:
        FirmlakeError: Nothing could be published. Landed answers are kept; the same call resumes from them.
    """
    expand.check_expand(settings)
    if file_back:
        check_file_back(file_back, company_list)
    with _data_folder(settings, holder, settings.run.list_name or list_name_of(company_list)):
        return follow(_run_list(settings, company_list, now, file_back), show, carry_out)


def redrive(settings: Settings, holder: str, show: Show = say_nothing, now: Clock = utc_now) -> list[Published]:
    """Ask again for the companies that failed, from any list, and publish the answers; empty if nothing has failed.

    See `enrich` for arguments and errors.
    """
    with _data_folder(settings, holder):
        made = follow(run_plan(settings, lambda: planning.plan_redrive(settings, now()), now), show)
    return [made] if made else []


def _run_list(settings: Settings, company_list: Path, now: Clock, file_back: FileBack | None) -> Steps[list[Published]]:
    first = yield from run_plan(settings, lambda: _plan_list(settings, company_list, file_back, now()), now)
    if first is None:
        if file_back:
            yield Advice(f"{file_back.path} is not written: no company is left to sample. Run it without --sample")
        return []
    # As a first contact found them; the budgets stay those that were given.
    settings = change_settings(settings, {"api": first.settings.api, "contract": first.settings.contract})
    published = yield from _go_outward(settings, first, now)
    if file_back and not published[-1].summary.is_held:
        name = held_name(first.run)
        write = partial(write_list, first.run.folders, name, file_back, settings.run.duckdb_memory)
        yield (yield Step(f"write {file_back.path.name}", write))
    if settings.run.sample:
        rest = change_settings(settings, {"run.sample": 0})
        yield Priced(planning.plan(rest, company_list, now(), is_priced=True))
    return published


def run_plan(
    settings: Settings, plan: Callable[[], planning.Planned], now: Clock, title: str = "", values_min: int = 0
) -> Steps[Published | None]:
    """Carry out a run, as `enrich` does, for a caller that holds the data folder; None if there is nothing to ask for.

    Args:
        plan: Makes the plan.
        title: The name of the expansion step; empty for the company list itself.
        values_min: So many values of a field tell its scale at first contact; 0 leaves that to `run.check`.
    """
    name = f"{title}: {{}}".format if title else "{}".format
    started = yield from _start(settings, plan, now, title, name)
    if not isinstance(started, Started):
        return started
    run, expected, credit_count, companies = started
    with about_run(run.run_id):
        met = yield from meet(settings, run, companies, now)
        least = values_min or VALUES_MIN * settings.run.check
        publish = partial(_fetch_and_publish, credit_count=credit_count, name=name, now=now, values_min=least)
        while True:
            try:
                expected = yield from _expect(settings, met, expected)
                return (yield from publish(met, expected))
            except RequestRefusedError as error:
                if met.has_asked_all:
                    error.next_step = NO_SETTINGS
                if not met.looks_closer:
                    raise
            settings = met.settings
            met = yield from look_closer(met, companies, now)


def _expect(planned: Settings, met: Met, expected: int) -> Steps[int]:
    """Estimate the requests of a run again if a first contact changed how they are sent, and say so if they are many.

    So many requests were `expected` by the settings `planned`.
    """
    before, now = planned.api, met.settings.api
    if now == before or not expected:
        return expected
    targets = (
        met.run.scan_targets().select("shard", *_KEY, "dataset", "is_paid", "is_refresh", "expected_count").collect()
    )
    was, count = (sum(estimate(api, targets, ()).request_counts.values()) for api in (before, now))
    count = max(1, round(expected * count / max(was, 1)))  # a run that goes on has fewer left
    if count > 2 * expected:
        time = duration(60 * count / now.requests_per_minute) if now.requests_per_minute else "no limit"
        yield Advice(f"With these settings the list takes about {count_of(count, 'request')}, {time} at the allowance")
    return count


def shortfall(published: Sequence[Published]) -> FirmlakeError | None:
    """Return the most serious shortfall of published runs as an error; None if nothing was left undone."""
    found: list[FirmlakeError] = []
    for outcome in (each.outcome for each in published):
        if outcome.outcome == "stopped":
            found.append(Stopped(f"Published what was fetched, but stopped: {outcome.reason}", outcome.next_step))
        elif outcome.outcome == "some_failed":
            found.append(SomeFailedError(f"Published, but {outcome.reason}", outcome.next_step))
    worst = max(found, key=lambda error: error.exit_code, default=None)
    held = why_held(published[-1].run.folders) if published else None
    if held and worst:
        reasons = dict.fromkeys(each.outcome.reason for each in published if each.outcome.reason)
        return HeldError(f"{held.message}. Besides, {'; '.join(reasons)}", f"{held.next_step}. {worst.next_step}")
    return held or worst


def _fetch_and_publish(
    met: Met, expected: int, credit_count: int, name: Callable[[str], str], now: Clock, values_min: int
) -> Steps[Published]:
    settings, run, looks_closer = met.settings, met.run, met.looks_closer
    give_back()
    stopped, staged = None, dict[int, Manifest]()
    if run.plan.shard_count:
        limited = change_settings(settings, {"run.max_credits": credit_count})
        stopped, staged = yield from fetch_shards(limited, run, expected, name, now, looks_closer=looks_closer)
        yield Fetched(stopped.message if stopped else "")
    shards = yield from _stage(run, name, staged)
    if values_min and newest_of_all(run.folders) is None:
        settings, run, shards = yield from _read_values(settings, run, shards, name, now, values_min)
    published: Published = yield Step(name("publish"), partial(_publish, settings, run, shards, stopped, now))
    yield published
    if published.summary.credit_count is None and (untold := untold_credits(run)):
        yield Advice(untold)
    return published


def _read_values(
    settings: Settings, run: Run, shards: list[Manifest], name: Callable[[str], str], now: Clock, values_min: int
) -> Steps[tuple[Settings, Run, list[Manifest]]]:
    """Stage the first answers of a service again if their values show that it writes them in another way."""
    files = [each for shard in shards for each in shard.files]
    with open_staged(settings, run, files) as staged:
        changes = changes_by_values(run, staged, values_min)
    if not changes:
        return settings, run, shards
    said = f"The values of this first run: {describe_values(changes, settings.contract)}"
    settings, run = yield from adopt(settings, run, changes, [], now(), said)
    clear_stage(run)
    again = yield from _stage(run, lambda step: name(f"{step} again"), {})
    return settings, run, again


def _stage(run: Run, name: Callable[[str], str], staged: dict[int, Manifest]) -> Steps[list[Manifest]]:
    """Stage the shards that are not staged yet, and return all."""
    for shard in run.shards():
        if shard not in staged:
            staged[shard] = yield Step(name(f"stage shard {shard}"), partial(stage_shard, run, shard))
    return [staged[shard] for shard in run.shards()]


def _end_unchanged(settings: Settings, run: Run, now: Clock) -> Published | None:
    """End a run that has nothing to load, without a generation; None if it has something.

    Return its summary with the last published run of the same list, whose tables are equal.
    """
    last = find_same_run(run)
    if last is None:
        return None
    count = count_companies(run.scan_targets().collect())
    causes = [left_out(settings, run.plan, count)] if count else []
    unchanged = Unchanged(run.run_id, run.plan.started_at, now(), *join_causes(causes), count)
    last.note(UNCHANGED, unchanged, unchanged.finished_at)
    remove_run(run)
    log("unchanged", run=run.run_id, same=last.run_id)
    with open_warehouse(run.folders, with_held=True) as connection:
        has_rules = run.plan.alert_rules is not None
        summary = summarise_unchanged(connection, last.run_id, unchanged, newest_link(run.folders), has_rules=has_rules)
    plan = msgspec.structs.replace(last.plan, resume=run.plan.resume)
    outcome = Outcome(
        run_id=run.run_id,
        finished_at=unchanged.finished_at,
        outcome=unchanged.outcome,
        reason=unchanged.reason,
        next_step=unchanged.next_step,
    )
    return Published(Run(last.folders, plan), outcome, summary, [], settings)


@contextmanager
def _data_folder(settings: Settings, holder: str, list_name: str = "") -> Iterator[None]:
    share_arena()
    service.check_access(settings)
    with lock(Folders.of(settings), holder, list_name=list_name):
        yield


def _plan_list(settings: Settings, company_list: Path, file_back: FileBack | None, now: datetime) -> planning.Planned:
    try:
        planned = planning.plan(settings, company_list, now)
        if file_back:
            lines = planned.companies.line_count - planned.companies.header_count
            check_file_back(file_back, company_list, lines)
    except UsageError as error:
        error.is_recorded = _has_run_before(settings, company_list)
        raise
    return planned


def _has_run_before(settings: Settings, company_list: Path) -> bool:
    """Return whether the list has run before, from a file of this name unless a setting names the list.

    The mistakes of a call that is repeated, such as a scheduled one, stay visible; a mistyped file is nobody's list.
    """
    named = settings.run.list_name
    name = (named or list_name_of(company_list)).casefold()
    return any(
        held_name(run).casefold() == name and (named or run.plan.list_name == company_list.name)
        for run in read_runs(Folders.of(settings))[0]
    )


def _go_outward(settings: Settings, first: Published, now: Clock) -> Steps[list[Published]]:
    """Carry out the expansion steps until `run.depth`, a budget or the companies are exhausted; return all runs."""
    made, known = [first], pl.DataFrame()
    for step in range(1, settings.run.depth + 1 if settings.run.expand else 1):
        last = made[-1]
        if last.outcome.outcome == "stopped":
            break
        inner = last.run.companies()
        known = pl.concat([known, inner]) if step > 1 else inner
        spent = max(last.summary.credit_count or 0, last.summary.expected_credit_count)
        settings = expand.spend(settings, spent, last.summary.request_count)
        plan = partial(expand.plan_outward, settings, first.run.plan.again, inner, known, step, now())
        title = f"Step {step} of {settings.run.depth}, {settings.run.expand}"
        ended = yield from run_plan(settings, plan, now, title)
        if ended is None:
            break
        made.append(ended)
    return made


class Started(NamedTuple):
    """A run that has begun."""

    run: Run
    expected: int  # its estimated number of requests
    credit_count: int  # the credits that it may spend; -1 for any number
    companies: list[Company]  # its first companies


def _start(
    settings: Settings, plan: Callable[[], planning.Planned], now: Clock, title: str, name: Callable[[str], str]
) -> Steps[Started | Published | None]:
    """Plan a run and start it. The plan is released then: the targets of a million companies take 400 MB.

    A run that had ended before or has nothing to load is returned with its result. None if there is nothing to ask for.
    """
    folders = Folders.of(settings)
    restore_link(folders)
    with kept_open(folders):
        loaded = yield from _load_ended(settings, now)
        planned: Planned = yield Step(name("plan"), plan)
        if own := [one for one in loaded if is_of_call(settings, one.run, planned.companies)]:
            rest, nothing = planned.targets.clear(), Estimate(0, {}, 0, 0.0, 0)
            yield PlanMade(planned._replace(unfinished=own[-1].run, targets=rest, estimate=nothing), title)
            yield own[-1]
            return own[-1]
        yield PlanMade(planned, title)
        if planned.companies.companies.is_empty():
            return None
        run = start_or_resume(settings, planned, now())
        log("planned", run=run.run_id, list=run.plan.list_name, companies=run.plan.target_count)
        if unchanged := _end_unchanged(settings, run, now):
            yield unchanged
            return unchanged
    expected = sum(planned.estimate.request_counts.values()) - planned.estimate.left_out_count
    wanted = planned.targets.lazy().filter(pl.col("shard") > 0).select(_KEY)
    rows = wanted.head(_LOOKED_AT * len(run.plan.datasets)).collect().unique(maintain_order=True)
    return Started(run, expected, planned.budget.credits, [Company(*row) for row in rows.head(_LOOKED_AT).iter_rows()])


def _load_ended(settings: Settings, now: Clock) -> Steps[list[Published]]:
    """Load the runs that ended but are not in the warehouse, because they were killed then or were refused before."""
    loaded = []
    for run in find_unloaded(settings, Folders.of(settings)):
        with suppress(DriftError):  # it stays refused, which is no reason to refuse the run that is about to start
            loaded.append((yield Step(f"publish run {run.run_id}", partial(_stage_and_publish, settings, run, now))))
    return loaded


def _stage_and_publish(settings: Settings, run: Run, now: Clock) -> Published:
    return _publish(settings, run, stage_shards(run), None, now)


def _publish(
    settings: Settings, run: Run, shards: Sequence[Manifest], stopped: Stopped | None, now: Clock
) -> Published:
    """Load a run into the next generation, after deciding its outcome unless an earlier attempt did."""
    manifest, outcome = finish_stage(run, shards), run.outcome()
    give_back()
    if outcome is None or outcome.is_refused:
        outcome = decide_outcome(settings, run, manifest, stopped, now())
    log("fetched", run=run.run_id, outcome=outcome.outcome, reason=outcome.reason)
    made = publish_run(settings, run, manifest, outcome, now())
    give_back()
    has_rules = run.plan.alert_rules is not None
    with open_warehouse(run.folders, with_held=True) as connection:
        renew_index(run.folders, settings.run.duckdb_memory)
        summary = summarise(connection, run.run_id, newest_link(run.folders), has_rules=has_rules)
        failed = failure_groups(connection, run.run_id, _FAILED_MAX)
    log("published", run=run.run_id, warehouse=made)
    assert summary
    return Published(run, outcome, summary, failed, settings)


def start_or_resume(settings: Settings, planned: Planned, now: datetime) -> Run:
    """Begin a new run, or take up the interrupted one of the same list with its current lines and the new plan."""
    folders, companies, before, targets = Folders.of(settings), planned.companies, planned.unfinished, planned.targets
    if planned.kept is not None:
        kept = planned.kept
        targets = pl.concat([kept, targets.join(kept, on=_KEY, how="anti", maintain_order="left")])
        asked = targets.select(pl.col(_KEY).cast(pl.String)).unique()
        asked_count, fresh_count = asked.height, companies.companies.join(asked, on=_KEY, how="anti").height
    else:
        asked_count = count_companies(targets)
        fresh_count = companies.companies.height - asked_count
    last_shard = int(targets["shard"].max() or 0)  # type: ignore[arg-type]
    now_known: dict[str, Any] = {
        "list_name": companies.path.name,
        "list_sha256": companies.sha256,
        "line_count": companies.companies.height + companies.refused.height + companies.repeated_count,
        "company_count": companies.companies.height,
        "refused_count": companies.refused.height,
        "repeated_count": companies.repeated_count,
        "fresh_count": fresh_count,
        "target_count": asked_count,
        "shard_count": max(before.plan.shard_count if before else 0, last_shard),
        "refresh_count": count_companies(targets.filter("is_refresh")),
        "budget": planned.budget.limit,
        "resume": _how_to_resume(folders, planned),
    }
    if before:
        clear_stage(before)  # shards may have lost companies
        plan = msgspec.structs.replace(before.plan, **now_known)
    else:
        plan = _new_plan(settings, planned, now, now_known)
    return begin(_with_list(settings, Run(folders, plan), companies), targets)


def _new_plan(settings: Settings, planned: Planned, now: datetime, now_known: dict[str, Any]) -> RunPlan:
    return RunPlan(
        **now_known,
        run_id=new_run_id(now),
        started_at=now,
        service=service_name(settings),
        language=settings.api.language,
        datasets=settings.run.datasets,
        firmlake_version=__version__,
        refresh_after_days=settings.run.refresh_after_days,
        credit_window_days=settings.run.credit_window_days,
        lookalikes_watched=settings.run.lookalikes_watched,
        sample=settings.run.sample if planned.companies.is_file else 0,
        trusts_totals=settings.api.trusts_totals,
        names=settings.api.names,
        contract=settings.contract,
        alert_rules=read_rules(settings.paths.alert_rules),
        gates=read_gates(settings.paths.gates),
    )


def _with_list(settings: Settings, run: Run, companies: CompanyList) -> Run:
    """Store the list of a run, without forgotten subjects, and name it in the plan, with what it had before."""
    name, columns, batches = "", ListColumns(), iter([lines_of(companies.companies)])
    if companies.lines:
        name = settings.run.list_name or list_name_of(companies.path)
        columns, batches = companies.lines.columns, companies.lines.batches()
        if forgotten := open_forgotten(settings.privacy, run.folders):
            batches = (clean_frame(batch, forgotten) for batch in batches)
    files = {**run.plan.files, "list": store_lines(run.folders.lists, columns, batches).stem}
    run = Run(run.folders, msgspec.structs.replace(run.plan, company_list=name, files=files))
    before = None if run.plan.sample else count_held(run, settings.run.duckdb_memory)
    return Run(run.folders, msgspec.structs.replace(run.plan, list_before=before))


def _how_to_resume(folders: Folders, planned: Planned) -> str:
    """Return how to resume, as in `RunPlan`; a list from a pipe, a query or a store is resumed from its copy."""
    path = planned.companies.path
    is_copy = planned.companies.is_file and folders.inputs in path.parents
    return f"run `firmlake run {quote(str(path.absolute()))}` again" if is_copy else planned.resume
