"""Dialects: services that keep to the specification and answer differently wherever it leaves something open.

A dialect is one entry of a table: what it changes of a request and of an answer at the edge of the service, or options
that it sets. Adding one is adding an entry. `firmlake_sandbox.edge` carries them out, `firmlake_sandbox.rewrites` has
the functions that change answers.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from msgspec import Struct

from firmlake_sandbox import rewrites


class Dialect(Struct, frozen=True):
    """How a service differs.

    Attributes:
        gap: What the specification leaves open there; two dialects about the same gap exclude each other.
        says: What the service does, for `--dialect help`.
        ending: How a run over a list ends, where that is not exit 0 with every value; for `--dialect help`.
        options: Options of the service that it sets.
        names: Names in requests, bodies and queries alike: the assumed one to this service's.
        unknown_name: What comes of a name it does not know: `named` in a 400 that also says which was expected,
            `refused` by a 400 without a reason, or `ignored`.
        request_headers: Headers of requests in lower case: the assumed one to this service's.
        headers: Headers of answers in lower case: the usual one to this service's, "" leaves it out.
        texts: Messages of the service: the usual one to this service's.
        refused: Beginnings of endpoint names (`relationships`, `lists`) to the status they are always answered with.
        element: Changes an element of an answer about companies; gets the dataset and the element.
        elements: Changes the list of elements of a bulk answer.
        error: Makes the body of an error of status and message.
        write: Makes the bytes and the content encoding of a body.
        is_chunked: The answer's length is not announced.
    """

    gap: str
    says: str
    ending: str = ""
    options: dict[str, Any] = {}
    names: dict[str, str] = {}
    unknown_name: str = "named"
    request_headers: dict[str, str] = {}
    headers: dict[str, str] = {}
    texts: dict[str, str] = {}
    refused: dict[str, int] = {}
    element: Callable[[str, dict[str, Any]], None] | None = None
    elements: Callable[[list[Any]], Any] | None = None
    error: Callable[[int, str], object] | None = None
    write: Callable[[bytes], tuple[bytes, str]] | None = None
    is_chunked: bool = False


_COMBINED_SHARE = 0.5
"""Of the gaps, those at which a combination by seed differs from the specification."""


_CREDITS = {"charged": "x-credits-charged", "remaining": "x-credits-remaining"}
_RATE = {"limit": "ratelimit-limit", "remaining": "ratelimit-remaining", "reset": "ratelimit-reset"}
_HURRIED = {"requests_per_minute": 6000, "rate_limit_headers": "all"}

DIALECTS: dict[str, Dialect] = {
    # Requests.
    "language-header": Dialect(
        "language header",
        "takes the language from X-Language; without it names are Dutch",
        options={"language": "NL"},
        request_headers={"accept-language": "x-language"},
    ),
    "language-default": Dialect(
        "language header",
        "answers in Dutch whatever the header says",
        options={"language": "NL"},
        request_headers={"accept-language": "x-no-language-header-at-all"},
        ending="names and places are Dutch",
    ),
    "paging-skip-take": Dialect(
        "paging parameters",
        "calls limit `take` and offset `skip`, and refuses other names",
        names={"limit": "take", "offset": "skip"},
    ),
    "paging-ignored": Dialect(
        "paging parameters",
        "calls limit `pageSize`, and ignores names that it does not know",
        names={"limit": "pageSize", "offset": "skip"},
        unknown_name="ignored",
    ),
    "page-default-one": Dialect(
        "default page size", "answers one record if the request names no limit", options={"page_limit_default": 1}
    ),
    "page-100": Dialect("largest page", "refuses a limit above 100", options={"page_limit_max": 100}),
    "page-clamped": Dialect(
        "largest page",
        "cuts every page to 3 records and says so only in `pagination.limit`",
        element=rewrites.clamp_page,
    ),
    "total-untold": Dialect(
        "totals", "sends `hasMore` instead of `pagination.total`", element=rewrites.tell_more_in_place_of_total
    ),
    "total-of-page": Dialect(
        "totals",
        "counts the records of the page in `pagination.total`",
        element=rewrites.count_page,
        ending="check says so; a run asks for more until a page is not full",
    ),
    "oldest-first": Dialect("item order", "lists the oldest period first", options={"oldest_first": True}),
    "body-short": Dialect(
        "bulk body",
        "names companies by `country` and `number`, and says which name it expected",
        names={"countryCode": "country", "companyNumber": "number"},
    ),
    "body-silent": Dialect(
        "bulk body",
        "calls the array `identifiers`, and refuses anything else without a reason",
        names={"companies": "identifiers", "countryCode": "country"},
        unknown_name="refused",
    ),
    "companies-20": Dialect(
        "companies in a bulk request",
        "accepts at most 20 companies in a request",
        options={"companies_per_request": 20},
    ),
    "records-unlimited": Dialect(
        "records in a bulk request", "has no limit on companies x limit", options={"records_per_request": 0}
    ),
    "records-200": Dialect(
        "records in a bulk request", "limits companies x limit to 200", options={"records_per_request": 200}
    ),
    "contacts-names": Dialect(
        "contacts body",
        "calls the entries of a contacts request `entries`, and a contact `id`",
        names={"companyContacts": "entries", "contactId": "id"},
    ),
    "zero-required": Dialect(
        "spelling of company numbers",
        "accepts and sends Belgian numbers only with their leading zero",
        options={"number_spelling": "full", "leading_zero": True},
    ),
    "zero-answered": Dialect(
        "spelling of company numbers", "sends Belgian numbers with their leading zero", options={"leading_zero": True}
    ),
    "number-integers": Dialect(
        "spelling of company numbers",
        "sends company numbers as JSON numbers",
        element=rewrites.number_identifiers,
    ),
    # Limits, credits, errors.
    "rate-standard": Dialect(
        "rate limit", "states its rate limit in RateLimit headers and Retry-After", options=_HURRIED
    ),
    "rate-custom": Dialect(
        "rate limit",
        "states its rate limit in X-Rate-Limit headers",
        options=_HURRIED,
        headers={usual: f"x-rate-limit-{part}" for part, usual in _RATE.items()},
    ),
    "credits-renamed": Dialect(
        "credit headers",
        "calls the headers Credits-Used and Credits-Left",
        headers={_CREDITS["charged"]: "credits-used", _CREDITS["remaining"]: "credits-left"},
    ),
    "credits-untold": Dialect(
        "credit headers", "sends no credit headers", headers=dict.fromkeys(_CREDITS.values(), "")
    ),
    "credits-for-unknown": Dialect(
        "credits", "charges a credit for a company that it does not know", options={"credits_for_unknown": True}
    ),
    "errors-problem": Dialect("whole-request errors", "writes errors as RFC 9457 does", error=rewrites.problem_error),
    "errors-nested": Dialect(
        "whole-request errors", "puts the message into an object `error`", error=rewrites.nested_error
    ),
    "errors-listed": Dialect(
        "whole-request errors", "sends a list of messages, as validators do", error=rewrites.listed_error
    ),
    "errors-html": Dialect("whole-request errors", "writes errors as an HTML page", error=rewrites.html_error),
    "not-found-text": Dialect(
        "company not found",
        "says `Onderneming onbekend` of a company that it does not know",
        texts={"Company not found": "Onderneming onbekend"},
    ),
    "not-found-404": Dialect(
        "company not found", "answers 404 if all companies of a request are unknown", elements=rewrites.refuse_unknown
    ),
    "not-found-refused": Dialect(
        "company not found",
        "refuses a request that names an unknown company with 404",
        elements=rewrites.refuse_any,
        ending="a run halves requests to find the companies; it needs the message to tell them from a wrong address",
    ),
    "not-found-omitted": Dialect(
        "company not found",
        "leaves out companies that it does not know",
        elements=rewrites.leave_out_unknown,
        ending="a run asks for them twice more beside a company that was answered",
    ),
    "message-ok": Dialect("answers without records", "says `Done` instead of `OK`", element=rewrites.say_done),
    # Records.
    "nulls-omitted": Dialect("absent keys", "leaves out keys whose value is null", element=rewrites.omit_nulls),
    "empties-omitted": Dialect(
        "absent keys", "leaves out keys whose value is null or empty", element=rewrites.omit_empties
    ),
    "fields-added": Dialect("unknown fields", "adds fields to every object", element=rewrites.add_fields),
    "decimal-integers": Dialect(
        "integers",
        "counts employees in full-time equivalents (12.5), and has a health indicator of 7.5",
        element=rewrites.make_decimals,
        ending="values with decimals are discarded from integer columns, unless [contract] widens them",
    ),
    "numbers-as-text": Dialect(
        "types",
        "writes amounts and ratios as text",
        element=rewrites.quote_numbers,
    ),
    "fractions-100": Dialect(
        "scale of fractions",
        "sends shares of women and men, and stakes, as percentages, 0 to 100",
        element=rewrites.scale_fractions,
    ),
    "scores-100": Dialect("scale of scores", "scores lookalikes from 0 to 100", element=rewrites.scale_scores),
    "children-company-id": Dialect(
        "`children` of relationships", "names a child by `companyId`", element=rewrites.children_by_company_id
    ),
    "children-flat": Dialect(
        "`children` of relationships",
        "names a child by flat `country` and `companyNumber`",
        element=rewrites.children_flat,
    ),
    "children-unknown": Dialect(
        "`children` of relationships",
        "identifies a child only by its own id, `entity`",
        element=rewrites.children_unknown,
        ending="children are kept as JSON",
    ),
    "functions-new": Dialect("`function`", "knows functions other than SHAREHOLDER", element=rewrites.rename_functions),
    "health-hundred": Dialect(
        "`healthIndicator`",
        "counts the health indicator in hundreds",
        element=rewrites.scale_health,
        ending="health indicators stay a hundred times as large",
    ),
    # What is around and within the JSON.
    "json-pretty": Dialect("JSON", "indents its JSON and sorts keys backwards", write=rewrites.write_pretty),
    "json-escaped": Dialect("JSON", "escapes slashes and all characters outside ASCII", write=rewrites.write_escaped),
    "json-exponents": Dialect(
        "JSON", "writes numbers with exponents and unnecessary zeros", write=rewrites.write_exponents
    ),
    "byte-order-mark": Dialect("JSON", "begins every body with a byte order mark", write=rewrites.write_mark),
    "gzip": Dialect("transfer", "compresses answers without being asked to", write=rewrites.write_gzip),
    "chunked": Dialect("transfer", "sends bodies in chunks, without their length", is_chunked=True),
    "companies-repeated": Dialect("elements", "answers every company twice", elements=rewrites.repeat_elements),
    "companies-reordered": Dialect(
        "elements", "answers companies in another order", elements=rewrites.reverse_elements
    ),
    # What is not to be had.
    "forbidden": Dialect(
        "endpoints",
        "forbids relationships (403)",
        refused={"relationships": 403},
        ending="exit 3: financials and lookalikes are there, relationships are not",
    ),
    "down": Dialect(
        "endpoints",
        "always answers lookalikes with 500",
        refused={"lookalikes": 500},
        ending="exit 3: financials and relationships are there, lookalikes are not",
    ),
    "lists-forbidden": Dialect("lists", "forbids the overview of lists (403)", refused={"lists": 403}),
    "wrapped": Dialect(
        "bulk body",
        'wraps bulk answers in an object: {"items": [...]}',
        elements=rewrites.wrap_elements,
        ending="no setting helps: check says so, and a run buys nothing more",
    ),
}


def resolve_dialects(names: Iterable[str]) -> tuple[Dialect, ...]:
    """Find dialects by name; `seed:7` is a combination, always the same.

    Raises:
        ValueError: There is no such dialect, or two are about the same gap.
    """
    found: dict[str, str] = {}
    for name in (each for given in names for each in _expand(given)):
        if name not in DIALECTS:
            raise ValueError(f"{name!r} is no dialect; `--dialect help` lists them")
        other = found.setdefault(DIALECTS[name].gap, name)
        if other != name:
            raise ValueError(f"{other} and {name} exclude each other: both are about {DIALECTS[name].gap}")
    return tuple(DIALECTS[name] for name in found.values())


def combine(seed: int) -> list[str]:
    """Draw a combination of dialects that leave a run its ordinary end: at most one for each gap.

    Args:
        seed: Another seed is another combination.
    """
    random = Random(seed)  # noqa: S311 - repeatable on purpose
    by_gap: dict[str, list[str]] = {}
    for name, dialect in DIALECTS.items():
        if not dialect.ending:
            by_gap.setdefault(dialect.gap, []).append(name)
    return [random.choice(names) for names in by_gap.values() if random.random() < _COMBINED_SHARE]


def describe_dialects() -> str:
    """List all dialects for a person: by gap, with what each does and how it ends."""
    lines: list[str] = []
    for gap in dict.fromkeys(dialect.gap for dialect in DIALECTS.values()):
        lines.append(gap)
        for name, dialect in DIALECTS.items():
            if dialect.gap == gap:
                lines.append(f"  {name:20} {dialect.says}" + (f" ({dialect.ending})" if dialect.ending else ""))
    return "\n".join(
        [
            *lines,
            "",
            "seed:N combines dialects that have no remark in parentheses; a seed always gives the same combination.",
            "",
        ]
    )


def _expand(name: str) -> list[str]:
    kind, _, seed = name.partition(":")
    return combine(int(seed)) if kind == "seed" and seed.isdecimal() else [name]
