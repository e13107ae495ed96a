"""Findings about the limits of one request, and about messages: language, unknown companies, form of refusals.

The limit of companies is tested by naming one company many times in a request.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import count, takewhile
from math import prod

from firmlake.api.answers import NOT_FOUND, named_in, placed_in, tells_unknown, wording, words_at_places
from firmlake.api.contract import DATASETS
from firmlake.api.exchange import Answer
from firmlake.api.judge import describe_answer, read_lines, read_message
from firmlake.check.examples import language_header, with_language_header
from firmlake.check.finding import Finding, Verdict
from firmlake.check.talk import (
    FORBIDDEN,
    Talk,
    elements_of,
    is_accepted,
    is_crash,
    is_lost,
    is_refusal,
    pagination,
    read_json,
)
from firmlake.core.company import Company
from firmlake.core.settings import ApiSettings
from firmlake.core.text import shown

_HALVINGS_MAX = 12
_REFUSED_MAX = 10
"""Companies of a list that are refused for a reason of their own before the limit is left open."""
_NUMBER = re.compile(r"(?<![\w.])\d{1,7}(?![\w.]*\w)")


def find_page_cap(talk: Talk, company: Company) -> Finding:
    """Find the largest page."""
    assumed = talk.api.page_limit_max

    def ask(size: int) -> Answer:
        return talk.bulk("financials", [company], size, 0, size=1)

    answer = ask(assumed)
    if is_accepted(answer):
        page = pagination(answer)
        limit = page.get("limit") or assumed
        if limit >= assumed or limit == page.get("total"):
            return Finding("largest page", f"{assumed} are accepted", "as_assumed")
        seen = f"pages are cut to {limit} of {assumed} requested"
        return _capped(talk, "largest page", seen, page_limit_max=limit)
    largest = _largest(ask, assumed, answer)
    return _describe_smaller(talk, "largest page", "page_limit_max", largest, assumed, answer)


def choose_repeated(talk: Talk, dataset: str, company: Company, stranger: Company | None) -> list[Company]:
    """Choose the companies for requests that name a company many times; the last one is repeated.

    A service may charge each time that a company is named. If its headers show that it does not, a known company is
    repeated. If no header reports credits, a company that does not exist is, since most services do not charge for it.
    None are returned if repeating costs credits, or if the service does not answer each repetition.
    """
    charged = talk.charged
    if talk.tells_credits:
        is_free = len(elements_of(talk.bulk(dataset, [company], size=2))) == 2 and talk.charged == charged
        return [company] if is_free else []
    named = [company, stranger] if stranger else []
    return named if named and len(elements_of(talk.bulk(dataset, named, size=3))) == 3 else []


def find_companies_cap(talk: Talk, dataset: str, named: list[Company], *, is_list: bool = False) -> Finding:
    """Find the largest number of companies in a bulk request.

    The companies to name are from `choose_repeated`, and the last one is repeated. Or they are of the list of a run
    (`is_list`), so that any of them may be refused for a reason of its own; such ones are removed from the list.
    """
    row, assumed = "companies in a bulk request", talk.api.companies_per_request

    def ask(count: int) -> Answer:
        return talk.bulk(dataset, named, size=count)

    for _ in range(_REFUSED_MAX if named else 0):
        assumed = min(assumed, len(named)) if is_list else assumed
        answer = ask(assumed)
        if is_accepted(answer):
            return Finding(row, f"{assumed} are accepted", "as_assumed")
        text = " ".join(read_lines(answer.body)) if is_list else ""
        refused = named_in(text, named) or placed_in(text, answer.request.companies)
        largest = None if refused else _largest(ask, assumed, answer)
        if is_list and largest and not is_accepted(talk.bulk(dataset, named[largest : largest + 1])):
            refused = [named[largest]]
        if not refused:
            return _describe_smaller(talk, row, "companies_per_request", largest, assumed, answer)
        named[:] = [company for company in named if company not in refused]
    why = "each was refused for one of its companies"
    why = why if named else "a company named twice is answered once, or might be charged twice"
    return Finding(row, f"{assumed} were not tried: {why}", "not_observed")


def find_records_cap(talk: Talk, company: Company, named: list[Company], *, is_list: bool = False) -> Finding:
    """Find the largest number of records (companies times limit) in a bulk request for financials.

    Page size and number of companies are known to be accepted. If none are `named`, a request names one company.
    """
    assumed, page, most = talk.api.records_per_request, talk.api.page_limit_max, talk.api.companies_per_request
    most = min(most, len(named) or 1) if is_list or not named else most
    row = "records in a bulk request"

    def divide(records: int) -> tuple[int, int]:
        """Return as few companies as possible, and the records of each; that may be slightly fewer in all."""
        count = -(-records // page)
        return count, records // count

    def ask(records: int) -> Answer:
        count, limit = divide(records)
        return talk.bulk("financials", named or [company], limit, 0, size=count)

    if not assumed:
        return Finding(row, "no cap is set", "not_observed")
    first = min(assumed, page * most)
    answer = ask(first)
    if not is_accepted(answer):
        largest = _largest(ask, first, answer)
        return _describe_smaller(talk, row, "records_per_request", largest and prod(divide(largest)), first, answer)
    if cut := _cut_to(answer):
        return _capped(talk, row, f"answers are cut to {cut} records", records_per_request=cut)
    verdict: Verdict = "not_observed" if most == 1 else "as_assumed"
    return Finding(row, f"companies x limit of {first} is accepted", verdict)


def _describe_smaller(talk: Talk, row: str, key: str, largest: int | None, refused: int, refusal: Answer) -> Finding:
    if refusal.is_busy:
        return Finding(row, f"{refused} were answered {describe_answer(refusal)}, which says nothing", "not_observed")
    if largest is None:
        return Finding(
            row, f"refused, apparently not for its size: {describe_answer(refusal)}", "needs_you",
            next_step="Compare the message with the service's documentation",
        )  # fmt: skip
    seen = f"{largest}, {refused} are refused"
    if is_lost(refusal):
        seen = f"{largest}, larger answers do not arrive ({refusal.error})"
    return _capped(talk, row, seen, **{key: largest})


def _largest(ask: Callable[[int], Answer], refused: int, refusal: Answer) -> int | None:
    """Find the largest accepted number from the text of the refusal, or by bisection; None if the number is not why.

    If the answer was lost, or the service failed, the number is only halved: each try may last until the timeout.
    """
    if refusal.is_busy:
        return None
    if is_crash(refusal):
        halves = takewhile(bool, (refused >> times for times in count(1)))
        return next((size for size in halves if is_accepted(ask(size))), None)
    accepted = 1
    for bound in find_bounds(read_lines(refusal.body), refused)[:3]:
        if bound >= accepted and is_accepted(ask(bound)):
            if bound + 1 == refused or not is_accepted(ask(bound + 1)):
                return bound
            accepted = bound
    if not (is_refusal(refusal) or refusal.status in NOT_FOUND) or not is_accepted(ask(accepted)):
        return None
    for _ in range(_HALVINGS_MAX):
        if refused - accepted <= 1:
            break
        middle = (accepted + refused) // 2
        accepted, refused = (accepted, middle) if not is_accepted(ask(middle)) else (middle, refused)
    return accepted


def find_bounds(lines: list[str], asked: int) -> list[int]:
    """Find the numbers below `asked` in a refusal that may be the largest allowed one, the likeliest first.

    Example:
        >>> find_bounds(["101 companies, but a request may have at most 100"], 101)
        [100]
    """
    numbers = {int(text) for line in lines for text in _NUMBER.findall(line)}
    return sorted((number for number in numbers if 0 < number < asked), reverse=True)


def _cut_to(answer: Answer) -> int:
    """Return the number of records in an answer that gives one company different numbers of them; 0 if none does."""
    counts: defaultdict[Company | None, list[int]] = defaultdict(list)
    for element in elements_of(answer):
        if element.records is not None:
            counts[element.company].append(element.count)
    return sum(map(sum, counts.values())) if any(len(set(of)) > 1 for of in counts.values()) else 0


def _capped(talk: Talk, row: str, seen: str, **found: int) -> Finding:
    if 0 < (records := found.get("records_per_request", 0)) < talk.api.companies_per_request:
        found["companies_per_request"] = records  # else no page would fit
    return Finding(row, seen, "covered", {f"api.{key}": value for key, value in found.items()})


_PASSING = re.compile(r"later|try again|time.?out|temporar|unavailable|internal|overload|maintenance", re.IGNORECASE)
"""Words of a passing fault. Taken for the message about unknown companies, it would hide all that fail."""
_MESSAGE_MAX = 200
_LANGUAGE_HEADERS = (
    "Accept-Language", "X-Language", "X-Locale", "X-Lang", "X-Culture", "Language", "Content-Language",
    "X-Accept-Language", "Lang", "Locale",
)  # fmt: skip


def other_language(api: ApiSettings) -> str:
    """Return another language than that of the settings."""
    return "FR" if api.language == "NL" else "NL"


def find_language(talk: Talk, first: Answer, second: Answer, languages: Iterable[str] = ("NL", "FR")) -> Finding:
    """Find the header that selects the language, which changes names and places: ours, or one of others.

    The others are sent together. If they have an effect, halves of them are, until one is left. `first` is the answer
    about known companies in the language of the settings; if `second`, in another, has other names, nothing is sent.
    One of several `languages` may be that of an answer without a header that is understood.
    """
    row, header = "language header", language_header(talk.api)
    left = [name for name in _LANGUAGE_HEADERS if name.casefold() != header.casefold()]
    usual, tried = _names(first), " and ".join(filter(None, [header, f"{len(left)} other headers"]))

    def differ(language: str, headers: list[str]) -> str:
        asked, requests = first.request, with_language_header(talk.api, *headers)
        page = (asked.limit, asked.offset)
        answer = talk.bulk(asked.endpoint, [*asked.companies], *page, requests=requests, language=language)
        return _difference(usual, _names(answer))

    said = _difference(usual, _names(second)) if header else ""
    for language in () if said else languages:
        if said := differ(language, left):
            while len(left) > 1:
                half = left[: len(left) // 2]
                left = half if differ(language, half) else left[len(half) :]
            header = left[0]
            break
    if not said:
        return Finding(
            row, f"names may not be in {talk.api.language}: {tried} change none", "not_observed",
            next_step="If the service's documentation has another header, write it into the examples in api.requests, "
            "as X-NAME: {language}",
        )  # fmt: skip
    seen = f"{header}: {said}"
    if header == language_header(talk.given):
        return Finding(row, seen, "as_assumed")
    found = with_language_header(talk.api, header)
    return Finding(row, seen, "covered", {f"api.requests.{name}": getattr(found, name) for name in DATASETS})


def _difference(one: Mapping[Company | None, str], other: Mapping[Company | None, str]) -> str:
    """Return the two names of a company that has another in the other answer, or languages; empty if there is none."""
    return next((f"{of!r}, {other[key]!r}" for key, of in one.items() if of != other.get(key, of)), "")


def find_not_found(talk: Talk, dataset: str, known: Company, stranger: Company | None) -> Finding:
    """Find how the service answers about a company that does not exist."""
    row, usual = "company not found", talk.api.names.not_found_message
    if stranger is None:
        return Finding(row, "no company that does not exist was requested", "not_observed")
    alone, beside = talk.bulk(dataset, [stranger]), talk.bulk(dataset, [known, stranger])
    if stranger not in beside.request.companies:
        beside = alone
    elements = elements_of(beside)
    if beside.is_busy:
        return Finding(row, f"answered {describe_answer(beside)}, which says nothing", "not_observed")
    if not elements:
        return _refused_whole(talk, alone, beside, stranger)
    said = [element.message for element in elements if element.records is None]
    also = f"; alone in a request: {describe_answer(alone)}" if not alone.is_success else ""
    if not said:
        if len(elements) > 1:
            return Finding(row, f"the service knows {stranger} too", "not_observed")
        seen = f"no element about {stranger}, which does not exist{also}"
        return Finding(row, f"{seen}; a run asks two more times, beside a known company", "covered")
    message = next(filter(None, said), None)
    if message is None:
        return Finding(
            row, f"an element without data or message{also}", "needs_you",
            next_step="Report this service: firmlake cannot tell unknown companies from failed ones",
        )  # fmt: skip
    if message == usual:
        return Finding(row, f"{message!r}{also}", "covered" if also else "as_assumed")
    if _is_passing(message):
        return Finding(
            row, f"{shown(message)[:_MESSAGE_MAX]!r}{also}, which may be said of any company", "needs_you",
            next_step="Run the check again later. If only an unknown company is answered in these words, set "
            "api.names.not_found_message to them",
        )  # fmt: skip
    message = wording(stranger, message)  # so that it stands for other companies too
    return Finding(row, f"{message!r}{also}", "covered", {"api.names.not_found_message": message})


def find_messages(talk: Talk, answers: Mapping[str, Answer]) -> Finding:
    """Find how the service answers without records or problems: with a message beside data, or without `data`."""
    row, usual = "answers without records", talk.api.names.success_message
    contents = [read_json(answer.body) for answer in answers.values() if answer.is_success]
    elements = [
        element
        for content in contents
        if isinstance(content, list)
        for element in content
        if isinstance(element, dict)
    ]  # fmt: skip
    said = {str(element["message"]) for element in elements if element.get("data") and element.get("message")}
    absent = sum(element.get("data") is None and not element.get("message") for element in elements)
    problems = [element.problem for answer in answers.values() for element in elements_of(answer)]
    if unsaid := sum(problem is not None and problem.code == "nothing_said" for problem in problems):
        step = "A run gives such companies up: ask the service what an element without data, message and name means"
        return Finding(row, f"{unsaid} of {len(elements)} have no data, message or name", "needs_you", next_step=step)
    seen = [f"{message!r} beside records" for message in sorted(said)[:2]]
    seen += [f"no `data` for {absent} of {len(elements)}; read as no records if the company has a name"] * bool(absent)
    if not seen:
        return Finding(row, "no message beside records, and `data` is always there", "as_assumed")
    if {message.casefold() for message in said} <= {usual.casefold()}:
        return Finding(row, "; ".join(seen), "covered")
    if len(said) > 1 or any(map(_is_passing, said)):
        step = "A company without records fails if its message is not api.names.success_message: report this service"
        return Finding(row, "; ".join(seen), "needs_you", next_step=step)
    return Finding(row, "; ".join(seen), "covered", {"api.names.success_message": min(said)})


def _refused_whole(talk: Talk, alone: Answer, answer: Answer, stranger: Company) -> Finding:
    """Describe a service that refuses a whole request because of a company that does not exist.

    Words that name the company are taken for all unknown ones, unless they differ each time, such as by a reference.
    """
    row, said = "company not found", describe_answer(answer)
    seen = f"a request that names one is answered for no company ({said})"
    if tells_unknown(talk.api.names, stranger, answer.status, read_message(answer)):
        return Finding(row, f"{seen}; a run finds such companies by halving requests, and remembers them", "covered")
    (message, is_told), (again, _) = (_words_about(stranger, read_message(each)) for each in (answer, alone))
    is_stable = is_told and message == again
    is_named = is_refusal(answer) and is_stable and not _is_passing(message)
    if message and (is_named or (answer.status in NOT_FOUND and answer.request.method == "GET")):
        return Finding(row, f"{answer.status}: {message!r}", "covered", {"api.names.not_found_message": message})
    step = "Runs give such companies up, and ask for them again each time"
    if message and answer.status != FORBIDDEN and not _is_passing(message):
        step += f". If only an unknown company is answered so, set api.names.not_found_message = {message!r}"
    return Finding(row, seen, "needs_you", next_step=step)


def _words_about(company: Company, said: str) -> tuple[str, bool]:
    """Return the words of a refusal for other companies too, and whether it names this one: by number or place."""
    told = max(words_at_places(said), key=len, default="")
    message = told or wording(company, said)
    return message, bool(told) or "{number}" in message


def _is_passing(message: str) -> bool:
    """Return whether a message may tell of a passing fault."""
    return bool(_PASSING.search(message)) or len(message) > _MESSAGE_MAX


def _names(answer: Answer) -> dict[Company | None, str]:
    """Return the name and place of each company, in any order, and the language that the answer says it is in."""
    names: dict[Company | None, str] = {one.company: f"{one.name}, {one.place}" for one in elements_of(answer)}
    return {**names, None: answer.headers.get("content-language", "")} if names else {}
