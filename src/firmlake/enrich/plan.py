"""Planning: work out what a run will fetch and cost, and freeze it before the first request."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec
import polars as pl

from firmlake import __version__
from firmlake.api.service import check_service, is_service, service_name
from firmlake.core.errors import DamagedError, SettingsError, UsageError
from firmlake.core.folders import Folders
from firmlake.core.freeze import Frozen, freeze_again, start_run
from firmlake.core.run import REDRIVE, Run, RunPlan, new_run_id
from firmlake.core.runs import list_runs, unfinished_runs
from firmlake.core.settings import Settings
from firmlake.enrich.expand import neighbours
from firmlake.enrich.held import Held, read_held
from firmlake.enrich.sample import Whole, take_sample
from firmlake.enrich.targets import Estimate, count_companies, estimate, find_targets
from firmlake.enrich.underway import read_underway
from firmlake.intake.company_list import CompanyList, known_companies, read_company_list
from firmlake.intake.key import company_key, names_of
from firmlake.intake.members import list_name_of, open_members, write_members
from firmlake.tables.leaves import check_contract
from firmlake.warehouse.generations import newest, open_warehouse
from firmlake.warehouse.load import loaded_runs

__all__ = [
    "Planned",
    "check_expand",
    "freeze",
    "open_steps",
    "plan",
    "plan_companies",
    "plan_outward",
    "plan_redrive",
    "plan_steps",
    "spend",
]


_FAILED = pl.col("has_failed") | pl.col("is_barred")


class Planned(NamedTuple):
    """What a run over a company list would do. A plan writes nothing and sends no request.

    Attributes:
        targets: Targets as returned by `find_targets`. For an unfinished run, the targets still to be asked for.
        waiting_count: Companies that `run.max_credits` leaves out.
        unfinished: An earlier run over the same companies that will be resumed; None starts a new run.
        others: Unfinished runs of other lists, each with the number of planned companies it has answers for.
        ahead: The number of answers dated in the future and the latest such time (UTC); None if there are none.
        whole: What the whole list would cost, if only a sample of it is planned.
        resume: How to resume the run, as in `RunPlan`.
    """

    companies: CompanyList
    targets: pl.DataFrame
    estimate: Estimate
    waiting_count: int
    unfinished: Run | None
    others: tuple[tuple[Run, int], ...] = ()
    ahead: tuple[int, datetime] | None = None
    whole: Whole | None = None
    resume: str = ""


def check_expand(settings: Settings) -> None:
    """Check that `run.datasets` contains the dataset that `run.expand` needs.

    Raises:
        SettingsError: The dataset is missing; add it to `run.datasets`.
    """
    needed = "lookalikes" if settings.run.expand == "lookalikes" else "relationships"
    if settings.run.expand and needed not in settings.run.datasets:
        raise SettingsError(f"run.expand = {settings.run.expand} needs the dataset {needed}", "Add it to run.datasets")


def plan(settings: Settings, company_list: Path, now: datetime) -> Planned:
    """Read a company list and work out what to fetch for it and what that costs.

    Raises:
        CompanyListError: The list cannot be used.
        SettingsError: The data folder belongs to another service, or a pattern of `contract` names no field.
    """
    check_contract(settings.contract)
    folders = Folders.of(settings)
    check_service(settings, folders)
    companies, held = read_company_list(company_list, settings.intake), _read_held(settings, folders, now)
    if not settings.run.sample:
        return _plan(settings, folders, companies, held, now)
    sample, whole = take_sample(settings, companies, held)
    return _plan(settings, folders, sample, held, now)._replace(whole=whole)


def plan_companies(settings: Settings, companies: pl.DataFrame, name: str, now: datetime) -> Planned:
    """Work out what to fetch for companies that come from no file.

    Args:
        settings: Budgets and limits.
        companies: One row per company in normal form: country, company_number.
        name: The command that asks for them, instead of a file name.
        now: UTC.

    Raises:
        SettingsError: The data folder belongs to another service.
    """
    folders = Folders.of(settings)
    check_service(settings, folders)
    planned = _plan(settings, folders, known_companies(companies, name), _read_held(settings, folders, now), now)
    return planned._replace(resume=f"run `{name}` again")


def plan_redrive(settings: Settings, now: datetime) -> Planned:
    """Work out how to ask again for every company and dataset that failed, from any list.

    Raises:
        SettingsError: The data folder belongs to another service.
    """
    folders = Folders.of(settings)
    check_service(settings, folders)
    held = _read_held(settings, folders, now)
    failed = names_of(held.state.filter(_FAILED)["company"].unique(maintain_order=True))
    return _plan(settings, folders, known_companies(failed, REDRIVE), held, now, only_failed=True)


def plan_outward(
    settings: Settings, list_name: str, inner: pl.DataFrame, known: pl.DataFrame, step: int, now: datetime
) -> Planned:
    """Work out what to fetch for the companies one expansion step away, as set by `run.expand`.

    Args:
        settings: The budgets of this step alone.
        list_name: The list that the expansion started from.
        inner: The companies to start from: country, company_number.
        known: All companies asked for so far: country, company_number.
        step: The number of the step, 1 beside the list; part of the name of the run.
        now: UTC.
    """
    folders = Folders.of(settings)
    held = _read_held(settings, folders, now)
    outer = inner.clear()
    if held.runs:
        with open_warehouse(folders) as connection:
            outer = neighbours(connection, inner, known, settings.run.expand)
    companies = known_companies(outer, f"{settings.run.expand}, step {step}")
    resume = f"run {list_name} again with --expand {settings.run.expand} --depth {step}"
    return _plan(settings, folders, companies, held, now)._replace(resume=resume)


def plan_steps(settings: Settings, planned: Planned, now: datetime) -> list[Planned]:
    """Plan the expansion steps as far as the warehouse already knows which companies they lead to."""
    steps = [planned]
    known = planned.companies.companies.select("country", "company_number")
    for step in range(1, settings.run.depth + 1):
        last = steps[-1]
        settings = spend(settings, last.estimate.credit_count, sum(last.estimate.request_counts.values()))
        outward = plan_outward(settings, planned.companies.path.name, last.companies.companies, known, step, now)
        if outward.companies.companies.is_empty():
            break
        steps.append(outward)
        known = pl.concat([known, outward.companies.companies.select("country", "company_number")])
    return steps[1:]


def open_steps(settings: Settings, plans: Sequence[Planned]) -> tuple[range, int | None]:
    """Find the expansion steps whose companies are not known before earlier steps are fetched.

    Args:
        settings: The budgets of the list and all steps together.
        plans: The plan of the list and of each step that is known.

    Returns:
        The numbers of these steps, and the credits that the budget leaves for them; None without a budget.
    """
    first = len(plans) if plans[-1].targets.height else settings.run.depth + 1  # no targets: expansion has ended
    spent = sum(each.estimate.credit_count for each in plans)
    budget = settings.run.max_credits
    return range(first, settings.run.depth + 1), max(0, budget - spent) if budget >= 0 else None


def spend(settings: Settings, credit_count: int, request_count: int) -> Settings:
    """Subtract what a run used from the budgets, for the next run that shares them."""
    run = settings.run
    left = {"max_credits": run.max_credits - credit_count, "max_requests": run.max_requests - request_count}
    changed = {name: max(0, count) for name, count in left.items() if getattr(run, name) >= 0}
    return msgspec.structs.replace(settings, run=msgspec.structs.replace(run, **changed))


def freeze(settings: Settings, planned: Planned, now: datetime) -> Run:
    """Freeze a plan as a new run, or resume the unfinished run.

    Raises:
        UsageError: The unfinished run may still cost more than `run.max_credits` allows now; raise it to finish.
    """
    if planned.unfinished:
        _check_budget(settings, planned.unfinished, planned.estimate.credit_count)
        return _renew_list(settings, planned.companies, planned.unfinished)
    folders = Folders.of(settings)
    companies, targets = planned.companies, planned.targets
    asked = count_companies(targets)
    frozen = RunPlan(
        run_id=new_run_id(now),
        started_at=now,
        list_name=companies.path.name,
        list_sha256=companies.sha256,
        service=service_name(settings),
        language=settings.api.language,
        datasets=settings.run.datasets,
        line_count=companies.companies.height + companies.refused.height + companies.repeated_count,
        company_count=companies.companies.height,
        refused_count=companies.refused.height,
        repeated_count=companies.repeated_count,
        fresh_count=companies.companies.height - asked,
        target_count=asked,
        shard_count=int(targets["shard"].max() or 0),  # type: ignore[arg-type]
        firmlake_version=__version__,
        refresh_after_days=settings.run.refresh_after_days,
        credit_window_days=settings.run.credit_window_days,
        lookalikes_watched=settings.run.lookalikes_watched,
        names=settings.api.names,
        contract=settings.contract,
        resume=planned.resume,
    )
    frozen, tables = _list_tables(settings, companies, frozen)
    return start_run(folders, frozen, targets, tables)


def _list_tables(settings: Settings, companies: CompanyList, plan: RunPlan) -> tuple[RunPlan, dict[str, Frozen]]:
    """Collect the tables of a list to freeze, and add the list's name and columns to the plan."""
    tables: dict[str, Frozen] = {
        "companies": companies.companies,
        "repaired": companies.repaired,
        "refused_lines": companies.refused,
    }
    if not companies.is_file:
        return plan, tables
    members = open_members(companies, settings.intake)
    line_count = companies.line_count - companies.header_count
    tables["members"] = lambda path: write_members(path, members, line_count)
    if not settings.intake.keeps_all:
        tables["refused_lines"] = companies.refused.with_columns(given=pl.lit(None, pl.String))
    name = settings.run.list_name or list_name_of(companies.path)
    return msgspec.structs.replace(plan, company_list=name, list_columns=members.columns), tables


def _renew_list(settings: Settings, companies: CompanyList, unfinished: Run) -> Run:
    """Resume an unfinished run with the list as it is now: the same companies, but other lines and cells."""
    changed = msgspec.structs.replace(
        unfinished.plan,
        list_name=companies.path.name,
        line_count=companies.companies.height + companies.refused.height + companies.repeated_count,
        refused_count=companies.refused.height,
        repeated_count=companies.repeated_count,
    )
    plan, tables = _list_tables(settings, companies, changed)
    return freeze_again(unfinished, plan, tables) if "members" in tables else unfinished


def _check_budget(settings: Settings, unfinished: Run, may_cost: int) -> None:
    """Refuse to resume a run if its frozen plan may cost more than the current budget."""
    if 0 <= settings.run.max_credits < may_cost:
        raise UsageError(
            f"Run {unfinished.run_id} of the same list is unfinished and may still cost {may_cost:,} "
            f"credits, more than run.max_credits = {settings.run.max_credits:,}",
            f"Set run.max_credits to {may_cost} or more to finish it; no company is charged twice",
        )


def _check_warehouse(folders: Folders, unfinished: Run | None) -> None:
    """Refuse to plan if runs have ended but there is no warehouse, for every company would be bought again.

    The unfinished run is exempt: it may have been killed after fetching and before its first publish.
    """
    if newest(folders) is not None:
        return
    lost = [run for run in list_runs(folders) if run.is_fetched and run != unfinished]
    if lost:
        raise DamagedError(
            f"{folders.warehouse} holds no warehouse, although run {lost[-1].run_id} over {lost[-1].plan.list_name} "
            "has ended",
            "`firmlake replay` rebuilds it from the landed answers, without a request",
        )


def _plan(
    settings: Settings,
    folders: Folders,
    companies: CompanyList,
    held: Held,
    now: datetime,
    *,
    only_failed: bool = False,
) -> Planned:
    unfinished = _find_unfinished(settings, folders, companies, held, now)
    _check_warehouse(folders, unfinished)
    if unfinished:
        targets = _targets_left(unfinished, held)
    else:
        targets = find_targets(
            companies.companies,
            settings.run.datasets,
            held.state,
            held.paid,
            max_credits=settings.run.max_credits,
            shard_companies=settings.run.shard_companies,
        )
        targets = targets.filter(_FAILED) if only_failed else targets
    waiting = count_companies(targets.filter(pl.col("shard") == 0))
    cost = estimate(settings.api, targets, held.totals, settings.run.max_requests)
    others = _find_others(settings, companies, targets, held, now)
    return Planned(companies, targets, cost, waiting, unfinished, others, held.ahead)


def _targets_left(unfinished: Run, held: Held) -> pl.DataFrame:
    """Read the targets that an unfinished run still has to ask for, and mark those that are paid for by now."""
    (underway,) = (each for each in held.underway if each.run == unfinished)
    paid = held.paid.select(company_key().alias("key"))["key"]
    return underway.targets_left().with_columns(company_key().is_in(paid.implode()).alias("is_paid"))


def _read_held(settings: Settings, folders: Folders, now: datetime) -> Held:
    days = settings.run.refresh_after_days, settings.run.credit_window_days
    oldest = now - timedelta(days=1 + sum(days))
    with nullcontext() if newest(folders) is None else open_warehouse(folders) as connection:
        loaded = loaded_runs(connection) if connection else []
        late = [run for run in list_runs(folders, loaded) if run.run_id not in loaded and run.plan.started_at > oldest]
        return read_held(connection, now, *days, map(read_underway, late))


def _find_others(
    settings: Settings, companies: CompanyList, targets: pl.DataFrame, held: Held, now: datetime
) -> tuple[tuple[Run, int], ...]:
    """Find the unfinished runs of other lists that already hold answers about the planned companies."""
    key = ["country", "company_number"]
    asked = targets.lazy().select(pl.col(key).cast(pl.String))  # lazy: a million companies are not copied
    counts = (
        (each.run, asked.join(each.paid.lazy(), on=key, how="semi").unique().collect().height)
        for each in held.underway
        if each.run.plan.list_sha256 != companies.sha256 and each.run.plan.started_at > _oldest(settings, now)
    )
    return tuple((run, count) for run, count in counts if count and not _is_refused(settings, run))


def _find_unfinished(
    settings: Settings, folders: Folders, companies: CompanyList, held: Held, now: datetime
) -> Run | None:
    """Find the newest run over the same companies that can be resumed.

    It must be of the same service, recent enough and not refused, and it must not have treated as fresh what is stale
    by the current setting.
    """
    oldest, fresh_days = _oldest(settings, now), settings.run.refresh_after_days
    subject = companies.sha256, settings.run.datasets, settings.api.language
    for run in reversed(unfinished_runs(list_runs(folders, held.runs), held.runs)):
        is_same = run.plan.subject == subject and run.plan.refresh_after_days <= fresh_days
        is_same &= not settings.api.base_url or is_service(settings, run.plan.service)
        if is_same and run.plan.started_at > oldest and not _is_refused(settings, run):
            return run
    return None


def _oldest(settings: Settings, now: datetime) -> datetime:
    """Return the earliest start of a run that may still be resumed."""
    return now - timedelta(days=max(1, settings.run.refresh_after_days))


def _is_refused(settings: Settings, run: Run) -> bool:
    outcome = run.outcome()
    return outcome is not None and outcome.is_refused and outcome.vanished_share > settings.run.vanished_share_max
