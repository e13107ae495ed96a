"""The whole check: ask, compare, land the paid answers, and write the settings that fit the service."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import polars as pl

from firmlake.api.service import open_access
from firmlake.api.throttle.budget import RequestBudget
from firmlake.api.timing import REAL
from firmlake.check.finding import Finding
from firmlake.check.journal import Journal
from firmlake.check.questions import ask_questions
from firmlake.check.spelling import has_two_spellings
from firmlake.check.talk import Talk
from firmlake.core.company import Company
from firmlake.core.errors import FirmlakeError, Stopped, UsageError
from firmlake.core.files import write_file
from firmlake.core.settings import Settings
from firmlake.core.settings_toml import render_changes
from firmlake.core.signals import graceful
from firmlake.core.text import count_of
from firmlake.enrich import plan as planning
from firmlake.enrich.observer import Observer
from firmlake.enrich.run import carry_out, shortfall
from firmlake.intake.company_list import read_company_list

__all__ = ["REQUESTS_MAX", "Asking", "Checked", "check", "choose_companies", "write_settings"]

REQUESTS_MAX = 200
"""A usual check takes 40 requests, or about 100 if the refusals of the service do not say what is wrong."""
WELL_KNOWN = (
    Company("BE", "0403227515"),  # KBC Groep
    Company("FR", "552032534"),  # Danone
    Company("NL", "33011433"),  # Heineken
    Company("BE", "0403091220"),  # Solvay
    Company("FR", "542051180"),  # TotalEnergies
    Company("NL", "17001910"),  # Koninklijke Philips
)
STRANGER = Company("BE", "0999983193")
"""A well-formed number that is not assigned, to see how the service answers about an unknown company."""


class Asking(NamedTuple):
    """The companies of a check: some that should exist and, if the credits allow it, one that does not."""

    companies: tuple[Company, ...]
    stranger: Company | None

    @property
    def credit_count(self) -> int:
        """The most credits that the check may cost. Some services charge for a company that does not exist."""
        return len(self.companies) + (self.stranger is not None)


class Checked(NamedTuple):
    """The result of a check.

    Attributes:
        settings: The given settings with the changes.
        changes: The settings to change for this service, by dotted key.
        request_count: Requests that were answered before the run.
        charged: Credits charged according to the service; None if it does not report them.
        run_id: The run in which all answers landed; empty if nothing was bought.
    """

    findings: list[Finding]
    settings: Settings
    changes: dict[str, Any]
    request_count: int
    charged: int | None
    run_id: str = ""


def choose_companies(settings: Settings, named: Sequence[Company], company_list: Path | None, most: int) -> Asking:
    """Choose the companies to ask for.

    Args:
        settings: How to read a list.
        named: Companies named by the user; the check asks for all of them.
        company_list: If no companies are named, take the first of each country in this list, then others. None takes
            well-known companies.
        most: The most credits that may be spent.

    Raises:
        UsageError: More companies are named than there are credits. Raise `--companies`.
        CompanyListError: The list cannot be used; the message says why.
    """
    if len(named) > most:
        raise UsageError(f"{len(named)} companies are named, but --companies allows {most}", "Raise --companies")
    wanted = most - (most > 1)  # one credit is for the company that does not exist
    if named:
        return Asking(tuple(dict.fromkeys(named)), STRANGER if len(named) <= wanted else None)
    companies: Iterable[Company] = WELL_KNOWN
    if company_list is not None:
        rows = read_company_list(company_list, settings.intake).companies
        companies = [Company(*row) for row in rows.select("country", "company_number").head(10_000).iter_rows()]
        if not companies:
            raise UsageError(f"{company_list} names no company", "Use another list, or run the check without one")
    return Asking(tuple(_mix(companies)[:wanted]), STRANGER if most > 1 else None)


def check(
    settings: Settings,
    asking: Asking,
    now: Callable[[], datetime],
    on_finding: Callable[[Finding], object] = lambda finding: None,
) -> Checked:
    """Ask a service for a few companies, compare its behaviour with the assumptions, and publish the paid answers.

    Args:
        settings: The service, and the data folder, which the caller holds.
        asking: The companies to ask for; each costs at most one credit.
        now: The clock, UTC.
        on_finding: Called with each finding as soon as it is known.

    Raises:
        FirmlakeError: The service cannot be asked, or charges more than the budget. The message says what to do.
    """
    findings: list[Finding] = []
    companies = (*asking.companies, *filter(None, [asking.stranger]))
    plan = _planning(settings, companies, now)
    _check_budget(plan())
    with graceful() as stop, Journal(_again(settings), plan, now) as journal:
        with (
            open_access(settings) as (api, token, throttle),
            Talk(
                api,
                token,
                RequestBudget(throttle, REQUESTS_MAX),
                asking.credit_count,
                stop,
                journal.land,
                REAL._replace(utc_now=now),
            ) as talk,
        ):
            for finding in ask_questions(talk, asking.companies, asking.stranger):
                findings.append(finding)
                on_finding(finding)
        changes: dict[str, Any] = {}
        for key, value in (change for finding in findings for change in finding.settings.items()):
            changes[key] = {**changes.get(key, {}), **value} if isinstance(value, dict) else value
        settings = apply_changes(settings, changes)
        charged = talk.charged if talk.tells_credits else None
        checked = Checked(findings, settings, changes, len(talk.answers), charged)
        if not any(answer.is_success and answer.request.companies for answer in talk.answers):
            return checked
        if any(one.assumption == "bulk body" and one.verdict == "needs_you" for one in findings):
            return checked  # a run cannot ask for companies without the names of the fields in the body
        run_id, finding = _publish(settings, talk.asked, journal, now)
    findings.append(finding)
    on_finding(finding)
    return checked._replace(run_id=run_id)


def apply_changes(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """Change settings by dotted key."""
    for key, value in changes.items():
        settings = _replace(settings, key.split("."), value)
    return settings


def write_settings(path: Path, checked: Checked, kept: Mapping[str, Any], now: datetime) -> None:
    """Write a settings file that fits the service.

    Args:
        path: The file; it is replaced.
        checked: The result of the check.
        kept: Settings to keep from before, by dotted key.
        now: The time, for the first line of the file.
    """
    reasons = {key: f"{one.assumption}: {one.seen}" for one in checked.findings for key in one.settings}
    text = f"# Written by `firmlake check` on {now:%Y-%m-%d}: what differs from the defaults with this service.\n\n"
    text += render_changes({**kept, **checked.changes}, reasons)
    write_file(path, lambda aside: aside.write_bytes(text.encode()))


# ---------------------------------------------------------------------------------------------------------------------


def _mix(companies: Iterable[Company]) -> list[Company]:
    """Put one company of each country first, of Belgium one whose number has two spellings, if there is any."""
    companies = list(companies)
    in_order = sorted(companies, key=lambda company: not has_two_spellings(company))
    firsts = {company.country: company for company in reversed(in_order)}
    first = [firsts[country] for country in sorted(firsts)]
    return [*first, *(company for company in companies if company not in first)]


def _replace(section: Any, names: list[str], value: Any) -> Any:
    name, *rest = names
    return msgspec.structs.replace(section, **{name: _replace(getattr(section, name), rest, value) if rest else value})


def _again(settings: Settings) -> Settings:
    """Request companies even if their answers are fresh, which is free inside the paid window."""
    return apply_changes(settings, {"run.refresh_after_days": 0})


def _planning(
    settings: Settings, companies: Sequence[Company], now: Callable[[], datetime]
) -> Callable[[], planning.Planned]:
    frame = pl.DataFrame(companies, schema=["country", "company_number"], orient="row")
    return lambda: planning.plan_companies(_again(settings), frame, "firmlake check", now())


def _check_budget(planned: planning.Planned) -> None:
    if planned.waiting_count:
        limit = planned.budget.limit or "run.max_credits"
        raise Stopped(
            f"{limit} is too low: it leaves out {count_of(planned.waiting_count, 'company')}",
            "Raise it, or check fewer companies with --companies",
        )


def _publish(
    settings: Settings, asked: Sequence[Company], journal: Journal, now: Callable[[], datetime]
) -> tuple[str, Finding]:
    """Fetch the companies again in the same run with the settings that fit, and publish them. This is free."""
    row = "a run with these settings"
    plan = _planning(settings, asked, now)
    run = journal.settle(_again(settings), plan)
    try:
        published = carry_out(_again(settings), plan, Observer(), now)
        problem = shortfall([published]) if published else None
    except Stopped:
        raise
    except FirmlakeError as error:  # becomes a finding, so that the other findings are still shown
        problem = error
    if problem is None:
        return run.run_id, Finding(row, f"{run.run_id}: every value could be read", "as_assumed")
    return run.run_id, Finding(row, f"{run.run_id}: {problem.message}", "needs_you", next_step=problem.next_step)
