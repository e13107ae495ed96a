"""First contact: the questions that a service is asked before a list is bought from it, and the settings that fit it.

The command `check` asks all questions. A first run sends up to three requests that test the settings, and asks all
questions only if an answer differs. It keeps what it found as the profile of the data folder, the lowest layer of the
settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from firmlake.api import service
from firmlake.api.connection import REAL
from firmlake.api.exchange import Answer
from firmlake.api.requests import has_two_spellings
from firmlake.check.examples import BULK
from firmlake.check.finding import Finding, needs_you, worth_saying
from firmlake.check.questions import ask_briefly, ask_questions
from firmlake.check.talk import Talk
from firmlake.core.company import Company
from firmlake.core.errors import RequestFailedError, ServiceError, UnavailableError, UsageError
from firmlake.core.files import write_file
from firmlake.core.folders import Folders
from firmlake.core.process import graceful
from firmlake.core.settings import SANDBOX, Settings, change_settings
from firmlake.core.settings_layers import read_profile, render_changes
from firmlake.core.text import count_of
from firmlake.core.work import Clock
from firmlake.enrich.events import Advice, Steps
from firmlake.enrich.values import find_values
from firmlake.intake.lines import read_company_list
from firmlake.landing.progress import read_landed
from firmlake.landing.run import Run, begin, remove_run
from firmlake.landing.segments import Header, SegmentWriter, answered
from firmlake.privacy.forgotten import open_forgotten
from firmlake.privacy.persons import answer_filter

REQUESTS_MAX = 200
"""A usual check takes 30 requests, or about 100 if the refusals of the service do not say what is wrong."""
_REQUESTS_LEAST = 50
"""A run that may send fewer requests asks nothing first: the questions could use them all up, in each run again."""
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
NO_SETTINGS = (
    "No settings that fit were found: copy a request from the service's documentation into api.requests, as "
    "docs/first-contact.md shows"
)
"""The next step where everything was asked, so that `firmlake check` would lead back here."""
_OWN = ("answer", "no_answer")
"""Kinds of records of the requests of a run itself."""
_FIRST, _SECOND = 3, 2
"""Companies of its list that a first run asks about, and others that it buys with its second question."""
_SPARE = 100
"""Companies of its list among which it looks for others where those of a country are unknown."""


class Asking(NamedTuple):
    """The companies of a check: some that should exist and, if the credits allow it, one that does not."""

    companies: tuple[Company, ...]
    stranger: Company | None

    @property
    def credit_count(self) -> int:
        """The most credits that the check may cost. Some services charge for a company that does not exist."""
        return len(self.companies) + (self.stranger is not None)


def choose_companies(settings: Settings, named: Sequence[Company], company_list: Path | None, most: int) -> Asking:
    """Choose the companies to ask for, without forgotten ones.

    Args:
        settings: How to read a list.
        named: Companies named by the user; the check asks for all of them.
        company_list: If no companies are named, take the first of each country in this list, then others. None takes
            well-known companies.
        most: The most credits that may be spent.

    Raises:
        UsageError: More companies are named than there are credits, or one was forgotten. Raise `--companies`, or name
            others.
        CompanyListError: The list cannot be used; the message says why.
    """
    if len(named) > most:
        raise UsageError(f"{len(named)} companies are named, but --companies allows {most}", "Raise --companies")
    forgotten = open_forgotten(settings.privacy, Folders.of(settings))
    if forgotten and any(map(forgotten.has_company, named)):  # its answers would be erased as they land
        raise UsageError("A company that is named was forgotten", "Name another with --company")
    wanted = most - (most > 1)  # one credit is for the company that does not exist
    if named:
        return Asking(tuple(dict.fromkeys(named)), STRANGER if len(named) <= wanted else None)
    companies: Iterable[Company] = WELL_KNOWN
    if company_list is not None:
        rows = read_company_list(company_list, settings.intake).companies
        companies = [Company(*row) for row in rows.select("country", "company_number").head(10_000).iter_rows()]
        if not companies:
            raise UsageError(f"{company_list} names no company", "Use another list, or run the check without one")
    known = [company for company in companies if not (forgotten and forgotten.has_company(company))]
    return Asking(tuple(_mix(known)[:wanted]), STRANGER if most > 1 else None)


@contextmanager
def ask_in_run(settings: Settings, run: Run, credits_max: int, now: Clock) -> Iterator[Talk]:
    """Open a conversation with the service whose answers about companies land in a run, so that no credit is lost.

    The run has begun. The conversation may cost `credits_max`.
    """
    clean = answer_filter(settings.privacy, run.folders, settings.contract)
    shard, given = run.plan.shard_count, settings.run.max_requests
    within = change_settings(settings, {"run.max_requests": REQUESTS_MAX if given < 0 else min(given, REQUESTS_MAX)})
    with (
        graceful() as stop,
        closing(SegmentWriter(run.folders.landing(run.run_id, shard))) as writer,
        service.open_access(within) as access,
    ):

        def land(answer: Answer) -> None:
            request = answer.request
            if request.companies:
                header = Header(
                    kind="probe", request_id="", run_id=run.run_id, shard=shard, dataset=request.endpoint,
                    companies=request.companies, language=run.plan.language, fetched_at=answer.fetched_at,
                )  # fmt: skip
                probe = msgspec.structs.replace(answered(header, answer), kind="probe")  # answers no target of the run
                writer.append(probe, clean(answer.body))

        with Talk(access, credits_max, stop, land, REAL._replace(utc_now=now)) as talk:
            yield talk


def changes_of(findings: Iterable[Finding]) -> dict[str, Any]:
    """Join the settings of findings, by dotted key."""
    changes: dict[str, Any] = {}
    for key, value in (change for finding in findings for change in finding.settings.items()):
        changes[key] = {**changes.get(key, {}), **value} if isinstance(value, dict) else value
    return changes


def write_settings(path: Path, changes: Mapping[str, Any], findings: Iterable[Finding], now: datetime) -> None:
    """Write the changes, by dotted key, to a settings file, with the findings that they are due to."""
    reasons = {key: f"{one.assumption}: {one.seen}" for one in findings for key in one.settings}
    text = f"# Written by firmlake on {now:%Y-%m-%d}: what differs from the defaults with this service.\n\n"
    text += render_changes(changes, reasons)
    write_file(path, lambda aside: aside.write_bytes(text.encode()))


class Met(NamedTuple):
    """A service that answers as the settings say, as far as it was asked."""

    settings: Settings  # those that fit the service; what differs from those given is the profile of the data folder
    run: Run  # reads its answers by them
    looks_closer: bool  # whether only a few requests were tried; the run asks everything if one of its own is refused
    said: frozenset[str] = frozenset()  # the assumptions about which a person was told something
    has_asked_all: bool = False  # whether everything was asked


def meet(settings: Settings, run: Run, companies: Sequence[Company], now: Clock) -> Steps[Met]:
    """Ask a service that the data folder does not know yet, before a run buys its list.

    `run.check = false` asks nothing, and neither does the embedded service. The run has begun: answers land in it, so
    no credit is lost. The companies are some that it will ask for, in any number.

    Raises:
        ServiceError: The service differs in a way that no setting covers, or in which a person must decide.
    """
    asked = _mix(companies)[: _FIRST + _SECOND]
    is_embedded = settings.api.base_url == SANDBOX
    is_short = 0 <= settings.run.max_requests < _REQUESTS_LEAST
    if not (settings.run.check and asked) or is_embedded or is_short or service.is_stamped(run.folders):
        return Met(settings, run, looks_closer=False)
    is_as_set, findings = None, list[Finding]()
    with ask_in_run(settings, run, len(asked), now) as talk, suppress(RequestFailedError, UnavailableError):
        # The run itself says what failed.
        is_as_set, findings = ask_briefly(talk, settings.run.datasets, asked[:_FIRST], asked[_FIRST:])
    count = len(talk.answers)
    values = [*find_values(talk.answers, settings.contract)]
    if is_as_set is False or any("contract.rename" in one.settings for one in values):  # other datasets have names too
        return (yield from look_closer(Met(settings, run, looks_closer=False), companies, now, count))
    if is_as_set:
        findings += values
        settings, run = yield from _keep(settings, run, findings, count, now())
    said = frozenset(one.assumption for one in findings)
    return Met(_after(settings, count), read_by(settings, run), looks_closer=True, said=said)


def look_closer(met: Met, companies: Sequence[Company], now: Clock, sent: int = 0) -> Steps[Met]:
    """Ask a service everything, because it did not answer as the settings say, and keep what fits it; see `meet`.

    `sent` is the number of requests before.
    """
    settings, run = met.settings, met.run
    spare = _mix(companies)[:_SPARE]
    asked = spare[:_FIRST]
    stranger = STRANGER if settings.run.max_credits < 0 else None
    findings: list[Finding] = []
    credits_max = len({*asked, *spare}) + (stranger is not None)
    with ask_in_run(settings, run, credits_max, now) as talk, suppress(RequestFailedError, UnavailableError):
        findings = list(ask_questions(talk, asked, stranger, spare))
    sent += len(talk.answers) + sum(header.kind in _OWN for header in _landed(run))
    findings += find_values(talk.answers, settings.contract)
    is_understood = any(one.assumption == BULK for one in findings)
    findings = [one for one in findings if one.verdict == "needs_you" or one.settings or one.assumption not in met.said]
    settings, run = yield from _keep(settings, run, findings, sent, now(), is_understood=is_understood)
    return Met(_after(settings, sent), read_by(settings, run), looks_closer=False, has_asked_all=True)


def _keep(
    settings: Settings, run: Run, findings: Sequence[Finding], sent: int, now: datetime, *, is_understood: bool = True
) -> Steps[tuple[Settings, Run]]:
    """Say what `sent` requests have found, and keep the settings that fit.

    Without `is_understood`, no answer was read, so nothing is said about the settings: the run itself says what failed.

    Raises:
        ServiceError: A person must decide about something that was found.
    """
    if open_points := [one for one in needs_you(findings) if not one.assumption.startswith("endpoints")]:
        if not any(header.is_success for header in _landed(run)):
            remove_run(run)
        raise _describe(open_points, count_of(sent, "request"))
    said = f"First contact with {settings.api.base_url} ({count_of(sent, 'request')})"
    if differing := changes_of(one for one in findings if one.verdict != "as_assumed"):
        names = dict.fromkeys(re.sub(r"(?<=^api\.requests)\..*", "", key) for key in differing)
        said += f": it differs from the settings in {', '.join(names)}"
    elif is_understood and not needs_you(findings):
        said += ": it answers as the settings say"
    changes = changes_of(findings)
    changes = {key: value for key, value in changes.items() if change_settings(settings, {key: value}) != settings}
    if changes:
        settings, run = yield from adopt(settings, run, changes, findings, now, said)
    elif is_understood:
        yield Advice(said)
    for one in worth_saying(findings):
        yield Advice(f"First contact: {one.assumption}: {one.seen}. {one.next_step}")
    return settings, run


def _landed(run: Run) -> list[Header]:
    return [each.header for shard in run.shards() for each in read_landed(run, shard)]


def _after(settings: Settings, sent: int) -> Settings:
    """Return the settings with what is left of the requests that the run may send."""
    most = settings.run.max_requests
    return change_settings(settings, {"run.max_requests": max(most - sent, min(most, 0))})


def adopt(
    settings: Settings,
    run: Run,
    changes: Mapping[str, Any],
    findings: Iterable[Finding],
    now: datetime,
    said: str,
) -> Steps[tuple[Settings, Run]]:
    """Keep settings in the profile of the data folder, and let a run read its answers by them; return both, changed.

    `said` is the sentence about what was found.
    """
    profile = {key: value for key, value, _ in read_profile(run.folders.data)}
    write_settings(run.folders.profile, {**profile, **changes}, findings, now)
    yield Advice(f"{said}. Written: {run.folders.profile}, which each run of this data folder reads")
    settings = change_settings(settings, changes)
    return settings, read_by(settings, run)


def read_by(settings: Settings, run: Run) -> Run:
    """Let a run read its answers by these settings; a kill may have come between them and the run's record."""
    plan = msgspec.structs.replace(
        run.plan, names=settings.api.names, contract=settings.contract, trusts_totals=settings.api.trusts_totals
    )
    return run if plan == run.plan else begin(Run(run.folders, plan))


def _describe(open_points: Sequence[Finding], said: str) -> ServiceError:
    first, *others = open_points
    more = f" (and {count_of(len(others), 'more difference')})" if others else ""
    return ServiceError(
        f"The list was not bought, because the service differs from the settings ({said}): {first.assumption}: "
        f"{first.seen}{more}",
        f"{first.next_step}. `firmlake check LIST` shows everything; --no-check runs the list as it is",
    )


def _mix(companies: Iterable[Company]) -> list[Company]:
    """Put one company of each country first, of Belgium one whose number has two spellings, if there is any.

    The last one and one of the middle are next: neighbours may be unknown, or refused, for a common reason.
    """
    companies = list(companies)
    in_order = sorted(companies, key=lambda company: not has_two_spellings(company))
    firsts = {company.country: company for company in reversed(in_order)}
    first = [firsts[country] for country in sorted(firsts)]
    others = [company for company in companies if company not in first]
    return [*dict.fromkeys([*first, *others[:: -max(len(others) // 2, 1)], *others])]
