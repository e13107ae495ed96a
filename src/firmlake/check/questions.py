"""The questions of a check, in an order in which each can use the findings before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from firmlake.api import requests
from firmlake.api.contract import DATASETS
from firmlake.api.exchange import Answer
from firmlake.check.finding import Finding
from firmlake.check.headers import find_credits, find_rate_limit
from firmlake.check.limits import choose_repeated, find_companies_cap, find_page_cap, find_records_cap
from firmlake.check.names import describe_refusal, find_body_names, find_page_names
from firmlake.check.records import examine_records
from firmlake.check.spelling import SPELLING, find_spelling, spellings
from firmlake.check.talk import Talk, read_json
from firmlake.check.totals import find_totals
from firmlake.check.values import Records
from firmlake.check.wording import find_errors, find_language, find_messages, find_not_found
from firmlake.core.company import Company

__all__ = ["ask_questions"]

_PAGED_LAST = ("lookalikes", "relationships", "financials")
"""The datasets by which questions about companies are asked: those whose answers have no pages come first."""


def ask_questions(talk: Talk, companies: Sequence[Company], stranger: Company | None) -> Iterator[Finding]:
    """Compare a service with every assumption.

    Args:
        talk: The conversation, with a budget for all companies. Its `api` is changed to fit the service.
        companies: At least one company that the service should know.
        stranger: A company that does not exist; None leaves out the question about it.

    Yields:
        One finding for each assumption, as soon as it is known.

    Raises:
        FirmlakeError: The service cannot be asked, or refuses the token. The message says what to do.
    """
    yield from _find_lists(talk)
    usual = talk.api.keep_leading_zero
    known, statuses = _find_first(talk, companies)
    allowed = [dataset for dataset, status in statuses.items() if _is_ok(status)]
    if known is None or not allowed:
        yield _describe_nobody(companies, statuses)
        yield from _describe_endpoints(statuses, {})
        return
    body = next(dataset for dataset in _PAGED_LAST if dataset in allowed)
    named = find_body_names(talk, body, known)
    yield named
    is_understood = named.verdict != "needs_you"
    yield find_spelling(talk, allowed[0], known, companies if is_understood else [known], usual)
    if not is_understood:
        yield from _describe_endpoints(statuses, {})
        return
    if "financials" in allowed:
        yield find_page_names(talk, known)
        yield find_page_cap(talk, known)
    repeated = choose_repeated(talk, body, known, stranger)
    yield find_companies_cap(talk, body, repeated)
    if "financials" in allowed:
        yield find_records_cap(talk, known, repeated)
    others = [company for company in companies if company != known]
    answers = {dataset: _ask_all(talk, dataset, [known, *others]) for dataset in statuses}
    yield from _describe_endpoints(statuses, answers)
    yield find_totals(talk.answers)
    yield find_messages(talk, answers)
    yield find_not_found(talk, body, known, stranger)
    yield find_language(talk, body, [known, *others])
    yield from examine_records(_gather(answers))
    yield find_errors(talk, known)
    yield find_rate_limit(talk)
    yield from find_credits(talk, [known, *others], stranger)
    yield Finding("contacts body", "nothing is written by a check", "not_observed")


# ---------------------------------------------------------------------------------------------------------------------


def _find_lists(talk: Talk) -> Iterator[Finding]:
    """Ask for the lists first: that is free, and shows whether the service answers and accepts the token."""
    answer = talk.ask(requests.service_lists(talk.api, "OVERVIEW"))
    address = talk.api.base_url
    transport = "encrypted, with a certificate that is trusted" if address.startswith("https") else "on this machine"
    yield Finding("address", f"{address} answers, {transport}", "as_assumed")
    yield Finding("token", "accepted", "as_assumed")
    if answer.is_success:
        yield Finding("lists", "may be read", "as_assumed")
    else:
        what = f"{describe_refusal(answer)}; runs do not need them, `service-lists` and `contacts` do"
        yield Finding("lists", what, "covered")


def _find_first(talk: Talk, companies: Sequence[Company]) -> tuple[Company | None, dict[str, int | None]]:
    """Find a company that the service knows, by asking each endpoint for one company, with both Belgian spellings.

    Returns:
        The company, or None; the status of each dataset.
    """
    usual, statuses = talk.api.keep_leading_zero, {}
    for company in companies:
        for keep in spellings(talk, company):
            talk.api = msgspec.structs.replace(talk.api, keep_leading_zero=keep)
            statuses = {dataset: talk.single(dataset, company).status for dataset in DATASETS}
            if any(map(_is_ok, statuses.values())):
                return company, statuses
        talk.api = msgspec.structs.replace(talk.api, keep_leading_zero=usual)
    return None, statuses


def _describe_nobody(companies: Sequence[Company], statuses: dict[str, int | None]) -> Finding:
    asked = ", ".join(map(str, companies))
    if set(statuses.values()) == {404}:
        step = "Name companies that the service is sure to know, with --company or a list"
        return Finding(SPELLING, f"the service knows none of {asked}", "needs_you", next_step=step)
    return Finding(SPELLING, f"nothing was answered about {asked}", "not_observed")


def _is_ok(status: int | None) -> bool:
    return 200 <= (status or 0) < 300


def _ask_all(talk: Talk, dataset: str, companies: list[Company]) -> Answer:
    """Ask for all companies, and for as many of their records as one request may ask for."""
    chosen = companies[: talk.api.companies_per_request]
    if not DATASETS[dataset].is_paged:
        return talk.bulk(dataset, chosen)
    most = talk.api.records_per_request // len(chosen) if talk.api.records_per_request else talk.api.page_limit_max
    return talk.bulk(dataset, chosen, max(1, min(talk.api.page_limit_max, most)), 0)


def _describe_endpoints(statuses: dict[str, int | None], bulk: dict[str, Answer]) -> Iterator[Finding]:
    for dataset, status in statuses.items():
        row, answer = f"endpoints of {dataset}", bulk.get(dataset)
        seen = f"GET {status}" + (f", POST {answer.status}" if answer else "")
        worst = max(status or 0, (answer and answer.status) or 0)
        if _is_ok(worst):
            is_known = answer is None or read_json(answer.body) is not None
            yield Finding(row, f"{seen}: allowed" if is_known else f"{seen}, but no JSON", "as_assumed")
        elif worst == 404:
            yield Finding(row, f"{seen}: not found", "not_observed")
        else:
            what = "forbidden" if worst == 403 else "fails"
            yield Finding(
                row, f"{seen}: {what}", "needs_you",
                next_step=f"Get {dataset} allowed or repaired, or leave it out of run.datasets; runs end with exit 3",
            )  # fmt: skip


def _gather(answers: dict[str, Answer]) -> Records:
    """Read the records from bulk answers, by dataset and group."""
    records: Records = {}
    for dataset, answer in answers.items():
        content = read_json(answer.body) if answer.is_success else None
        groups = records[dataset] = {name: [] for name in DATASETS[dataset].groups}
        for element in content if isinstance(content, list) else []:
            data: Any = element.get("data") if isinstance(element, dict) else None
            for name, group in DATASETS[dataset].groups.items():
                rows = data.get(group.key) if isinstance(data, dict) and group.key else data
                groups[name] += rows if isinstance(rows, list) else []
    return records
