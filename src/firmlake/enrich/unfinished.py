"""Find the unfinished runs that affect a plan: the run to resume, and runs of other versions or other lists."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

import polars as pl

from firmlake.api.service import is_service
from firmlake.core.folders import Folders
from firmlake.core.run import Run
from firmlake.core.runs import list_runs, unfinished_runs
from firmlake.core.settings import Settings
from firmlake.enrich.held import Held
from firmlake.intake.company_list import CompanyList
from firmlake.intake.key import company_key
from firmlake.intake.members import list_name_of

__all__ = ["find_others", "find_replaced", "find_unfinished", "spent_before", "targets_left"]


def find_unfinished(
    settings: Settings, folders: Folders, companies: CompanyList, held: Held, now: datetime
) -> Run | None:
    """Find the newest run over the same companies that can be resumed.

    The run must be of the same service, recent enough and not refused. It must not have treated answers as fresh that
    are stale by the current settings.
    """
    oldest, fresh_days = _oldest(settings, now), settings.run.refresh_after_days
    subject = _subject(settings, companies)
    for run in reversed(unfinished_runs(list_runs(folders, held.runs), held.runs)):
        is_same = run.plan.subject == subject and run.plan.refresh_after_days <= fresh_days
        is_same &= not settings.api.base_url or is_service(settings, run.plan.service)
        if is_same and run.plan.started_at > oldest and not _is_refused(settings, run):
            return run
    return None


def spent_before(
    settings: Settings,
    folders: Folders,
    companies: CompanyList,
    unfinished: Run | None,
    held: Held,
    now: datetime,
) -> int:
    """Count the credits spent by the run to resume or to replace, including those of earlier attempts.

    A run refused for drift counts as replaced: otherwise each further run would spend a whole budget for nothing.
    """
    if (last := unfinished) is None:
        subject, oldest = _subject(settings, companies), _oldest(settings, now)
        runs = [run for run in list_runs(folders, held.runs) if run.plan.subject == subject]
        if not runs or runs[-1].plan.started_at <= oldest:
            return 0
        last = runs[-1]
    outcome = last.outcome()
    if last == unfinished or (outcome and outcome.is_refused):
        return last.plan.credits_before + sum(each.credit_count for each in held.underway if each.run == last)
    return outcome.credits_passed_on if outcome else 0


def find_replaced(settings: Settings, companies: CompanyList, held: Held) -> tuple[Run, ...]:
    """Find the unfinished runs of earlier versions of the list. They had other companies, so they cannot be resumed.

    A sample replaces nothing: it has other companies, but the run over the whole list can still be resumed.
    """
    if not companies.is_file or settings.run.sample:
        return ()
    name = (settings.run.list_name or list_name_of(companies.path)).casefold()
    return tuple(
        each.run
        for each in held.underway
        if each.run.plan.company_list.casefold() == name
        and each.run.plan.list_sha256 != companies.sha256
        and not _is_refused(settings, each.run)
    )


def find_others(
    settings: Settings,
    companies: CompanyList,
    targets: pl.DataFrame,
    held: Held,
    now: datetime,
    replaced: Collection[Run] = (),
) -> tuple[tuple[Run, int], ...]:
    """Find the unfinished runs, except `replaced`, that already hold answers about the planned companies."""
    key = ["country", "company_number"]
    asked = targets.lazy().select(pl.col(key).cast(pl.String))  # lazy: a million companies are not copied
    counts = (
        (each.run, asked.join(each.paid.lazy(), on=key, how="semi").unique().collect().height)
        for each in held.underway
        if each.run.plan.list_sha256 != companies.sha256
        and each.run not in replaced
        and each.run.plan.started_at > _oldest(settings, now)
    )
    return tuple((run, count) for run, count in counts if count and not _is_refused(settings, run))


def targets_left(unfinished: Run, held: Held) -> pl.DataFrame:
    """Read the targets that an unfinished run still has to request, and mark those that are paid for by now."""
    (underway,) = (each for each in held.underway if each.run == unfinished)
    paid = held.paid.select(company_key().alias("key"))["key"]
    return underway.targets_left().with_columns(company_key().is_in(paid.implode()).alias("is_paid"))


def _subject(settings: Settings, companies: CompanyList) -> tuple[str, tuple[str, ...], str]:
    """Return the subject of a run over these companies, as `RunPlan.subject`."""
    return companies.sha256, settings.run.datasets, settings.api.language


def _oldest(settings: Settings, now: datetime) -> datetime:
    """Return the earliest start of a run that may still be resumed."""
    return now - timedelta(days=max(1, settings.run.refresh_after_days))


def _is_refused(settings: Settings, run: Run) -> bool:
    outcome = run.outcome()
    return outcome is not None and outcome.is_refused and outcome.vanished_share > settings.run.vanished_share_max
