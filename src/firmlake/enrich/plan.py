"""Plan a run: work out what it will fetch and cost, without writing anything or sending a request."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import polars as pl

from firmlake.api.service import check_service, expect_waits
from firmlake.api.throttle.throttle import Forecast
from firmlake.core.company import names_of
from firmlake.core.errors import CompanyListError
from firmlake.core.folders import Folders
from firmlake.core.process import give_back
from firmlake.core.settings import RunSettings, Settings
from firmlake.enrich.held import Held, read_held, split_targets
from firmlake.enrich.targets import (
    FAILED,
    Estimate,
    HitRate,
    Price,
    beside,
    count_companies,
    estimate,
    find_targets,
    hit_rate_of,
    price_cuts,
)  # fmt: skip
from firmlake.intake.lines import (
    CompanyList,
    choose_from,
    known_companies,
    read_company_list,
    refuse_companies,
)
from firmlake.landing.charged import with_refresh_off
from firmlake.landing.run import REDRIVE, Run
from firmlake.privacy.cleaning import LINE_FORGOTTEN, clean_frame
from firmlake.privacy.forgotten import Forgotten, open_forgotten
from firmlake.report.bill import Bill, read_bill
from firmlake.tables.leaves import check_contract
from firmlake.warehouse.generations import newest_of_all, open_warehouse
from firmlake.warehouse.rules import read_gates, read_rules

_WARN_SHARE = 0.8


class Budget(NamedTuple):
    """The credits that a run may spend."""

    credits: int  # the most credits; -1 for any number
    limit: str  # the setting that limits the credits, with its value; empty if that is `run.max_credits`
    spent: int  # in this calendar month
    of_month: int  # `run.max_credits_per_month`
    before: int = 0  # spent by earlier attempts of the run; these count towards `run.max_credits`

    def tell(self, credit_count: int) -> str:
        """Describe the month's budget after a run of this cost, as a warning from 80 %; empty without such a budget."""
        if self.of_month < 0:
            return ""
        after = self.spent + credit_count
        share = after / self.of_month if self.of_month else 1.0
        warning = "Warning: " if share >= _WARN_SHARE else ""
        return (
            f"{warning}{self.spent:,} of {self.of_month:,} credits of this month are spent, "
            f"{after:,} ({share:.0%}) after this run"
        )


def budget_of(run: RunSettings, spent: int, before: int = 0) -> Budget:
    """Return the credits that a run may still spend; see `Budget` for `spent` and `before`."""
    of_month = run.max_credits_per_month
    left = max(0, of_month - spent)
    own = max(0, run.max_credits - before) if run.max_credits >= 0 else -1
    if of_month < 0 or 0 <= own <= left:
        return Budget(own, "", spent, of_month, before)
    limit = f"run.max_credits_per_month = {of_month} ({spent:,} spent this month)"
    return Budget(left, limit, spent, of_month, before)


def tell_before(credit_count: int) -> str:
    """Describe what earlier attempts of a run spent, to follow the name of its budget; empty if they spent nothing."""
    return f" ({credit_count:,} spent by earlier attempts)" if credit_count else ""


def without_forgotten(companies: CompanyList, forgotten: Forgotten | None) -> CompanyList:
    """Refuse the lines of a list that name a forgotten company, and clean the kept columns of all other lines.

    If all companies are forgotten, that is a CompanyListError.
    """
    if forgotten is None:
        return companies
    listed = companies.companies.select(_KEY)
    kept = clean_frame(listed, forgotten)
    if kept.is_empty():
        raise CompanyListError(
            f"{companies.path}: every company on the list was forgotten",
            "To fetch one again, name it with `firmlake company`",
        )
    companies = refuse_companies(companies, listed.join(kept, on=_KEY, how="anti"), LINE_FORGOTTEN)
    return replace(companies, found=clean_frame(companies.found, forgotten))


_KEY = ("country", "company_number")
_NOBODY = pl.DataFrame(schema=dict.fromkeys(_KEY, pl.String))


def take_sample(settings: Settings, companies: CompanyList, held: Held) -> tuple[CompanyList, Estimate, pl.DataFrame]:
    """Choose the first `run.sample` companies of a list for which a dataset is missing or stale.

    Return a list of these companies, with the refused lines of the whole list; what the whole list would cost without
    budgets; and the targets of the whole list.
    """
    targets = find_targets(
        companies.companies,
        settings.run.datasets,
        held.state,
        held.paid,
        max_credits=-1,
        shard_companies=settings.run.shard_companies,
    )
    whole = estimate(settings.api, targets, held.totals)
    chosen = targets.lazy().select(pl.col(_KEY).cast(pl.String)).unique(maintain_order=True).head(settings.run.sample)
    return choose_from(companies, chosen.collect()), whole, targets


class Planned(NamedTuple):
    """The plan of a run: what it would do.

    Attributes:
        targets: Targets as returned by `find_targets`. For an unfinished run, the targets still to be requested.
        waiting_count: Companies that the budget leaves out.
        unfinished: An interrupted run of the same list whose number is taken up; None starts a new run.
        whole: What the whole list would cost, if only a sample of it is planned.
        resume: How to resume the run, as in `RunPlan`.
        waits: How long the allowance will make the run wait; None if that is not known.
        refresh_off: Why no company is refreshed for free; empty if free refreshes are on.
        kept: The targets that the unfinished run keeps; None without one.
        hit_rate: How many of the companies asked so far the service knew.
        prices: What the whole list would cost, whatever the sample and the budget, then its cheaper cuts; empty unless
            `plan` was asked for them.
    """

    companies: CompanyList
    targets: pl.DataFrame
    estimate: Estimate
    waiting_count: int
    unfinished: Run | None
    whole: Estimate | None = None
    resume: str = ""
    waits: Forecast | None = None
    budget: Budget = Budget(-1, "", 0, -1)
    refresh_off: str = ""
    kept: pl.DataFrame | None = None
    hit_rate: HitRate = hit_rate_of(0, 0)
    prices: tuple[Price, ...] = ()


def plan(settings: Settings, company_list: Path, now: datetime, *, is_priced: bool = False) -> Planned:
    """Read a company list and work out what to fetch for it and what that costs; if `is_priced`, also its cheaper cuts.

    Raises:
        CompanyListError: The list cannot be used.
        SettingsError: The data folder belongs to another service, a pattern of `contract` names no field, or a
            rule of alerts or gate is wrong.
    """
    check_contract(settings.contract)
    read_rules(settings.paths.alert_rules)
    read_gates(settings.paths.gates)
    folders = Folders.of(settings)
    check_service(settings, folders)
    companies = without_forgotten(
        read_company_list(company_list, settings.intake), open_forgotten(settings.privacy, folders)
    )
    give_back()
    held = read_held(settings, folders, companies, now)
    if settings.run.sample:
        sample, whole, targets = take_sample(settings, companies, held)
        planned = _plan(settings, sample, held)._replace(whole=whole)
    else:
        planned = _plan(settings, companies, held)
        targets = planned.targets
    if is_priced:
        hit_rate, prices = price_cuts(settings, companies.companies, targets, held)
        planned = planned._replace(hit_rate=hit_rate, prices=tuple(prices))
    return planned


def plan_companies(settings: Settings, companies: pl.DataFrame, name: str, now: datetime) -> Planned:
    """Work out what to fetch for companies in normal form (country, company_number) that come from no file.

    `name` is the command that asks for them. SettingsError if the data folder belongs to another service.
    """
    folders = Folders.of(settings)
    check_service(settings, folders)
    named = _not_forgotten(settings, companies, name)
    return _plan(settings, named, read_held(settings, folders, named, now))._replace(resume=f"run `{name}` again")


def plan_redrive(settings: Settings, now: datetime) -> Planned:
    """Work out how to ask again for every company and dataset that failed, from any list."""
    folders = Folders.of(settings)
    check_service(settings, folders)
    held = read_held(settings, folders, known_companies(_NOBODY, REDRIVE), now, of_all=True)
    failed = names_of(held.state.filter(FAILED)["company"].unique(maintain_order=True))
    return _plan(settings, _not_forgotten(settings, failed, REDRIVE), held, only_failed=True)


def _not_forgotten(settings: Settings, companies: pl.DataFrame, name: str) -> CompanyList:
    """Make a list of companies that come from no file; a warehouse that was restored may name forgotten ones."""
    forgotten = open_forgotten(settings.privacy, Folders.of(settings))
    return known_companies(clean_frame(companies, forgotten) if forgotten else companies, name)


def forecast(settings: Settings, planned: Planned, now: datetime) -> Bill | None:
    """Work out what the companies of a plan will cost in the next four weeks; None before the first run."""
    folders = Folders.of(settings)
    if newest_of_all(folders) is None:
        return None
    with open_warehouse(folders, with_held=True, memory_limit=settings.run.duckdb_memory) as connection:
        run = with_refresh_off(settings.run, planned.refresh_off)
        listed, left = planned.companies.companies, planned.targets.filter(~pl.col("is_paid"))
        return read_bill(connection, run, now, planned.budget.spent, listed, left)


def _plan(settings: Settings, companies: CompanyList, held: Held, *, only_failed: bool = False) -> Planned:
    asked, kept = companies.companies, None
    budget = budget_of(settings.run, held.spent, held.spent_before)
    credits = budget.credits
    if held.unfinished:
        kept, left = split_targets(held.unfinished, held, asked, credits)
        credits -= count_companies(left.filter(~pl.col("is_paid")))  # -1, for any number, stays below 0
        asked = asked.join(kept.select(pl.col(_KEY).cast(pl.String)), on=_KEY, how="anti", maintain_order="left")
    targets = find_targets(
        asked,
        settings.run.datasets,
        held.state,
        held.paid,
        max_credits=credits,
        shard_companies=settings.run.shard_companies,
        only_failed=only_failed,
    )
    if kept is not None:
        targets = beside(left, kept["shard"].max() or 0, targets)  # type: ignore[arg-type]
    cost = estimate(settings.api, targets, known_totals=held.totals, max_requests=settings.run.max_requests)
    waits = expect_waits(settings, sum(cost.request_counts.values()) - cost.left_out_count)
    if waits:
        cost = cost._replace(minutes=max(cost.minutes, waits.minutes))
    return Planned(
        companies,
        targets,
        cost,
        count_companies(targets.filter(pl.col("shard") == 0)),
        held.unfinished,
        budget=budget,
        refresh_off=held.refresh_off,
        waits=waits,
        kept=kept,
    )
