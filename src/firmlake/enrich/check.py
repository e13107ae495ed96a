"""The command `check`: ask a service all questions, publish the paid answers, and say which settings fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple

import polars as pl

from firmlake.check.examples import BULK, knows
from firmlake.check.finding import Finding, needs_you
from firmlake.check.questions import ask_questions, find_lists
from firmlake.core.company import Company
from firmlake.core.errors import FirmlakeError, RequestRefusedError, Stopped
from firmlake.core.settings import Settings, change_settings
from firmlake.core.text import count_of
from firmlake.core.work import Clock
from firmlake.enrich import plan as planning
from firmlake.enrich.contact import NO_SETTINGS, Asking, ask_in_run, changes_of, read_by
from firmlake.enrich.events import follow
from firmlake.enrich.run import run_plan, shortfall, start_or_resume
from firmlake.enrich.values import VALUES, describe_values, find_values
from firmlake.landing.run import CHECK, Run, open_run, remove_run
from firmlake.report.causes import find_doubts
from firmlake.tables.index import landed_facts
from firmlake.warehouse.generations import open_warehouse

_VALUES_MIN = 10
"""A person looks at what a check finds, so fewer values are enough than in a run."""


class Checked(NamedTuple):
    """The result of a check."""

    findings: list[Finding]
    settings: Settings  # those given, with the changes
    changes: dict[str, Any]  # the settings to change for this service, by dotted key
    request_count: int  # requests that were answered before the run
    charged: int | None  # credits charged according to the service; None if it does not report them
    run_id: str = ""  # the run in which all answers landed; empty if nothing was bought


def check(
    settings: Settings, asking: Asking, now: Clock, on_finding: Callable[[Finding], object] = lambda finding: None
) -> Checked:
    """Ask a service for a few companies, compare its behaviour with the assumptions, and publish the paid answers.

    The caller holds the data folder. Each company costs at most one credit.

    Raises:
        FirmlakeError: The service cannot be asked, or charges more than the budget. The message says what to do.
    """
    findings: list[Finding] = []
    companies = (*asking.companies, *filter(None, [asking.stranger]))
    planned = _planning(settings, companies, now)()
    _check_budget(planned)
    run = start_or_resume(_again(settings), planned, now())
    with _kept_if_paid(run):
        with ask_in_run(settings, run, asking.credit_count, now) as talk:
            questions = ask_questions(talk, asking.companies, asking.stranger)
            for finding in chain(find_lists(talk), questions, find_values(talk.answers, settings.contract)):
                findings.append(finding)
                on_finding(finding)
        settings = change_settings(settings, changes_of(findings))
        charged = talk.charged if talk.tells_credits else None
        checked = Checked(findings, settings, changes_of(findings), len(talk.answers), charged)
        if not any(answer.is_success and answer.request.companies for answer in talk.answers):
            return checked
        is_understood = any(one.assumption == BULK and one.verdict != "needs_you" for one in findings)
        if needs_you(findings) and not is_understood:
            return checked  # a run cannot ask for companies without a request that is understood
        known = [company for company in talk.asked if any(knows(answer, company) for answer in talk.answers)]
        run_id, of_run = _publish(settings, run, known or talk.asked, now)
    for finding in of_run:
        findings.append(finding)
        on_finding(finding)
    changes = changes_of(findings)
    return checked._replace(run_id=run_id, changes=changes, settings=change_settings(settings, changes))


@contextmanager
def _kept_if_paid(run: Run) -> Iterator[None]:
    """Remove the run of a check at its end if it has paid for nothing."""
    try:
        yield
    finally:
        if run.folders.log(run.run_id).exists() and run.outcome() is None:
            facts = landed_facts(open_run(run.folders, run.run_id))  # by the header of the credits that was found
            if facts.paid.is_empty() and not facts.charges["credits"].sum():
                remove_run(run)


def _again(settings: Settings) -> Settings:
    """Request companies even if their answers are fresh, which is free inside the paid window."""
    return change_settings(settings, {"run.refresh_after_days": 0, "run.check": False})


def _planning(settings: Settings, companies: Sequence[Company], now: Clock) -> Callable[[], planning.Planned]:
    frame = pl.DataFrame(companies, schema=["country", "company_number"], orient="row")
    return lambda: planning.plan_companies(_again(settings), frame, CHECK, now())


def _check_budget(planned: planning.Planned) -> None:
    if planned.waiting_count:
        limit = planned.budget.limit or "run.max_credits"
        raise Stopped(
            f"{limit} is too low: it leaves out {count_of(planned.waiting_count, 'company')}",
            "Raise it, or check fewer companies with --companies",
        )


def _publish(settings: Settings, run: Run, asked: Sequence[Company], now: Clock) -> tuple[str, list[Finding]]:
    """Fetch the companies again in the same run with the settings that fit, and publish them. This is free.

    Return the run, and what it says of the records that came: a run judges them as every other run does.
    """
    row = "a run with these settings"
    run = read_by(settings, run)
    try:
        published = follow(run_plan(_again(settings), _planning(settings, asked, now), now, values_min=_VALUES_MIN))
    except Stopped:
        raise
    except FirmlakeError as error:  # becomes a finding, so that the other findings are still shown
        step = NO_SETTINGS if isinstance(error, RequestRefusedError) else error.next_step  # which names this command
        return run.run_id, [Finding(row, f"{run.run_id}: {error.message}", "needs_you", next_step=step)]
    assert published
    problem = shortfall([published])
    contract = published.settings.contract
    found = {f"contract.{name}": getattr(contract, name) for name in ("scales", "types", "date_order")}
    findings = [
        Finding(VALUES, told, "covered", {key: value})
        for key, value in found.items()
        if (told := describe_values({key: value}, settings.contract))
    ]
    with open_warehouse(run.folders, with_held=True) as connection:
        findings += [
            Finding(VALUES, doubt.text, "needs_you" if doubt.is_loss else "covered", next_step=doubt.next_step)
            for doubt in find_doubts(connection, run.run_id)
        ]
    if problem is None:
        seen = f"{run.run_id}: " + ("published" if findings else "every value could be read")
        return run.run_id, [Finding(row, seen, "as_assumed"), *findings]
    failed = Finding(row, f"{run.run_id}: {problem.message}", "needs_you", next_step=problem.next_step)
    return run.run_id, [failed, *findings]
