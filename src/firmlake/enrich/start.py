"""Start a run: freeze its plan before the first request, or resume the unfinished run over the same companies."""

from __future__ import annotations

from datetime import datetime
from shlex import quote

import msgspec
import polars as pl

from firmlake import __version__
from firmlake.api.service import service_name
from firmlake.core.folders import Folders
from firmlake.core.freeze import Frozen, freeze_again, freeze_run
from firmlake.core.run import Run, RunPlan, new_run_id
from firmlake.core.settings import Settings
from firmlake.enrich.plan import Planned
from firmlake.enrich.targets import count_companies
from firmlake.enrich.without_forgotten import clean_members
from firmlake.intake.company_list import CompanyList
from firmlake.intake.members import list_name_of, open_members, write_members
from firmlake.privacy.forgotten import open_forgotten
from firmlake.warehouse.rules import read_rules

__all__ = ["start_or_resume"]


def start_or_resume(settings: Settings, planned: Planned, now: datetime) -> Run:
    """Start a new run by freezing its plan, or resume the unfinished run of the same list.

    Raises:
        SettingsError: A rule of `paths.alert_rules` is wrong.
    """
    if planned.unfinished:
        return _renew_list(settings, planned, planned.unfinished)
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
        refresh_count=planned.estimate.refresh_count,
        budget=planned.budget.limit,
        credits_before=planned.budget.before,
        doubts_totals=True,
        names=settings.api.names,
        contract=settings.contract,
        alert_rules=read_rules(settings.paths.alert_rules),
        resume=_how_to_resume(folders, planned),
    )
    frozen, tables = _list_tables(settings, companies, frozen)
    return freeze_run(folders, frozen, targets, tables)


def _list_tables(settings: Settings, companies: CompanyList, plan: RunPlan) -> tuple[RunPlan, dict[str, Frozen]]:
    """Collect the tables of a list to freeze, and add the list's name and columns to the plan."""
    tables: dict[str, Frozen] = {
        "companies": companies.companies,
        "repaired": companies.repaired,
        "refused_lines": companies.refused,
    }
    if not companies.is_file:
        return plan, tables
    forgotten = open_forgotten(settings.privacy, Folders.of(settings))
    members = clean_members(open_members(companies, settings.intake), forgotten)
    line_count = companies.line_count - companies.header_count
    tables["members"] = lambda path: write_members(path, members, line_count)
    if not settings.intake.keeps_all:
        tables["refused_lines"] = companies.refused.with_columns(given=pl.lit(None, pl.String))
    name = settings.run.list_name or list_name_of(companies.path)
    plan = msgspec.structs.replace(
        plan,
        company_list=name,
        list_columns=members.columns,
        list_delimiter=members.delimiter,
        list_types=members.types,
        list_formats=members.formats,
    )
    return plan, tables


def _how_to_resume(folders: Folders, planned: Planned) -> str:
    """Return how to resume, as in `RunPlan`; a list from a pipe, a query or a store is resumed from its copy."""
    path = planned.companies.path
    is_copy = planned.companies.is_file and folders.inputs in path.parents
    return f"run `firmlake run {quote(str(path.absolute()))}` again" if is_copy else planned.resume


def _renew_list(settings: Settings, planned: Planned, unfinished: Run) -> Run:
    """Resume an unfinished run with the current list, which has the same companies, but maybe other lines and cells."""
    companies = planned.companies
    changed = msgspec.structs.replace(
        unfinished.plan,
        list_name=companies.path.name,
        resume=_how_to_resume(unfinished.folders, planned),
        line_count=companies.companies.height + companies.refused.height + companies.repeated_count,
        refused_count=companies.refused.height,
        repeated_count=companies.repeated_count,
    )
    plan, tables = _list_tables(settings, companies, changed)
    return freeze_again(unfinished, plan, tables) if "members" in tables else unfinished
