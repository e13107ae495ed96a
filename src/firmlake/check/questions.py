"""The questions of a check, ordered so that each can use the findings before it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import msgspec

from firmlake.api import requests
from firmlake.api.answers import NOT_FOUND, Element, placed_in, read_answer, says_unknown, tells_unknown
from firmlake.api.contract import DATASETS
from firmlake.api.exchange import Answer, read_credits
from firmlake.api.judge import NO_SUCH_PLACE, describe_answer, read_message
from firmlake.api.requests import has_two_spellings
from firmlake.api.throttle.window import read_allowance
from firmlake.check.examples import (
    BULK,
    find_bulk_example,
    find_paging,
    find_totals,
    follow_refusal,
    keeps_own,
    knows,
    language_header,
    use_get,
    with_language_header,
)  # fmt: skip
from firmlake.check.finding import Finding, Verdict
from firmlake.check.limits import (
    choose_repeated,
    find_companies_cap,
    find_language,
    find_messages,
    find_not_found,
    find_page_cap,
    find_records_cap,
    other_language,
)
from firmlake.check.talk import (
    FORBIDDEN,
    Talk,
    elements_of,
    example_of,
    is_charge,
    is_crash,
    is_refusal,
    is_remainder,
    pagination,
    read_json,
)
from firmlake.core.company import Company
from firmlake.core.errors import AuthorizationError, RequestFailedError, UnavailableError, UnusableAnswerError
from firmlake.core.settings import ApiSettings
from firmlake.core.text import count_of
from firmlake.service_lists.overview import read_list_page

_PAGED_LAST = ("lookalikes", "relationships", "financials")
"""The datasets to use for questions about companies; those without pages come first."""
_FIRST_LIMIT = 2
_FOLLOWED_MAX = 3
"""Refusals whose names are taken over: the header for the language, countries in lower case, paging parameters."""
_POST_UNTRIED = "This check tried only GET, but runs use POST: try that with `firmlake run LIST --sample 5`"


def find_lists(talk: Talk) -> Iterator[Finding]:
    """Request the lists first, which is free and shows whether the service answers and accepts the token."""
    answer = talk.ask(requests.service_lists(talk.api, "OVERVIEW"))
    address = talk.api.base_url
    transport = "encrypted, with a trusted certificate" if address.startswith("https") else "on this machine"
    yield Finding("address", f"{address} answers, {transport}", "as_assumed")
    if answer.status != FORBIDDEN:
        yield Finding("token", "accepted", "as_assumed")
    problem = _problem_of_lists(answer)
    seen = f"{problem}; only `service-lists` and `contacts` need them, runs do not" if problem else "readable"
    yield Finding("lists", seen, "covered" if problem else "as_assumed")


def ask_questions(
    talk: Talk, companies: Sequence[Company], stranger: Company | None, spare: Sequence[Company] = ()
) -> Iterator[Finding]:
    """Compare a service with every assumption, and yield a finding for each as soon as it is known.

    Args:
        talk: The conversation, with a budget for all companies. Its `api` is changed to fit the service.
        companies: At least one company that the service should know.
        stranger: A company that does not exist; None leaves out the question about it.
        spare: Companies that are bought in any case, to ask for where those of their country are unknown, and for
            large requests where repeating one might cost credits.

    Raises:
        FirmlakeError: The service cannot be reached, or refuses the token. The message says what to do.
    """
    usual = talk.api.keep_leading_zero
    known, firsts = _find_first(talk, companies)
    if all(answer.status == FORBIDDEN for answer in talk.answers):
        raise AuthorizationError(f"Each request is refused ({describe_answer(talk.answers[0])})", "Get a valid token")
    allowed = [dataset for dataset, answer in firsts.items() if known and knows(answer, known)]
    if known is None or not allowed:
        yield _describe_nobody(talk, companies, firsts)
        yield from _describe_endpoints(talk, firsts, {}, {})
        return
    body = next(dataset for dataset in _PAGED_LAST if dataset in allowed)
    named = _find_example(talk, body, known)
    if named.verdict == "needs_you" and all(knows(firsts[dataset], known) for dataset in allowed):
        named = use_get(talk, [dataset for dataset in allowed if not keeps_own(talk, dataset, known)], named)
    yield talk.adopt(named)
    if named.verdict == "needs_you":
        yield from _describe_endpoints(talk, firsts, {}, {})
        return
    yield find_spelling(talk, body, known, [*companies, *spare], usual)
    if "financials" in allowed:
        yield talk.adopt(find_paging(talk, known))
        yield talk.adopt(find_page_cap(talk, known))
    repeated = choose_repeated(talk, body, known, stranger)
    if is_list := not repeated and bool(spare):
        countries = {company.country for company in _known(talk)}
        repeated = [one for one in dict.fromkeys([known, *companies, *spare]) if one.country in countries]
    yield talk.adopt(find_companies_cap(talk, body, repeated, is_list=is_list))
    if "financials" in allowed:
        several = repeated if repeated or is_list else list(dict.fromkeys([known, *companies]))
        yield talk.adopt(find_records_cap(talk, known, several, is_list=is_list or not repeated))
    asked = {dataset: _ask_all(talk, dataset, list(dict.fromkeys([known, *companies]))) for dataset in firsts}
    answers = {dataset: answer for dataset, (answer, _) in asked.items()}
    closed = {dataset: countries for dataset, (_, countries) in asked.items()}
    yield from _describe_endpoints(talk, firsts, answers, closed)
    answered = set.intersection(*(set(answers[dataset].request.companies) for dataset in allowed))
    together = [known, *(company for company in companies if company != known and company in answered)]
    if "financials" in allowed:
        yield talk.adopt(find_totals(talk.bulk("financials", together, 1, 0), *talk.answers))
    yield talk.adopt(find_messages(talk, answers))
    first = talk.bulk(body, together, *((1, 0) if DATASETS[body].is_paged else ()))
    yield talk.adopt(find_language(talk, first, _ask_otherwise(talk, first, elements_of(first))))
    yield talk.adopt(find_not_found(talk, body, known, stranger))
    yield find_rate_limit(talk)
    yield talk.adopt(find_credit_headers(talk))
    yield find_price(talk)
    yield Finding("contacts body", "a check never adds contacts", "not_observed")


def ask_briefly(
    talk: Talk, datasets: Sequence[str], companies: Sequence[Company], spare: Sequence[Company] = ()
) -> tuple[bool | None, list[Finding]]:
    """Ask as a run does, in three requests if all is as assumed, whether a service answers as the settings say.

    The `spare` companies are bought by the second request, so that what is left of the credits is seen to fall.

    Returns:
        False if another request may be understood better, such as a GET where there is no POST; None if the answer does
        not show that (the token may not ask), so a run must deal with it. And what the answers show besides.

    Raises:
        FirmlakeError: A question that followed a usable answer had none.
    """
    dataset = "financials" if "financials" in datasets else datasets[0]
    is_paged = DATASETS[dataset].is_paged
    try:
        first = _ask_known(talk, dataset, [*companies], *((1, 0) if is_paged else ()))
        if not first.is_success:
            is_misplaced = first.status in NO_SUCH_PLACE and not read_message(first)
            return (False if is_refusal(first) or is_crash(first) or is_misplaced else None), []
        elements = read_answer(dataset, first.body)
    except (RequestFailedError, UnavailableError):
        return (False if talk.answers and is_crash(talk.answers[-1]) else None), []
    except UnusableAnswerError:
        return False, []
    about = [element for element in elements if element.company in companies]
    if not about or any(_is_unclear(talk, element) for element in about):
        return False, []
    known = [element for element in about if element.records is not None]
    belgian = {company for company in companies if has_two_spellings(company)}
    if belgian and belgian.isdisjoint(element.company for element in known):
        return False, []
    if is_paged and any(element.count > 1 or element.limit not in (None, 1) for element in known):
        return False, []
    findings = [find_totals(first)] if is_paged else []
    if known:
        second = _ask_otherwise(talk, first, known, spare)
        if second.request.offset and not _is_second_page(second):
            return False, []
        findings.append(find_language(talk, first, second, [talk.api.language]))
    return True, [*findings, find_credit_headers(talk)]


def _is_unclear(talk: Talk, element: Element) -> bool:
    """Return whether an element has neither records nor a message that runs understand."""
    if element.problem or element.company is None:
        return True
    names, said = talk.api.names, element.message or ""
    is_success = said.casefold() == names.success_message.casefold()
    return element.records is None and not (is_success or says_unknown(names, element.company, said))


def _ask_otherwise(talk: Talk, first: Answer, known: Sequence[Element], others: Sequence[Company] = ()) -> Answer:
    """Ask in another language, for the second record of companies that have one, or else for the first ones again."""
    asked = first.request
    longer = [one for one in known if asked.limit and one.count and (one.total is None or one.total > 1)]
    companies = [one.company for one in longer or known if one.company] or [*asked.companies]
    offset = 1 if longer else asked.offset
    return _ask_known(
        talk, asked.endpoint, [*companies, *others], asked.limit, offset, language=other_language(talk.api)
    )


def _is_second_page(answer: Answer) -> bool:
    page = pagination(answer)
    return answer.is_success and page.get("offset", 1) == 1 and page.get("limit", 1) == 1


def _problem_of_lists(answer: Answer) -> str:
    if not answer.is_success:
        return describe_answer(answer)
    try:
        read_list_page(answer.body)
    except UnusableAnswerError as error:
        return error.message
    return ""


def _find_first(talk: Talk, companies: Sequence[Company]) -> tuple[Company | None, dict[str, Answer]]:
    """Find a company that the service knows: ask each endpoint for one company, in both spellings if it is Belgian.

    Returns the company and the answer of each dataset. If none is known: None, and the answers about the last company
    that was answered with success, or else about the first one.
    """
    told: dict[str, Answer] = {}
    for company in companies:
        for _ in _in_both_spellings(talk, company):
            firsts = {dataset: _ask_first(talk, dataset, company) for dataset in DATASETS}
            if any(knows(answer, company) for answer in firsts.values()):
                return company, firsts
            told = firsts if not told or any(answer.is_success for answer in firsts.values()) else told
            if all(answer.status == FORBIDDEN for answer in firsts.values()):
                break
    return None, told


def _ask_first(talk: Talk, dataset: str, company: Company) -> Answer:
    """Ask with a limit, as runs do; if that is refused, under the names that refusals give, and then without."""
    page = (_FIRST_LIMIT, 0) if DATASETS[dataset].is_paged else ()
    usual = talk.api.requests
    answer = talk.single(dataset, company, *page)
    for _ in range(_FOLLOWED_MAX):
        if is_refusal(answer) and follow_refusal(talk, answer):
            answer = talk.single(dataset, company, *page)
    if is_refusal(answer) and page:
        header = language_header(talk.api)
        talk.api = msgspec.structs.replace(talk.api, requests=usual)
        talk.api = msgspec.structs.replace(talk.api, requests=with_language_header(talk.api, *filter(None, [header])))
        return talk.single(dataset, company)
    return answer


def _find_example(talk: Talk, dataset: str, known: Company) -> Finding:
    """Find the example of a bulk request, also where POST is stricter about the spelling of numbers than GET."""
    _find_known(talk, dataset, [known])  # keeps the spelling that the example of the settings needs
    for _ in _in_both_spellings(talk, known):
        found = find_bulk_example(talk, dataset, known)
        if found.verdict != "needs_you":
            break
    return found


def _describe_nobody(talk: Talk, companies: Sequence[Company], firsts: Mapping[str, Answer]) -> Finding:
    asked, said = ", ".join(map(str, companies)), "; ".join(dict.fromkeys(map(describe_answer, firsts.values())))
    if all(answer.status in NOT_FOUND for answer in firsts.values()):
        step = "If that is about the path, correct api.base_url. Otherwise name companies that the service certainly "
        step += "knows, with --company or a list"
        return Finding(SPELLING, f"the service knows none of {asked} ({said})", "needs_you", next_step=step)
    if all(map(is_refusal, firsts.values())):
        step = "Copy what the service asks for from its documentation into api.requests, such as a header with a value"
        return Finding(BULK, f"each request about {asked} is refused ({said})", "needs_you", next_step=step)
    for dataset, answer in firsts.items():
        if problem := _misread(answer):
            bulk = elements_of(talk.bulk(dataset, [*companies]))  # as runs ask
            if any(element.company in companies and element.problem is None for element in bulk):
                break
            step = "Ask the service to answer as its specification says: the structure of answers cannot be set"
            return Finding(STRUCTURE, f"the answer about {asked}: {problem}", "needs_you", next_step=step)
    return Finding(SPELLING, f"no answer about {asked}", "not_observed")


def _misread(answer: Answer) -> str:
    """Return why a successful answer is not understood; empty if it is understood, refused or empty."""
    if not (answer.is_success and answer.body.strip()):
        return ""
    try:
        elements = read_answer(answer.request.endpoint, answer.body)
    except UnusableAnswerError as error:
        return error.message
    return next((element.problem.text for element in elements if element.problem), "")


def _ask_all(talk: Talk, dataset: str, companies: list[Company]) -> tuple[Answer, list[str]]:
    """Ask for all companies; if that is forbidden, only for companies of countries that are allowed.

    Return the answer, and the forbidden countries; none if all countries are forbidden.
    """
    answer, countries = _ask_many(talk, dataset, companies), {company.country: [company] for company in companies}
    if answer.status != FORBIDDEN or len(countries) == 1:
        return answer, []
    closed = [name for name, one in countries.items() if _ask_many(talk, dataset, one).status == FORBIDDEN]
    others = [company for company in companies if company.country not in closed]
    return (_ask_many(talk, dataset, others), closed) if others else (answer, [])


def _ask_many(talk: Talk, dataset: str, companies: list[Company]) -> Answer:
    """Ask for companies with as many of their records as one request may ask for."""
    chosen = companies[: talk.api.companies_per_request]
    if not DATASETS[dataset].is_paged:
        return _ask_known(talk, dataset, chosen)
    most = requests.fitting(talk.api, dataset).records_per_request // len(chosen)
    return _ask_known(talk, dataset, chosen, max(1, min(talk.api.page_limit_max, most)), 0)


def _ask_known(talk: Talk, dataset: str, companies: list[Company], *page: int | None, **api: Any) -> Answer:
    """Ask for companies. If all are refused because one does not exist, ask again without that one."""
    while True:
        answer = talk.bulk(dataset, companies, *page, **api)
        status, said = answer.status, read_message(answer)
        unknown = [company for company in companies if tells_unknown(talk.api.names, company, status, said)]
        if not unknown or len(companies) == 1:
            return answer
        unknown = placed_in(said, companies) or unknown
        # A message that names no company may be about any of them.
        companies = [company for company in companies if company not in unknown] or companies[1:]


def _describe_endpoints(
    talk: Talk, firsts: Mapping[str, Answer], bulk: Mapping[str, Answer], closed: Mapping[str, list[str]]
) -> Iterator[Finding]:
    for dataset, first in firsts.items():
        row, answer = f"endpoints of {dataset}", bulk.get(dataset)
        seen = f"GET {first.status}" + (f", POST {answer.status}" if answer else "")
        worst = max(first, answer or first, key=lambda one: one.status or 0)
        if countries := " and ".join(closed.get(dataset, [])):
            step = f"Get a token for {countries}, or leave these companies out of the list; else runs end with exit 3"
            yield Finding(row, f"{seen}, but 403 for companies in {countries}: forbidden", "needs_you", next_step=step)
        elif worst.is_success:
            is_known = answer is None or read_json(answer.body) is not None
            yield Finding(row, f"{seen}: allowed" if is_known else f"{seen}, but not JSON", "as_assumed")
        elif worst.status == 404:
            yield Finding(row, f"{seen}: not found", "not_observed")
        else:
            said = describe_answer(worst)
            is_forbidden = worst.status == FORBIDDEN
            what = "forbidden" if is_forbidden else "refused" if is_refusal(worst) else "fails"
            what += f" ({said})" if said != str(worst.status) else ""
            step = _advise(talk, dataset, said) if answer or is_refusal(worst) or is_forbidden else _POST_UNTRIED
            yield Finding(row, f"{seen}: {what}", "needs_you", next_step=step)


def _advise(talk: Talk, dataset: str, said: str) -> str:
    """Return the next step for an endpoint that is not answered, based on the message of the service."""
    header = language_header(talk.api)
    if header and header.casefold() in said.casefold():
        return f"Set api.language to a language that the service accepts in {header}, and check again"
    return f"Ask the service to allow or repair {dataset}, or leave it out of run.datasets; else runs end with exit 3"


def find_rate_limit(talk: Talk) -> Finding:
    """Find the rate limit in the headers, and adopt it if it is lower than ours."""
    row, ours = "rate limit", talk.api.requests_per_minute
    told = [read_allowance(answer.headers, datetime.now(UTC)).requests_per_minute for answer in talk.answers]
    limit = min(filter(None, told), default=None)
    known = f"{ours} a minute is assumed" if ours else "none is assumed"
    if limit is None:
        return Finding(row, f"in no header that can be read; {known}, and a 429 is waited out", "not_observed")
    if not ours or limit >= ours:
        return Finding(row, f"{limit} a minute; {known}", "as_assumed")
    return Finding(row, f"{limit} a minute; {known}", "covered", {"api.requests_per_minute": limit})


def find_credit_headers(talk: Talk) -> Finding:
    """Find the headers that report credits, of which no more were spent than companies were asked for."""
    names = talk.api.names
    told = sorted({name for answer in talk.answers for name in answer.headers})
    likes: dict[str, Callable[[str], bool]] = {
        "credits_charged_header": lambda name: is_charge(name) and sum(talk.credits_in(name)) <= len(talk.asked),
        "credits_remaining_header": is_remainder,
    }
    usual = {key: getattr(names, key).lower() for key in likes}
    like = {key: next(filter(is_like, told), "") for key, is_like in likes.items()}
    like |= {key: name for key, name in zip(likes, _find_by_numbers(talk), strict=True) if name}
    found = {key: usual[key] if usual[key] in told else like[key] for key in likes}
    others = {key: name for key, name in found.items() if name and name != usual[key]}
    seen = ", ".join(filter(None, found.values())) or "none"
    seen += "" if found["credits_charged_header"] else "; firmlake counts the credits of a run itself"
    verdict: Verdict = "as_assumed" if all(found.values()) and not others else "covered"
    return Finding("credit headers", seen, verdict, {f"api.names.{key}": name for key, name in others.items()})


def _find_by_numbers(talk: Talk) -> tuple[str, str]:
    """Find the header that says how many companies each answer was the first to have, and one that falls by that.

    Something that falls by one with each request would count requests.
    """
    bought, known, told, places = list[int](), set[Company | None](), list[dict[str, str]](), list[int]()
    for place, answer in enumerate(talk.answers):
        if found := {element.company for element in elements_of(answer) if element.records is not None}:
            bought.append(len(found - known))
            known |= found
            told.append(answer.headers)
            places.append(place)
    numbers = {name: [read_credits(each.get(name, "")) for each in told] for headers in told[:1] for name in headers}
    rows = {name: [each for each in row if each is not None] for name, row in numbers.items() if None not in row}
    falls = {name: [before - after for before, after in pairwise(row)] for name, row in rows.items()}
    spent = [bought[1:], *(row[1:] for row in rows.values())]
    sent = [after - before for before, after in pairwise(places)]
    left = next((name for name, fall in falls.items() if set(fall) - {0, 1} and fall in spent and fall != sent), "")
    charged = (name for name, row in rows.items() if (any(bought) and row == bought) or row[1:] == falls.get(left))
    return next(charged, ""), left


def find_price(talk: Talk) -> Finding:
    """Check that a company costs one credit."""
    row, total, most = "credits", talk.charged, len(_known(talk))
    if total == 0 and not talk.credits_in(talk.api.names.credits_charged_header):
        return Finding(row, "not reported by the service", "not_observed")  # the balance may have fallen before
    if total == 0:
        return Finding(row, "none charged: these companies were paid for within the last 30 days", "not_observed")
    seen = f"{total} for {count_of(most, 'company')}"
    if total <= most:
        return Finding(row, f"{seen}, then free", "as_assumed")
    if total <= len(talk.asked):
        return Finding(row, f"{seen} and {total - most} that it does not know", "covered")
    return Finding(
        row, seen, "needs_you",
        next_step="The service does not charge one credit per company in 30 days: ask it what it charges before a run",
    )  # fmt: skip


def _known(talk: Talk) -> set[Company]:
    """Return the companies about which the service has sent data."""
    elements = (element for answer in talk.answers for element in elements_of(answer))
    return {element.company for element in elements if element.company and element.records is not None}


SPELLING, STRUCTURE = "spelling of company numbers", "structure of answers"
"""The rows in docs/service_gaps.md."""
_UNKNOWN_MIN = 3
"""So many companies of a country, all unknown, are no accident."""


def _in_both_spellings(talk: Talk, company: Company) -> Iterator[None]:
    """Let a loop ask for a company in each spelling of its number, the usual one first; a break keeps the other."""
    usual = talk.api.keep_leading_zero
    yield
    if has_two_spellings(company):
        talk.api = msgspec.structs.replace(talk.api, keep_leading_zero=not usual)
        yield
        talk.api = msgspec.structs.replace(talk.api, keep_leading_zero=usual)


def find_spelling(talk: Talk, dataset: str, known: Company, companies: Sequence[Company], usual: bool) -> Finding:
    """Find the spelling of Belgian numbers, and whether the service knows a company of every country.

    Args:
        talk: The conversation. It takes over the spelling by which the service knows Belgian companies.
        known: A company that it knows, at least by GET.
        companies: All that may be asked for; of a country, the first few are.
        usual: Whether the settings keep the leading zero.
    """
    known_by, unknown, too_few = _survey(talk, dataset, known, companies)
    without, prefixed = talk.api, _with_country_before(talk.api)
    is_prefixed = _shows_country_before(talk, [*unknown, *too_few])
    if is_prefixed:
        talk.api = msgspec.structs.replace(talk.api, requests=msgspec.structs.replace(talk.api.requests, **prefixed))
        survey = _survey(talk, dataset, known, companies)
        if is_prefixed := survey[0].keys() > known_by.keys():
            known_by, unknown, too_few = survey
        else:
            talk.api = without
    keep = talk.api.keep_leading_zero
    settings: dict[str, Any] = {"api.keep_leading_zero": keep} if keep != usual else {}
    if is_prefixed:
        settings |= {f"api.requests.{name}": text for name, text in prefixed.items()}
    if unknown:
        other = _body_of(prefixed[dataset]) if dataset in prefixed else ""
        tried = " with or without the leading zero" if any(map(has_two_spellings, unknown)) else ""
        return Finding(
            SPELLING,
            f"{_how_known(known, known_by)}, but not {', '.join(map(str, unknown))}{tried}",
            "needs_you",
            settings,
            next_step="If the service has these companies, it expects a form other than "
            f"{requests.spell_number(talk.api, unknown[0])}: see its documentation. Write it into api.requests, "
            f"such as {other or '{country}{number}'}; api.keep_leading_zero adds the zero of Belgian numbers. If it "
            "has none of them, name others with --company",
        )  # fmt: skip
    if is_prefixed:
        spelled = {f"{one.country}{requests.spell_number(talk.api, one)}" for one in known_by.values()}
        return Finding(
            SPELLING, f"with the country before the number: {', '.join(sorted(spelled))}", "covered", settings
        )
    finding = _describe(talk, dataset, known_by.get("BE"), settings)
    if not too_few:
        return finding
    seen = f"{finding.seen}; {', '.join(map(str, too_few))} unknown, too few to tell"
    return msgspec.structs.replace(finding, seen=seen)


def _survey(
    talk: Talk, dataset: str, known: Company, companies: Sequence[Company]
) -> tuple[dict[str, Company], list[Company], list[Company]]:
    """Return a company that the service knows by country, those of other countries, and those too few to tell."""
    known_by: dict[str, Company] = {}
    unknown, too_few = list[Company](), list[Company]()
    for country in dict.fromkeys(company.country for company in (known, *companies)):
        of_country = [company for company in dict.fromkeys((known, *companies)) if company.country == country]
        of_country = of_country[:_UNKNOWN_MIN]
        found, is_forbidden = _find_known(talk, dataset, of_country)
        known_by |= {country: found} if found else {}
        if not (found or is_forbidden):  # the finding about endpoints covers what is forbidden
            (unknown if known in of_country or len(of_country) == _UNKNOWN_MIN else too_few).extend(of_country)
    return known_by, unknown, too_few


def _shows_country_before(talk: Talk, companies: Sequence[Company]) -> bool:
    """Return whether a refusal or an answer writes numbers of a company's country as BE0403227515, or such a pattern.

    Its body may repeat ours, which has no country before the number.
    """
    shown = "|".join(sorted({company.country for company in companies}))
    pattern = re.compile(rf"\b(?:{shown})(?:\\+d|\[0-9\]|[0-9]{{8}})".encode())
    return bool(shown) and any(pattern.search(answer.body) for answer in talk.answers)


def _with_country_before(api: ApiSettings) -> dict[str, str]:
    """Return the bulk examples with the country before each number, such as BE0403227515."""
    examples = {dataset: example_of(api, dataset) for dataset in DATASETS}
    texts = {name: each.text.replace('"{number}"', '"{country}{number}"') for name, each in examples.items()}
    return {name: text for name, text in texts.items() if text != examples[name].text}


def _body_of(text: str) -> str:
    return text.partition("\n\n")[2]


def _find_known(talk: Talk, dataset: str, companies: Sequence[Company]) -> tuple[Company | None, bool]:
    """Find a company that the service knows, and keep its spelling; the flag says that the token may not ask."""
    for company in companies:
        for _ in _in_both_spellings(talk, company):
            answer = talk.bulk(dataset, [company], size=1)
            if answer.status == FORBIDDEN:
                return None, True
            if knows(answer, company):
                return company, False
    return None, False


def _how_known(known: Company, known_by: dict[str, Company]) -> str:
    """Say what is known by POST, as runs ask, or that only GET knows a company."""
    others = ", ".join(map(str, known_by.values()))
    return f"{others} is known" if others else f"GET knows {known}, POST does not"


def _describe(talk: Talk, dataset: str, belgian: Company | None, settings: dict[str, bool]) -> Finding:
    if belgian is None:
        return Finding(SPELLING, "no Belgian company was requested; other numbers have one spelling", "not_observed")
    if not has_two_spellings(belgian):
        return Finding(SPELLING, f"{belgian} has only one spelling", "not_observed")
    keep = talk.api.keep_leading_zero
    if settings:
        return Finding(SPELLING, f"known only with{'' if keep else 'out'} the leading zero", "covered", settings)
    other = talk.bulk(dataset, [belgian], keep_leading_zero=not keep)
    spelled = requests.spell_number(talk.api, belgian)
    is_both = knows(other, belgian)
    return Finding(
        SPELLING, "known with and without the leading zero" if is_both else f"only {spelled} is known", "as_assumed"
    )
