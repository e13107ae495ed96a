"""The command `check`: ask a service all questions, publish the paid answers, and say which settings fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, NamedTuple, Self

import polars as pl

from firmlake.api.exchange import Answer
from firmlake.check.finding import Finding
from firmlake.check.questions import ask_questions
from firmlake.core.company import Company
from firmlake.core.errors import FirmlakeError, Stopped
from firmlake.core.folders import Folders
from firmlake.core.settings import Settings, change_settings
from firmlake.core.signals import graceful
from firmlake.core.text import count_of
from firmlake.enrich import plan as planning
from firmlake.enrich.contact import Asking, changes_of, open_probes, open_talk, probe_of, read_by
from firmlake.enrich.events import follow
from firmlake.enrich.run import run_plan, shortfall, start_or_resume
from firmlake.landing.run import CHECK, Run, remove_run
from firmlake.landing.segments import SegmentWriter
from firmlake.privacy.persons import answer_filter
from firmlake.report.summary import find_doubts
from firmlake.tables.index import landed_facts
from firmlake.warehouse.generations import open_warehouse

VALUES = "values"
"""What findings about records are called; docs/service_gaps.md has a row for each way in which they may differ."""
_VALUES_MIN = 10
"""A person looks at what a check finds, so fewer values are enough than in a run."""


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
        with open_talk(settings, asking.credit_count, stop, journal.land, now) as talk:
            for finding in ask_questions(talk, asking.companies, asking.stranger):
                findings.append(finding)
                on_finding(finding)
        settings = change_settings(settings, changes_of(findings))
        charged = talk.charged if talk.tells_credits else None
        checked = Checked(findings, settings, changes_of(findings), len(talk.answers), charged)
        if not any(answer.is_success and answer.request.companies for answer in talk.answers):
            return checked
        if any(one.assumption == "bulk body" and one.verdict == "needs_you" for one in findings):
            return checked  # a run cannot ask for companies without the names of the fields in the body
        run_id, of_run = _publish(settings, talk.asked, journal, now)
    for finding in of_run:
        findings.append(finding)
        on_finding(finding)
    changes = changes_of(findings)
    return checked._replace(run_id=run_id, changes=changes, settings=change_settings(settings, changes))


class Journal:
    """Lands the answers about companies in a run, which starts with the first successful answer.

    So every credit is known even if the check is killed. Use it as a context manager: on exit, a run that has paid for
    nothing is removed.

    Args:
        settings: The settings of the run.
        plan: Makes the plan of the run.
        now: The clock, UTC.
    """

    def __init__(self, settings: Settings, plan: Callable[[], planning.Planned], now: Callable[[], datetime]) -> None:
        self._settings, self._plan, self._now = settings, plan, now
        self._clean = answer_filter(settings.privacy, Folders.of(settings), settings.contract)
        self._answers: list[Answer] = []
        self._writer: SegmentWriter | None = None
        self._run: Run | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._close()
        if self._run and self._run.outcome() is None:
            facts = landed_facts(self._run)
            if facts.paid.is_empty() and not facts.charges["credits"].sum():
                remove_run(self._run)

    def land(self, answer: Answer) -> None:
        """Land an answer. Failed answers wait for the first successful one and land with it."""
        if not answer.request.companies:
            return
        self._answers.append(answer)
        if self._run:
            self._write(answer)
        elif answer.is_success:
            self._begin()

    def settle(self, settings: Settings, plan: Callable[[], planning.Planned]) -> Run:
        """Make the run read its answers with the settings that fit the service, and return the run.

        If these settings ask for other companies or another language, a new run takes over the answers.

        Args:
            settings: The settings that fit. At least one answer was successful.
            plan: Makes the plan of the run by these settings.
        """
        assert self._run
        unfinished = plan().unfinished
        if unfinished and unfinished.run_id == self._run.run_id:
            self._run = read_by(settings, self._run)
        else:
            self._close()
            remove_run(self._run)  # before planning, which would otherwise count its companies as paid for already
            self._settings, self._plan = settings, plan
            self._begin()
        self._close()
        return self._run

    def _begin(self) -> None:
        self._run = start_or_resume(self._settings, self._plan(), self._now())
        self._writer = open_probes(self._run)
        for answer in self._answers:
            self._write(answer)

    def _write(self, answer: Answer) -> None:
        assert self._run
        assert self._writer
        self._writer.append(probe_of(self._run, answer), self._clean(answer.body))

    def _close(self) -> None:
        if self._writer:
            self._writer.close()
        self._writer = None


def _again(settings: Settings) -> Settings:
    """Request companies even if their answers are fresh, which is free inside the paid window."""
    return change_settings(settings, {"run.refresh_after_days": 0, "run.check": False})


def _planning(
    settings: Settings, companies: Sequence[Company], now: Callable[[], datetime]
) -> Callable[[], planning.Planned]:
    frame = pl.DataFrame(companies, schema=["country", "company_number"], orient="row")
    return lambda: planning.plan_companies(_again(settings), frame, CHECK, now())


def _check_budget(planned: planning.Planned) -> None:
    if planned.waiting_count:
        limit = planned.budget.limit or "run.max_credits"
        raise Stopped(
            f"{limit} is too low: it leaves out {count_of(planned.waiting_count, 'company')}",
            "Raise it, or check fewer companies with --companies",
        )


def _publish(
    settings: Settings, asked: Sequence[Company], journal: Journal, now: Callable[[], datetime]
) -> tuple[str, list[Finding]]:
    """Fetch the companies again in the same run with the settings that fit, and publish them. This is free.

    Returns:
        The run, and what it says of the records that came: a run judges them as every other run does.
    """
    row = "a run with these settings"
    plan = _planning(settings, asked, now)
    run = journal.settle(_again(settings), plan)
    try:
        published = follow(run_plan(_again(settings), plan, now, values_min=_VALUES_MIN))
    except Stopped:
        raise
    except FirmlakeError as error:  # becomes a finding, so that the other findings are still shown
        return run.run_id, [Finding(row, f"{run.run_id}: {error.message}", "needs_you", next_step=error.next_step)]
    assert published
    problem = shortfall([published])
    contract = published.settings.contract
    found = {f"contract.{name}": getattr(contract, name) for name in ("scales", "types")}
    findings = [
        Finding(VALUES, f"{', '.join(value)}: read as the service writes them", "covered", {key: value})
        for key, value in found.items()
        if value != getattr(settings.contract, key.partition(".")[2])
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
