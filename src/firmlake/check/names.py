"""Findings about names in a request: the fields for companies and the parameters for paging."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import msgspec

from firmlake.api.exchange import Answer
from firmlake.api.refusal import read_lines
from firmlake.check.finding import Finding
from firmlake.check.refusal import suggest_names
from firmlake.check.talk import Talk, content_of, is_refusal, pagination, read_json
from firmlake.core.company import Company, normal_form
from firmlake.core.text import shown

__all__ = ["describe_refusal", "find_body_names", "find_page_names"]

_BODY = ("companies", "country", "company_number")
_PAGE = ("limit", "offset")
_OTHERS: dict[str, tuple[str, ...]] = {
    "companies": ("companies", "identifiers", "companyIds", "items"),
    "country": ("countryCode", "country", "countryIso", "country_code"),
    "company_number": ("companyNumber", "number", "id", "registrationNumber", "company_number"),
    "limit": ("limit", "pageSize", "size", "take", "perPage", "count", "top", "$top"),
    "offset": ("offset", "skip", "start", "from", "$skip"),
}
"""Names used by other services, to try if the service refuses ours without saying which names it expects."""
_HINTS_MAX = 8
_GUESSES_MAX = 80


def elements_of(answer: Answer, companies: list[Company]) -> list[dict[str, Any]] | None:
    """Read the elements of a bulk answer; None if it is not an array with elements about the requested companies."""
    content = content_of(answer)
    if not isinstance(content, list) or not all(isinstance(element, dict) for element in content):
        return None
    return content if any(_company_of(element) in companies for element in content) else None


def find_body_names(talk: Talk, dataset: str, company: Company) -> Finding:
    """Find the field names of a bulk body, from the text of refusals or by trying names of other services."""

    def ask() -> Answer:
        return talk.bulk(dataset, [company])

    def may_be_names(answer: Answer) -> bool:
        return is_refusal(answer) or read_json(answer.body) in ([], None)

    answer = _hunt(talk, _BODY, ask, lambda answer: elements_of(answer, [company]) is not None, may_be_names)
    names = ", ".join(getattr(talk.api.names, role) for role in _BODY)
    assumption = "bulk body"
    if other := _other_form(answer):
        return Finding(
            assumption, f"elements name {other} where {company} was requested", "needs_you",
            next_step="Ask the service to answer with the requested number. firmlake reads only the numbers of the "
            "specification (enterprise number, KVK number, SIREN), so such companies count as failed",
        )  # fmt: skip
    if elements_of(answer, [company]) is None:
        what = "the answer is not an array of elements: " if answer.is_success else ""
        return Finding(
            assumption, what + describe_refusal(answer), "needs_you",
            next_step="Compare with the service's documentation. api.names can set other names, but no setting can "
            "change the structure of requests or answers",
        )  # fmt: skip
    return _named(talk, assumption, _BODY, f"array and fields are called {names}")


def find_page_names(talk: Talk, company: Company) -> Finding:
    """Find the names of the paging parameters. The `pagination` of an answer shows whether the service read ours."""

    def ask() -> Answer:
        return talk.single("financials", company, 2, 1)

    def understands(answer: Answer) -> bool:
        page = pagination(answer)
        is_short = page.get("limit") == page.get("total", 2) < 2
        return (page.get("limit") == 2 or is_short) and page.get("offset") == 1

    answer = _hunt(talk, _PAGE, ask, understands, lambda answer: answer.is_success or is_refusal(answer))
    assumption = "paging parameters"
    if not understands(answer):
        return Finding(
            assumption, f"limit and offset are not understood: {describe_refusal(answer)}", "needs_you",
            next_step="Find the paging parameters in the service's documentation and set api.names.limit and .offset",
        )  # fmt: skip
    in_body = talk.bulk("financials", [company], 2, 1)
    names = " and ".join(getattr(talk.api.names, role) for role in _PAGE)
    if not understands(in_body):
        return Finding(
            assumption, f"{names} in the query, but not in the body of a bulk request: {describe_refusal(in_body)}",
            "needs_you", next_step="Report this service: firmlake uses the same two names in both places",
        )  # fmt: skip
    return _named(talk, assumption, _PAGE, f"{names}, in the query and in the body")


def describe_refusal(answer: Answer) -> str:
    """Describe in one line what the service answered."""
    if answer.error and (answer.status or 0) < 300:
        return answer.error
    lines = read_lines(answer.body) if not answer.is_success else [_glimpse(answer.body)]
    text = "; ".join(dict.fromkeys(lines))[:160]
    return f"{answer.status}: {text}" if text else str(answer.status)


# ---------------------------------------------------------------------------------------------------------------------


def _hunt(
    talk: Talk,
    roles: tuple[str, ...],
    ask: Callable[[], Answer],
    is_right: Callable[[Answer], bool],
    goes_on: Callable[[Answer], bool],
) -> Answer:
    """Try names until the answer is right.

    Args:
        talk: The conversation. It gets the right names, or keeps its own if none were right.
        roles: The names to find.
        ask: Sends a request with the names in `talk`.
        is_right: Returns whether the service understood the names.
        goes_on: Returns whether other names may help.

    Returns:
        The first answer that is right. If none is: one that other names would not change, or else the first.
    """
    before, tried, first = talk.api.names, set(), None
    guesses = _guess(talk, roles)
    for attempt in range(_HINTS_MAX + _GUESSES_MAX):
        names = {role: getattr(talk.api.names, role) for role in roles}
        tried.add(tuple(names.values()))
        answer = ask()
        if is_right(answer):
            return answer
        first = answer if first is None or not goes_on(answer) else first
        hinted = names | (suggest_names(read_lines(answer.body), names) if is_refusal(answer) else {})
        if attempt >= _HINTS_MAX or tuple(hinted.values()) in tried:
            hinted = next((dict(zip(roles, guess, strict=True)) for guess in guesses if guess not in tried), {})
        if not (hinted and goes_on(answer)):
            break
        _rename(talk, hinted)
    assert first is not None
    talk.api = msgspec.structs.replace(talk.api, names=before)
    return first


def _guess(talk: Talk, roles: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield combinations of names that other services use, with the fewest changes first."""
    ours = tuple(getattr(talk.api.names, role) for role in roles)
    choices = [dict.fromkeys((name, *_OTHERS[role])) for role, name in zip(roles, ours, strict=True)]
    combinations = sorted(product(*choices), key=lambda names: sum(map(str.__ne__, names, ours)))
    return iter(combinations[:_GUESSES_MAX])


def _rename(talk: Talk, names: dict[str, str]) -> None:
    talk.api = msgspec.structs.replace(talk.api, names=msgspec.structs.replace(talk.api.names, **names))


def _named(talk: Talk, assumption: str, roles: tuple[str, ...], seen: str) -> Finding:
    usual = type(talk.api.names)()
    names = {role: getattr(talk.api.names, role) for role in roles}
    changed = {f"api.names.{role}": name for role, name in names.items() if name != getattr(usual, role)}
    return Finding(assumption, seen, "covered" if changed else "as_assumed", changed)


def _company_of(element: dict[str, Any]) -> Company | None:
    identifier = element.get("identifier")
    if not isinstance(identifier, dict):
        return None
    return normal_form(str(identifier.get("country")), str(identifier.get("companyNumber")))


def _other_form(answer: Answer) -> str:
    """Return the first identifier in an array of elements if it is not a company number in our form; else ""."""
    content = content_of(answer)
    first = content[0] if isinstance(content, list) and content else None
    identifier = first.get("identifier") if isinstance(first, dict) else None
    if not isinstance(identifier, dict) or _company_of({"identifier": identifier}) is not None:
        return ""
    country, number = identifier.get("country"), identifier.get("companyNumber")
    return shown(f"{country} {number}")[:60] if isinstance(country, str) and isinstance(number, str | int) else ""


def _glimpse(body: bytes) -> str:
    return " ".join(body[:60].decode("utf-8", "replace").split())
