"""Find the example of a request that the service accepts: the bulk body, and the paging parameters in it.

Tried are the example of the settings, what a refusal names instead, and then the forms that other services use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import msgspec

from firmlake.api.contract import DATASETS
from firmlake.api.exchange import Answer
from firmlake.api.judge import read_lines, read_message
from firmlake.check.finding import Finding
from firmlake.check.talk import (
    Talk,
    bearing_loss,
    elements_of,
    example_of,
    forms,
    get_example,
    is_crash,
    is_refusal,
    pagination,
    pagings,
    places_of,
    read_json,
    renamed,
    roles_of,
    with_page,
)
from firmlake.core.company import Company
from firmlake.core.example import Example
from firmlake.core.settings import ApiSettings, RequestSettings

BULK, PAGING = "bulk body", "paging parameters"
"""The rows in docs/service_gaps.md."""
_TRIES_MAX = 40


def find_bulk_example(talk: Talk, dataset: str, company: Company) -> Finding:
    """Find the example of a bulk request for a dataset, and use its form for the other datasets too."""

    def ask(example: Example) -> Answer:
        return bearing_loss(talk, lambda: talk.bulk(dataset, [company], requests=_with(talk, dataset, example)))

    def is_right(answer: Answer) -> bool:
        return any(element.company == company for element in elements_of(answer))

    def goes_on(answer: Answer) -> bool:
        return is_refusal(answer) or (answer.is_success and read_json(answer.body) in ([], None))

    ours = example_of(talk.api, dataset)
    found, answer = _hunt(ask, is_right, goes_on, ours, forms, ("companies", "country", "company_number"))
    if found is None:
        return _describe_unknown_form(answer)
    settings = {} if found == example_of(talk.given, dataset) else _adopt(talk, dataset, found)
    body = found.text.partition("\n\n")[2] or found.text.partition("\n")[0]
    return Finding(BULK, body, "covered" if settings else "as_assumed", settings)


def find_paging(talk: Talk, company: Company) -> Finding:
    """Find the paging parameters of a bulk request for financials.

    The `pagination` of the answer shows whether the service has read them.
    """
    ours = example_of(talk.api, "financials")

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

    found, answer = _hunt(ask, is_right, goes_on, ours, pagings, ("limit", "offset"))
    if found is None:
        return Finding(
            PAGING, f"{{limit}} and {{offset}} are not understood: {describe_refusal(answer)}", "needs_you",
            next_step="Show in api.requests.financials where the service's documentation has the paging parameters",
        )  # fmt: skip
    _adopt(talk, "financials", found)
    is_given = found == example_of(talk.given, "financials")
    settings = {} if is_given else {"api.requests.financials": found.text}
    roles = roles_of(found)
    where = "in the query" if found.query else "in the body"
    seen = f"{roles.get('limit')} and {roles.get('offset')}, {where}"
    if not answer.request.offset:
        seen += "; an offset was not tried, because the company has one period"
    return Finding(PAGING, seen, "covered" if settings else "as_assumed", settings)


def find_totals(talk: Talk, *answers: Answer) -> Finding:
    """Find a total that exceeds what its page can hold, which proves that totals count all records of a company."""
    pages = [(answer.request, element) for answer in answers if answer.request.limit for element in elements_of(answer)]
    for request, element in pages:
        held = (request.offset or 0) + max(request.limit or 0, element.count)
        if (element.total or 0) > held:
            talk.api = msgspec.structs.replace(talk.api, totals="company")
            seen = f"{element.total} in total, on a page of {element.count}"
            return Finding("totals", seen, "as_assumed", {"api.totals": "company"})
    return Finding("totals", "no total exceeded its page, so full pages are requested again", "not_observed")


def follow_refusal(talk: Talk, refusal: Answer) -> bool:
    """Take over a header for the language, or paging parameters, that a refusal names; return whether it names any."""
    found = _LANGUAGE_HEADER.search(read_message(refusal))
    header = found and (found[1] or found[2])
    if header and header.casefold() != language_header(talk.api).casefold():
        talk.api = msgspec.structs.replace(talk.api, requests=with_language_header(talk.api, header))
        return True
    if refusal.request.limit is None:
        return False
    ours = example_of(talk.api, "financials")
    names = {role: name for role, name in roles_of(ours).items() if role in ("limit", "offset")}
    better = suggest_names(read_lines(refusal.body), names)
    if better:
        other = renamed(ours, {names[role]: name for role, name in better.items()})
        talk.api = msgspec.structs.replace(talk.api, requests=_with(talk, "financials", other))
    return bool(better)


def use_get(talk: Talk, datasets: Iterable[str], refusal: Finding) -> Finding:
    """Let runs ask by GET for one company at a time, because no bulk request is understood."""
    settings: dict[str, Any] = {}
    talk.api = msgspec.structs.replace(talk.api, companies_per_request=1)
    for dataset in datasets:
        talk.api = msgspec.structs.replace(talk.api, requests=_with(talk, dataset, get_example(talk.api, dataset)))
        settings[f"api.requests.{dataset}"] = getattr(talk.api.requests, dataset)
    return Finding(
        BULK, f"not understood ({refusal.seen}); runs ask by GET, one company a request", "covered", settings
    )


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


def describe_refusal(answer: Answer) -> str:
    """Describe in one line what the service answered."""
    if answer.error and (answer.status or 0) < 300:
        return answer.error
    lines = [_glimpse(answer.body)] if answer.is_success else [read_message(answer)] if read_message(answer) else []
    text = "; ".join(dict.fromkeys(lines or read_lines(answer.body)))[:160]
    return f"{answer.status}: {text}" if text else str(answer.status)


# ---------------------------------------------------------------------------------------------------------------------


def _hunt(
    ask: Callable[[Example], Answer],
    is_right: Callable[[Answer], bool],
    goes_on: Callable[[Answer], bool],
    ours: Example,
    variants: Callable[..., Iterator[Example]],
    roles: tuple[str, ...],
) -> tuple[Example | None, Answer]:
    """Try examples until an answer is right, first those that a refusal suggests.

    A name that is unknown in one place may be right in another: what is unknown in the body may be known in an object
    of the body. A name that a refusal gives is taken for that of such an object if the next refusal is another.

    Args:
        ask: Sends a request by an example.
        is_right: Returns whether the service understood it.
        goes_on: Returns whether another example may help.
        ours: The example to try first.
        variants: Yields others like it, as most services have them, or those inside an object of some names.
        roles: What a refusal may give other names for.

    Returns:
        The example that works, with its answer. Without one, None and an answer that no other example would change, or
        the answer to the first.
    """
    rest: Iterator[Example] = chain([ours], variants(ours))
    suggested, tried, objects = list[Example](), set[str](), dict[str, tuple[str, list[str]]]()
    unknown, unknown_keys = set[tuple[str, tuple[str, ...]]](), set[str]()
    first: Answer | None = None
    while len(tried) < _TRIES_MAX and (example := suggested.pop() if suggested else next(rest, None)):
        places = {role: keys for role, keys in places_of(example).items() if role in roles}
        names = {role: keys[-1] for role, keys in places.items()}
        keys = example.body.keys() if isinstance(example.body, dict) else ()
        if example.text in tried or unknown & set(places.items()) or not unknown_keys.isdisjoint(keys):
            continue
        tried.add(example.text)
        answer = ask(example)
        if is_right(answer):
            return example, answer
        if not goes_on(answer) and not (len(tried) > 1 and is_crash(answer)):
            return None, answer
        first = first or answer
        said = read_lines(answer.body) if is_refusal(answer) else []
        unknown |= {(role, places[role]) for role in find_unknown(said, names)}
        if is_crash(answer) and tried != {example.text} and roles[0] in places:
            unknown.add((roles[0], places[roles[0]]))
        if better := suggest_names(said, names):
            suggested.append(renamed(example, {names[role]: name for role, name in better.items()}))
        unknown_keys |= unknown_words(said) & set(keys)
        word, before = objects.get(example.text, ("", said))
        if said != before and word not in unknown_keys:
            rest = chain(variants(ours, (word,)), rest)
        for name in find_objects(said, roles_of(example)):
            if first_inside := next(variants(ours, (name,)), None):
                objects.setdefault(first_inside.text, (name, said))
                suggested.insert(0, first_inside)
    assert first is not None
    return None, first


def _with(talk: Talk, dataset: str, example: Example) -> Any:
    return msgspec.structs.replace(talk.api.requests, **{dataset: example.text})


def _adopt(talk: Talk, dataset: str, found: Example) -> dict[str, str]:
    """Use an example from now on, and its form for the other datasets; return the settings."""
    changed = {dataset: found}
    if dataset != "financials":
        for other in {"lookalikes", "relationships"} - {dataset}:
            changed[other] = found._replace(path=example_of(talk.api, other).path)
        ours = example_of(talk.api, "financials")
        names = roles_of(ours)
        unpaged = found._replace(path=ours.path)
        changed["financials"] = with_page(unpaged, names.get("limit", "limit"), names.get("offset", "offset"))
    texts = {name: example.text for name, example in changed.items()}
    talk.api = msgspec.structs.replace(talk.api, requests=msgspec.structs.replace(talk.api.requests, **texts))
    return {f"api.requests.{name}": text for name, text in texts.items()}


def _describe_unknown_form(answer: Answer) -> Finding:
    problems = (element.problem for element in elements_of(answer))
    if strange := next((each for each in problems if each and each.code == "no_company_number"), None):
        return Finding(
            BULK, f"where {answer.request.companies[0]} was requested, {strange.text}", "needs_you",
            next_step="Ask the service to answer with the requested number. firmlake reads only the numbers of the "
            "specification (enterprise number, KVK number, SIREN), so such companies count as failed",
        )  # fmt: skip
    what = "the answer is not an array of elements: " if answer.is_success else ""
    return Finding(
        BULK, what + describe_refusal(answer), "needs_you",
        next_step="Copy a request from the service's documentation into api.requests, with {country} and {number} in "
        "the place of the company, and check again. The structure of answers cannot be set",
    )  # fmt: skip


def _glimpse(body: bytes) -> str:
    return " ".join(body[:60].decode("utf-8", "replace").split())


_QUOTED = re.compile("['\"`\u2018\u201c]([A-Za-z_][\\w.\\[\\]$]*)['\"`\u2019\u201d]")
_SUBJECT = re.compile(  # tried once a word: from each letter of a word of a megabyte, it would take hours
    r"(?<![\w.\[\]$])(?=[\d.\[\]$]*+[A-Za-z_])([\w.\[\]$]++)\s+(?:property |field |parameter )?"
    r"(?:should|must|is (?:required|missing|not|unknown|invalid|mandatory)|cannot|may not|Field required|not allowed)"
)
_OBJECT = re.compile(
    r"(?:property|properties|field|parameter|key|attribute|expected|mean|missing|required:?|empty:|invalid:)\s+([A-Za-z_]\w*)"
)
_BRACKETED = re.compile(r"\bno \[([A-Za-z_]\w*)\]")
_LANGUAGE_HEADER = re.compile(
    r"\bheader\W+([a-z-]*lang[a-z-]*)|\b([a-z-]*lang[a-z-]*)\W+(?:request )?header", re.IGNORECASE
)
_NAME_LENGTH_MAX = 64
"""Longest name that goes into requests and settings; those of services have a dozen characters."""
_OBJECTS_MAX = 4
"""Names of a refusal that are tried as an object around what we send; most are something else."""
_NUMBER = re.compile(r"(?<![\w.])\d{1,7}(?![\w.]*\w)")

_FRAGMENTS = {
    "country": "country land pays nation",
    "company_number": "number nummer numero siren kvk vat regist enterpriseid companyid id",
    "companies": "compan identif items entities organi enterprises businesses elements onderneming bedrij "
    "entrepris societ",
    "limit": "limit size take count perpage per_page top rows max",
    "offset": "offset skip start from begin",
}
"""Parts of the names that services use, by role in a request. The first role that matches a word wins; of two letters,
only the whole word does."""

_UNKNOWN = re.compile(
    r"should not exist|unknown|unrecogni[sz]ed|unexpected|not (?:allowed|permitted|recogni[sz]ed|expected)|additional",
    re.IGNORECASE,
)
_INSTEAD = re.compile(r"\bknown\b|\bexpected\b|\bvalid\b|one of|did you mean", re.IGNORECASE)
_NOT_NAMES = {
    "a", "an", "and", "array", "bad", "body", "data", "error", "expected", "field", "fields", "input", "integer", "is",
    "it", "json", "key", "list", "message", "missing", "must", "not", "null", "object", "of", "one", "or", "param",
    "parameter", "properties", "property", "query", "request", "required", "should", "string", "the", "this", "to",
    "type", "unknown", "value", "values", "you", "your",
}  # fmt: skip
_OBJECTS = {"data", "input", "query", "request"}
"""Those that may be names of an object."""


def suggest_names(lines: list[str], names: Mapping[str, str]) -> dict[str, str]:
    """Find the names that the service expects instead of ours.

    Args:
        lines: Lines of text from `api.refusal.read_lines`.
        names: The names that were sent, by role (`companies`, `country`, `company_number`, `limit`, `offset`).

    Returns:
        The names that the service seems to expect, by role; empty if it names none.

    Example:
        >>> suggest_names(["unknown property 'companyNumber', expected 'number'"], {"company_number": "companyNumber"})
        {'company_number': 'number'}
    """
    found: dict[str, str] = {}
    ours = {name: role for role, name in names.items()}
    for line in lines:
        words = [word for word in dict.fromkeys(_names_in(line)) if len(word) <= _NAME_LENGTH_MAX]
        refused = [ours[word] for word in words if word in ours]
        others = [word for word in words if word not in ours and word.lower() not in _NOT_NAMES]
        for word in others:
            role = _role(word, names) or (refused[0] if len(refused) == len(others) == 1 else None)
            if role is not None and word != names[role]:
                found.setdefault(role, word)
    return found


def find_objects(lines: list[str], names: Mapping[str, str]) -> list[str]:
    """Find the names in a refusal that stand for nothing we send, as the name of an object around it would.

    Example:
        >>> find_objects(["param is missing or the value is empty: lookup"], {"companies": "companies"})
        ['lookup']
    """
    words = dict.fromkeys(word for line in lines for word in _names_in(line) if len(word) <= _NAME_LENGTH_MAX)
    strange = [word for word in words if word not in names.values() and word.lower() not in _NOT_NAMES - _OBJECTS]
    return [word for word in strange if _role(word, names) is None][:_OBJECTS_MAX]


def find_unknown(lines: list[str], names: Mapping[str, str]) -> set[str]:
    """Find the roles whose names the service does not know.

    Example:
        >>> find_unknown(["companies should not exist"], {"companies": "companies", "country": "country"})
        {'companies'}
    """
    words = unknown_words(lines)
    return {role for role, name in names.items() if name in words}


def unknown_words(lines: list[str]) -> set[str]:
    """Find the names that the service does not know, among those that it expects instead."""
    told = (_INSTEAD.split(line)[0] for line in lines if _UNKNOWN.search(line))
    return {word for line in told for word in _names_in(line)}


def find_bounds(lines: list[str], asked: int) -> list[int]:
    """Find the numbers in a refusal that may be the largest allowed one, the likeliest first.

    Args:
        lines: Lines of text from `api.refusal.read_lines`.
        asked: The number that was refused; only smaller numbers are returned.

    Example:
        >>> find_bounds(["101 companies, but a request may have at most 100"], 101)
        [100]
    """
    numbers = {int(text) for line in lines for text in _NUMBER.findall(line)}
    return sorted((number for number in numbers if 0 < number < asked), reverse=True)


def _names_in(line: str) -> Iterator[str]:
    """Yield the words of a line that look like field names; for a path, its last part that is not an index."""
    for pattern in (_QUOTED, _SUBJECT, _OBJECT, _BRACKETED):
        for text in pattern.findall(line):
            yield _last(text)
    first = line.partition(" ")[0]
    if "." in first.strip(".") or first.endswith(":"):
        yield _last(first.removesuffix(":"))


def _last(path: str) -> str:
    parts = [part for part in re.split(r"[.\[\]]+", path) if part and not part.isdecimal()]
    return parts[-1] if parts else path


def _role(word: str, names: Mapping[str, str]) -> str | None:
    text = word.lower()
    if text == "page":  # a page number is not an offset
        return None
    if text.endswith("ids") and "companies" in names:
        return "companies"
    for role, fragments in _FRAGMENTS.items():
        if role in names and any(text == part if len(part) < 3 else part in text for part in fragments.split()):
            return role
    return None
