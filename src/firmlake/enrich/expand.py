"""Expansion: enrich the lookalikes, parents or children of a list's companies, one step after another."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import duckdb
import polars as pl

from firmlake.core.company import normal_form
from firmlake.core.errors import SettingsError
from firmlake.core.folders import Folders
from firmlake.core.settings import Settings, change_settings, value_of
from firmlake.core.sql import read_queries
from firmlake.enrich.plan import Planned, plan_companies
from firmlake.warehouse.generations import newest_of_all, open_warehouse

_SQL = read_queries(__file__)
_DIRECTIONS = {"parents": "parent", "children": "child"}


def check_expand(settings: Settings) -> None:
    """Raise SettingsError if `run.datasets` lacks the dataset that `run.expand` needs."""
    needed = "lookalikes" if settings.run.expand == "lookalikes" else "relationships"
    if settings.run.expand and needed not in settings.run.datasets:
        raise SettingsError(f"run.expand = {settings.run.expand} needs the dataset {needed}", "Add it to run.datasets")


def plan_outward(
    settings: Settings, again: str, inner: pl.DataFrame, known: pl.DataFrame, step: int, now: datetime
) -> Planned:
    """Work out what to fetch for the companies one expansion step away, as set by `run.expand`.

    Args:
        settings: The budgets of this step alone.
        again: How to repeat the run of the list that the expansion started from, as `RunPlan.again`.
        inner: The companies to start from: country, company_number.
        known: All companies asked for so far: country, company_number.
        step: The number of the step, from 1; part of the name of the run.
        now: UTC.
    """
    folders, outer = Folders.of(settings), inner.clear()
    if newest_of_all(folders) is not None:
        with open_warehouse(folders, with_held=True) as connection:
            outer = neighbours(connection, inner, known, settings.run.expand)
    planned = plan_companies(settings, outer, f"{settings.run.expand}, step {step}", now)
    return planned._replace(resume=f"{again} with --expand {settings.run.expand} --depth {step}")


def plan_steps(settings: Settings, planned: Planned, now: datetime) -> list[Planned]:
    """Plan the expansion steps as far as the warehouse already knows which companies they lead to."""
    steps = [planned]
    known = planned.companies.companies.select("country", "company_number")
    for step in range(1, settings.run.depth + 1):
        last = steps[-1]
        settings = spend(settings, _spent(last), sum(last.estimate.request_counts.values()))
        outward = plan_outward(
            settings, f"run {planned.companies.path.name} again", last.companies.companies, known, step, now
        )
        if outward.companies.companies.is_empty():
            break
        steps.append(outward)
        known = pl.concat([known, outward.companies.companies.select("country", "company_number")])
    return steps[1:]


def open_steps(settings: Settings, plans: Sequence[Planned]) -> tuple[range, int | None]:
    """Find the expansion steps whose companies are not known before earlier steps are fetched.

    The budgets hold for the list and all steps together; `plans` are that of the list and of each step that is known.
    Return the numbers of these steps, and the credits that the budget leaves for them; None without a budget.
    """
    first = len(plans) if plans[-1].targets.height else settings.run.depth + 1  # no targets: expansion has ended
    spent = sum(map(_spent, plans))
    budget = settings.run.max_credits
    return range(first, settings.run.depth + 1), max(0, budget - spent) if budget >= 0 else None


def spend(settings: Settings, credit_count: int, request_count: int) -> Settings:
    """Subtract what a run used from the budgets, for the next run that shares them."""
    used = {"run.max_credits": credit_count, "run.max_requests": request_count}
    left = {key: value_of(settings, key) - count for key, count in used.items() if value_of(settings, key) >= 0}
    return change_settings(settings, {key: max(0, count) for key, count in left.items()})


def neighbours(
    connection: duckdb.DuckDBPyConnection, companies: pl.DataFrame, known: pl.DataFrame, direction: str
) -> pl.DataFrame:
    """Find the companies one step away from the given ones that are not known.

    All three frames have the columns country and company_number; numbers that are not valid are left out. The nearest
    companies come first, so that a budget is spent on them. The direction is a value of `run.expand`.
    """
    connection.register("inner_companies", companies.select("country", "company_number").to_arrow())
    if direction == "lookalikes":
        relation = connection.sql(_SQL["lookalikes"])
    else:
        relation = connection.sql(_SQL["related"], params={"direction": _DIRECTIONS[direction]})
    found = pl.DataFrame(relation.to_arrow_reader())
    connection.unregister("inner_companies")
    known_here = [normal_form(*pair) == pair for pair in found.select("country", "company_number").iter_rows()]
    found = found.filter(pl.Series(known_here, dtype=pl.Boolean))
    return found.join(known, on=["country", "company_number"], how="anti", maintain_order="left")


def _spent(planned: Planned) -> int:
    """Return the credits that a plan takes from the budget, including those spent by earlier attempts."""
    return planned.budget.before + planned.estimate.credit_count
