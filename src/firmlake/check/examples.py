"""Find the example of a request that the service accepts: the bulk body, and the paging parameters in it.

Tried are the example of the settings and then those of other services in order of their likeliness, first the ones with
names that a refusal gives. The first one that the service understands is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from http import HTTPStatus
from itertools import product
from typing import Any, NamedTuple

import msgspec

from firmlake.api.contract import DATASETS
from firmlake.api.exchange import Answer
from firmlake.api.judge import describe_answer, read_lines, read_message
from firmlake.check.finding import Finding
from firmlake.check.talk import (
    LOWER,
    Talk,
    elements_of,
    example_of,
    get_example,
    is_crash,
    is_refusal,
    pagination,
    read_json,
    roles_of,
)
from firmlake.core.company import Company, company_in
from firmlake.core.example import Example, in_lower_case, with_page, without_paging
from firmlake.core.settings import ApiSettings, RequestSettings

BULK, PAGING = "bulk body", "paging parameters"
"""The rows in docs/service_gaps.md."""
_TRIES_MAX = 40
_PHRASES = {status.phrase for status in HTTPStatus}
"""`Bad Request` names no object `request`."""

_WRAPPERS = ("", "request", "query", "lookup", "search", "data", "input")
"""Names of an object around the body; "" for none. Those after the first two are unlikely."""
_ARRAYS = (
    "companies", "", "identifiers", "companyIds", "items", "ids", "entities", "organizations", "enterprises",
    "businesses", "entreprises", "ondernemingen",
)  # fmt: skip
"""Names of the array of companies; "" for an array that is the whole body. Those after `items` are unlikely."""
_FLAT = {"country": "{country}", "companyNumber": "{number}"}
_TEXT = "{country}{number}"
_ELEMENTS: tuple[Any, ...] = (
    {"countryCode": "{country}", "companyNumber": "{number}"},
    _FLAT,
    {"companyId": _FLAT},
    {"identifier": _FLAT},
    {"country": "{country}", "company_number": "{number}"},
    {"country_code": "{country}", "company_number": "{number}"},
    _TEXT,
    {"country": "{country}", "number": "{number}"},
    {"country": "{country}", "id": "{number}"},
    {"countryCode": "{country}", "companyNumber": "\0number"},
    {"country": "{country}", "companyNumber": "\0number"},
)
_COUNTRIES = ("country", "countryCode", "country_code", "land", "pays")
_NUMBERS = (
    "companyNumber", "company_number", "number", "id", "registrationNumber", "registration_number", "enterpriseNumber",
    "vatNumber", "nummer", "numero", "reference", "ref",
)  # fmt: skip
_PAIRS = tuple(
    pair
    for country, number in product(_COUNTRIES, _NUMBERS)
    if (pair := {country: "{country}", number: "{number}"}) not in _ELEMENTS
)
_UNLIKELY = 100
"""The rank of an example with an unlikely part, which is tried when a refusal names it or no other is left."""
_PAGES = (
    ("limit", "offset"), ("pageSize", "skip"), ("size", "offset"), ("take", "skip"), ("limit", "skip"),
    ("page_size", "offset"), ("page_size", "page_offset"), ("perPage", "offset"), ("per_page", "offset"),
    ("size", "from"), ("rows", "start"), ("maxResults", "startIndex"), ("maxResults", "firstResult"), ("max", "first"),
    ("max", "start"), ("count", "offset"), ("top", "skip"), ("$top", "$skip"),
)  # fmt: skip
_PLACES = ("body", "query", "pagination", "paging", "page")
"""Where paging parameters are: in the body, in the query, or in an object of the body of this name."""
_NAMES = frozenset(
    name.casefold()
    for names in (_WRAPPERS, _ARRAYS, _COUNTRIES, _NUMBERS, *_PAGES, _PLACES, ("companyId", "identifier", _TEXT, LOWER))
    for name in names
)
"""All names above in lower case, which refusals may give."""


def find_bulk_example(talk: Talk, dataset: str, company: Company) -> Finding:
    """Find the example of a bulk request for a dataset, and use its form for the other datasets too."""

    def ask(example: Example) -> Answer:
        return talk.bulk(dataset, [company], requests=_with(talk, dataset, example))

    def is_right(answer: Answer) -> bool:
        return any(element.company == company for element in elements_of(answer))

    def goes_on(answer: Answer) -> bool:
        return is_refusal(answer) or (answer.is_success and read_json(answer.body) in ([], None))

    found, answer = _hunt(ask, is_right, goes_on, partial(_forms, example_of(talk.api, dataset)))
    if found is None:
        return _describe_unknown_form(answer)
    settings = {} if found == example_of(talk.given, dataset) else _settings_of(talk, dataset, found, company)
    body = found.text.partition("\n\n")[2] or found.text.partition("\n")[0]
    return Finding(BULK, body, "covered" if settings else "as_assumed", settings)


def find_paging(talk: Talk, company: Company) -> Finding:
    """Find the paging parameters of a bulk request for financials; `pagination` shows whether they were read."""

    def ask(example: Example) -> Answer:
        tried = _with(talk, "financials", example)
        answer = talk.bulk("financials", [company], 1, 0, requests=tried)
        page = pagination(answer)
        if page.get("limit") != 1 or page.get("total", 2) < 2:
            return answer
        second = talk.bulk("financials", [company], 1, 1, requests=tried)
        return second if second.is_success or "total" in page else answer  # past the end, some refuse an offset

    def is_right(answer: Answer) -> bool:
        page = pagination(answer)
        offset = answer.request.offset
        return page.get("limit") == 1 and page.get("offset", offset) == offset

    def goes_on(answer: Answer) -> bool:
        return answer.is_success or is_refusal(answer) or answer.status == 404

    found, answer = _hunt(ask, is_right, goes_on, partial(_pagings, example_of(talk.api, "financials")))
    if found is None:
        counts = [element.count for element in elements_of(answer)]
        said = describe_answer(answer)
        if counts:
            begins, wanted = pagination(answer).get("offset", "an unknown one"), answer.request.offset
            said = f"asked for 1 record from offset {wanted}, the service sends {counts[0]} from {begins}"
        return Finding(
            PAGING, f"{{limit}} and {{offset}} are not understood: {said}", "needs_you",
            next_step="Show in api.requests.financials where the service's documentation has the paging parameters",
        )  # fmt: skip
    is_given = found == example_of(talk.given, "financials")
    settings = {} if is_given else {"api.requests.financials": found.text}
    roles = roles_of(found)
    where = "in the query" if found.query else "in the body"
    seen = f"{roles.get('limit')} and {roles.get('offset')}, {where}"
    if not answer.request.offset:
        seen += "; an offset was not tried, because the company has one period"
    elif is_refusal(talk.bulk("financials", [company], 2, 1, requests=_with(talk, "financials", found))):
        seen += "; offsets are multiples of the limit"
        settings["api.offsets"] = "multiples"
    return Finding(PAGING, seen, "covered" if settings else "as_assumed", settings)


def find_totals(*answers: Answer) -> Finding:
    """Find a total that exceeds what its page can hold, which proves that totals count all records of a company."""
    pages = [(answer.request, element) for answer in answers if answer.request.limit for element in elements_of(answer)]
    for request, element in pages:
        held = (request.offset or 0) + max(request.limit or 0, element.count)
        if (element.total or 0) > held:
            seen = f"{element.total} in total, on a page of {element.count}"
            return Finding("totals", seen, "as_assumed", {"api.totals": "company"})
    return Finding("totals", "no total exceeded its page, so full pages are requested again", "not_observed")


def follow_refusal(talk: Talk, refusal: Answer) -> bool:
    """Take over what a refusal names: a header for the language, countries in lower case, or paging parameters.

    Return whether it names any.
    """
    words = _words(read_lines(refusal.body))
    found = _LANGUAGE_HEADER.search(read_message(refusal))
    header = found and found[found.lastindex or 0]
    if header and header.casefold() != language_header(talk.api).casefold():
        talk.api = msgspec.structs.replace(talk.api, requests=with_language_header(talk.api, header))
        return True
    ours = example_of(talk.api, "financials")
    if LOWER in words and LOWER not in ours.text:
        lower = {dataset: in_lower_case(example_of(talk.api, dataset)).text for dataset in DATASETS}
        talk.api = msgspec.structs.replace(talk.api, requests=msgspec.structs.replace(talk.api.requests, **lower))
        return True
    if refusal.request.limit is None:
        return False
    given = words - _candidate(0, ours).names
    others = [each for each in _pagings(ours, _NAMES, ("body",)) if given & each.names]
    if others:
        best = max(others, key=lambda each: (len(given & each.names), -each.rank))
        talk.api = msgspec.structs.replace(talk.api, requests=_with(talk, "financials", best.example))
    return bool(others)


def use_get(talk: Talk, datasets: Iterable[str], refusal: Finding) -> Finding:
    """Let runs ask by GET for one company at a time, because no bulk request is understood."""
    talk.api = msgspec.structs.replace(talk.api, companies_per_request=1)
    settings = {f"api.requests.{dataset}": get_example(talk.api, dataset).text for dataset in datasets}
    return Finding(
        BULK, f"not understood ({refusal.seen}); runs ask by GET", "covered", settings,
        next_step="Such a request asks for one company. If the service's documentation shows one for several, copy it "
        "into api.requests",
    )  # fmt: skip


def keeps_own(talk: Talk, dataset: str, company: Company) -> bool:
    """Return whether the settings have an example of their own for a dataset that the service understands."""
    if example_of(talk.given, dataset) == example_of(ApiSettings(), dataset):
        return False
    page = (1, 0) if DATASETS[dataset].is_paged else ()
    return knows(talk.bulk(dataset, [company], *page, requests=talk.api.requests), company)


def with_language_header(api: ApiSettings, *headers: str) -> RequestSettings:
    """Return the examples of all companies' requests with other headers for the language."""
    texts = {}
    for dataset in DATASETS:
        example = example_of(api, dataset)
        others = (each for each in example.headers if "{language}" not in each[1])
        texts[dataset] = example._replace(headers=(*others, *((name, "{language}") for name in headers))).text
    return msgspec.structs.replace(api.requests, **texts)


def language_header(api: ApiSettings) -> str:
    """Return the name of the header for the language; empty if the examples have none."""
    headers = example_of(api, "financials").headers
    return next((name for name, value in headers if "{language}" in value), "")


def knows(answer: Answer, company: Company) -> bool:
    """Return whether an answer has data about a company."""
    return any(element.company == company and element.records is not None for element in elements_of(answer))


KeyPath = tuple[str, ...]
"""The keys that lead to a value of the body, with `[]` for an array; `?` and the name for a parameter of the query."""


class _Candidate(NamedTuple):
    """An example to try."""

    rank: int  # how many are likelier, roughly
    example: Example
    paths: frozenset[KeyPath]  # all its keys
    names: frozenset[str]  # the last parts of these paths, in lower case


def _hunt(
    ask: Callable[[Example], Answer],
    is_right: Callable[[Answer], bool],
    goes_on: Callable[[Answer], bool],
    choose: Callable[[frozenset[str]], Iterable[_Candidate]],
) -> tuple[Example | None, Answer]:
    """Try examples in order until an answer is right, first those with names that refusals give.

    A key that a refusal calls unknown is not sent in that place again. A name counts as given by a refusal until an
    example with it is refused in the same words as one without it. An example that is refused in words that no other
    was got further, so those that are most like it are next.

    Args:
        ask: Sends a request by an example.
        is_right: Returns whether the service understood it.
        goes_on: Returns whether another example may help.
        choose: Returns the likely examples, and the unlikely ones with one of these names.

    Returns:
        The example that works, with its answer. Without one, None and an answer that no other example would change, or
        the answer to the first.
    """
    given, offered = frozenset[str](), frozenset[str]()
    refused = dict[frozenset[str], frozenset[str]]()
    tried, wrong, nearest = list[Example](), set[KeyPath](), frozenset[KeyPath]()
    rest, first = list(choose(given)), None

    def left(candidates: Iterable[_Candidate]) -> list[_Candidate]:
        return [each for each in candidates if wrong.isdisjoint(each.paths) and each.example not in tried]

    for _ in range(_TRIES_MAX):
        if not rest:
            offered = _NAMES - {LOWER}
            rest = left(choose(offered))
        if not rest:
            break
        best = min(rest, key=lambda each: (-len(given & each.names), -len(nearest & each.paths), each.rank))
        answer = ask(best.example)
        if is_right(answer):
            return best.example, answer
        if not goes_on(answer) and not (first and is_crash(answer)):
            return None, answer
        tried.append(best.example)
        first = first or answer
        lines = read_lines(answer.body) if is_refusal(answer) else []
        lines = [line for line in lines if line not in _PHRASES]
        words, before = _words(lines), given
        said = frozenset(word for word in words if not re.search(r"\d", word))  # without times and numbers of requests
        if said in refused:
            given = given - (best.names - refused[said])
        else:
            given = given | (_NAMES & words - best.names)
            nearest = best.paths if refused else nearest
        refused.setdefault(said, best.names)
        unknown = _words(_INSTEAD.split(line)[0] for line in lines if _UNKNOWN.search(line))
        wrong |= {path for path in best.paths if path[-1].casefold() in unknown}
        rest = left(rest if given <= before else choose(given | offered))
    assert first is not None
    return None, first


def _forms(ours: Example, names: frozenset[str]) -> Iterator[_Candidate]:
    """Yield bulk requests for the same dataset as `ours`, which is the first, as other services write them."""
    ours = in_lower_case(ours) if LOWER in names else ours
    yield _candidate(-1, ours)
    page = {name: f"\0{role}" for role, name in roles_of(ours).items() if role in ("limit", "offset")}
    parts = (
        _ranked(_WRAPPERS, 2, 3, names),
        _ranked(_ARRAYS, 5, 2, names),
        _ranked((*_ELEMENTS, *_PAIRS), len(_ELEMENTS), 1, names),
    )
    for (one, wrapper), (two, array), (three, element) in product(*parts):
        body: Any = {array: [element], **page} if array else [element]
        query = ours.query if array else tuple((name, f"{{{value[1:]}}}") for name, value in page.items())
        other = ours._replace(method="POST", query=query, body={wrapper: body} if wrapper else body)
        other = in_lower_case(other) if LOWER in ours.text else other
        if other != ours:
            yield _candidate(one + two + three, other)


def _pagings(ours: Example, names: frozenset[str], places: tuple[str, ...] = _PLACES) -> Iterator[_Candidate]:
    """Yield the same request as `ours`, which is the first, with its paging parameters elsewhere or named otherwise."""
    yield _candidate(-1, ours)
    roles = roles_of(ours)
    likely = dict.fromkeys([(roles.get("limit", "limit"), roles.get("offset", "offset")), *_PAGES])
    pairs = dict.fromkeys([*likely, *product(*(dict.fromkeys(side) for side in zip(*_PAGES, strict=True)))])
    bare = without_paging(ours)
    ranked = _ranked([*pairs], len(likely), 1, names)
    for (one, place), (two, pair) in product(enumerate(places), ranked):
        is_query = place == "query" or not isinstance(bare.body, dict)
        other = with_page(bare, pair, "" if is_query else place)
        if other != ours:
            yield _candidate(one + two, other)


def _ranked(parts: Sequence[Any], likely_count: int, weight: int, names: frozenset[str]) -> Iterator[tuple[int, Any]]:
    """Yield parts with their ranks, of the unlikely ones only those with one of these names."""
    for place, part in enumerate(parts):
        if place < likely_count:
            yield place * weight, part
        elif not names.isdisjoint(_casefolded([part] if isinstance(part, str) else part)):
            yield _UNLIKELY + place, part


def _casefolded(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.casefold() for name in names)


def _candidate(rank: int, example: Example) -> _Candidate:
    paths = frozenset((*_paths(dict(example.query), ("?",)), *_paths(example.body, ())))
    return _Candidate(rank, example, paths, _casefolded(path[-1] for path in paths))


def _paths(part: Any, above: KeyPath) -> Iterator[KeyPath]:
    if isinstance(part, dict):
        for key, value in part.items():
            yield (*above, key)
            yield from _paths(value, (*above, key))
    for each in part if isinstance(part, list) else ():
        yield (*above, each if isinstance(each, str) else "[]")
        yield from _paths(each, (*above, "[]"))


def _with(talk: Talk, dataset: str, example: Example) -> RequestSettings:
    return msgspec.structs.replace(talk.api.requests, **{dataset: example.text})


def _settings_of(talk: Talk, dataset: str, found: Example, company: Company) -> dict[str, str]:
    """Return the settings for an example, and by its form for the other datasets that cannot keep theirs."""
    names = [name for name in DATASETS if name != dataset and not keeps_own(talk, name, company)]
    others = {name: ours for name in names if (ours := example_of(talk.api, name)).is_bulk}
    changed = {dataset: found} | {name: found._replace(path=ours.path) for name, ours in others.items()}
    if "financials" in others:
        roles = roles_of(others["financials"])
        page = (roles.get("limit", "limit"), roles.get("offset", "offset"))
        changed["financials"] = with_page(changed["financials"], page)
    return {f"api.requests.{name}": example.text for name, example in changed.items()}


def _describe_unknown_form(answer: Answer) -> Finding:
    problems = (element.problem for element in elements_of(answer))
    if strange := next((each for each in problems if each and each.code in ("no_company_number", "no_number")), None):
        return Finding(
            BULK, f"where {answer.request.companies[0]} was requested, {strange.text}", "needs_you",
            next_step="Ask the service to answer with the requested number. firmlake reads only the numbers of the "
            "specification (enterprise number, KVK number, SIREN), so such companies count as failed",
        )  # fmt: skip
    what = "the answer is not an array of elements: " if answer.is_success else ""
    return Finding(
        BULK, what + describe_answer(answer), "needs_you",
        next_step="Copy a request from the service's documentation into api.requests, with {country} and {number} in "
        "the place of the company, and check again. The structure of answers cannot be set",
    )  # fmt: skip


_LANGUAGE_HEADER = re.compile(
    r"\bheader\W+([a-z-]*lang[a-z-]*)|\b([a-z-]*lang[a-z-]*)\W+(?:request )?header|\b((?:x|accept)-lang[a-z-]*)", re.I
)
_LOWER_COUNTRIES = re.compile(r"\b(be|nl|fr)\b\W+(?:or\W+)?(?!\1)(?:be|nl|fr)\b")
_TOKEN = re.compile(r"[\w.\[\]$]+")
_UNKNOWN = re.compile(
    r"should not exist|unknown|unrecogni[sz]ed|unexpected|not (?:allowed|permitted|recogni[sz]ed|expected)|additional",
    re.IGNORECASE,
)
_INSTEAD = re.compile(r"\bknown\b|\bexpected\b|\bvalid\b|one of|did you mean", re.IGNORECASE)
"""What follows these words are the names that the service knows."""


def _words(lines: Iterable[str]) -> frozenset[str]:
    """Return the words of a refusal in lower case; of a path, its last part unless that is an index.

    A company in one word, as an example in the refusal, stands for such words, and so do countries in lower case.

    Example:
        >>> sorted(_words(['$.companies[0].Number: must be text as "BE0403227515"', "not one of be, nl"]))
        ['as', 'be', 'must', 'nl', 'not', 'number', 'of', 'one', 'text', '{country_lower}', '{country}{number}']
    """
    lines = [*lines]
    paths = (re.split(r"[.\[\]]+", token.strip(".[]")) for line in lines for token in _TOKEN.findall(line))
    last = (path[-1] for path in paths if not path[-1].isdecimal())
    lower = [LOWER for line in lines if _LOWER_COUNTRIES.search(line) and "lang" not in line.casefold()]
    return frozenset([*(_TEXT if company_in(word) else word.casefold() for word in last), *lower])
