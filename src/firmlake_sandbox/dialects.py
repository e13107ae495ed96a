"""Dialects: services that keep to the specification and answer differently wherever it leaves something open.

A dialect is one entry of a table: options of the service that it sets, and twists without conditions. Adding one is
adding an entry.
"""

import gzip
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

import msgspec

from firmlake_sandbox.contract import DATASETS
from firmlake_sandbox.twists import Elements, Object, SmallPages, Status, Twist, objects, pages
from firmlake_sandbox.wire import Answer, Call, Line, RefusedError, read_json, write_json

_NOT_FOUND, _UNKNOWN = "Company not found", "Onderneming onbekend"


class Names(Twist, frozen=True):
    """Calls a field of a query or of a body otherwise.

    Attributes:
        own: The usual name to this service's.
        unknown: What comes of a usual name: `named` in a 400 that also says which was expected, `refused` by a 400
            without a reason, or `ignored`.
    """

    own: dict[str, str]
    unknown: str = "named"

    def translate(self, call: Call) -> Call:
        query = parse_qsl(call.query.decode("latin-1"), keep_blank_values=True)
        query = [(name, text) for key, text in query for name in self._usual(key)]
        try:
            body = write_json(self._rename(read_json(call.body))) if call.body else b""
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # the service itself refuses it
            body = call.body
        return call._replace(query=urlencode(query).encode(), body=body)

    def _rename(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._rename(inner) for key, inner in value.items() for name in self._usual(key)}
        return [self._rename(inner) for inner in value] if isinstance(value, list) else value

    def _usual(self, key: str) -> Iterator[str]:
        """Yield the usual name for one of this service, or nothing for one it ignores."""
        own = self.own.get(key)
        if own is None or own == key:
            yield next((usual for usual, name in self.own.items() if name == key), key)
        elif self.unknown == "named":
            raise RefusedError(400, f"unknown property '{key}', expected '{own}'")
        elif self.unknown == "refused":
            raise RefusedError(400, "Bad request")


class LanguageHeader(Twist, frozen=True):
    """Takes the language from another header; None: from none."""

    own: str | None

    def translate(self, call: Call) -> Call:
        usual = {name: text for name, text in call.headers.items() if name != "accept-language"}
        own = call.headers.get(self.own) if self.own else None
        return call._replace(headers=usual if own is None else usual | {"accept-language": own})


class Headers(Twist, frozen=True):
    """Calls headers of answers otherwise: the usual name to this service's, "" leaves it out."""

    own: dict[str, str]
    rank = 5

    def finish(self, answer: Answer) -> Answer:
        named = {self.own.get(name, name): text for name, text in answer.headers.items()}
        return answer._replace(headers={name: text for name, text in named.items() if name})


class Records(Twist, frozen=True):
    """Changes the elements of answers about companies, in place or by returning others."""

    change: Callable[[list[Object]], Any]

    def is_for(self, endpoint: str) -> bool:
        return endpoint.startswith(DATASETS) and super().is_for(endpoint)

    def rewrite(self, elements: list[Object], bits: int) -> Any:
        changed = self.change(elements)
        return elements if changed is None else changed


class NotFoundText(Twist, frozen=True):
    """Says in other words that the company of a single request is not found."""

    text: str

    def finish(self, answer: Answer) -> Answer:
        is_it = answer.status == 404 and f'"{_NOT_FOUND}"'.encode() in answer.body
        return answer._replace(body=write_json({"status": 404, "message": self.text})) if is_it else answer


class Errors(Twist, frozen=True):
    """Writes errors in another form, JSON or bytes of HTML."""

    form: Callable[[int, str], object]
    rank = 1

    def finish(self, answer: Answer) -> Answer:
        if answer.status < 400:
            return answer
        made = self.form(answer.status, str(read_json(answer.body).get("message", "")))
        if not isinstance(made, bytes):
            return answer._replace(body=write_json(made))
        return Answer(answer.status, {**answer.headers, "content-type": "text/html; charset=utf-8"}, made)


class Spelling(Twist, frozen=True):
    """Spells the same JSON otherwise."""

    spell: Callable[[bytes], bytes]
    rank = 2

    def finish(self, answer: Answer) -> Answer:
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        return answer._replace(body=self.spell(answer.body)) if is_json else answer


class Gzip(Twist, frozen=True):
    """Compresses answers, whatever the request accepts."""

    rank = 4

    def finish(self, answer: Answer) -> Answer:
        if "content-encoding" in answer.headers or not answer.body:
            return answer
        headers = {**answer.headers, "content-encoding": "gzip"}
        return answer._replace(headers=headers, body=gzip.compress(answer.body, 1, mtime=0))


class Chunked(Twist, frozen=True):
    """Does not announce the length of answers."""

    async def send(self, answer: Answer, line: Line) -> None:
        await line.begin(answer, is_chunked=True)
        half = len(answer.body) // 2
        if half:
            await line.send_part(answer.body[:half])
        await line.end(answer.body[half:])


# What changes in answers about companies.


def _each(field: str, change: Callable[[Any], Any]) -> Records:
    """Return a twist that changes the values of a field wherever it is."""

    def change_all(elements: list[Object]) -> None:
        for holder in objects(elements):
            if holder.get(field) is not None:
                holder[field] = change(holder[field])

    return Records(change_all)


def _omit(*values: object) -> Records:
    """Return a twist that leaves out keys with these values, the innermost first."""

    def omit(elements: list[Object]) -> None:
        for holder in objects(elements):
            for key in [key for key, value in holder.items() if value in values]:
                del holder[key]

    return Records(omit)


def _add_fields(elements: list[Object]) -> None:
    for holder in objects(elements):
        holder |= {"x-source": "registry", "confidence": Decimal("0.93"), "meta": {"version": 3, "tags": []}}


def _count_page(elements: list[Object]) -> None:
    for page in pages(elements):
        page["pagination"]["total"] = len(page["data"])


def _tell_more(elements: list[Object]) -> None:
    for page in pages(elements):
        told = page["pagination"]
        told["hasMore"] = told["offset"] + len(page["data"]) < told.pop("total")


def _say_done(elements: list[Object]) -> None:
    for element in elements:
        if "message" in element:
            element["message"] = element["message"] or "Done"


def _hundredfold(value: Decimal | int) -> Decimal:
    return Decimal(value).scaleb(2)


def _quote(part: Object) -> Object:
    return {key: value if value is None else str(value) for key, value in part.items()}


def _name_children(name: Callable[[Object], Object]) -> Records:
    """Return a twist that names each child by something else than `identifier`."""

    def rename(child: Object) -> Object:
        company = {key: child["identifier"][key] for key in ("country", "companyNumber")}
        return name(company) | {key: value for key, value in child.items() if key != "identifier"}

    return _each(
        "children", lambda children: [rename(child) if child.get("identifier") else child for child in children]
    )


def _refuse(is_refused: Callable[[Iterable[bool]], bool]) -> Records:
    """Return a twist that answers 404 where all or any of the companies of a bulk request are unknown."""

    def refuse(elements: list[Object]) -> None:
        if is_refused([element.get("message") == _NOT_FOUND for element in elements]):
            raise RefusedError(404, _NOT_FOUND)

    return Records(refuse, endpoint="bulk")


# How JSON is spelled.

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_DECIMAL = re.compile(rb'("(?:[^"\\]|\\.)*")|(-?\d+\.\d+)')


def _spell_pretty(body: bytes) -> bytes:
    return msgspec.json.format(write_json(_reverse_keys(read_json(body))), indent=2)


def _reverse_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reverse_keys(inner) for key, inner in reversed(value.items())}
    return [_reverse_keys(inner) for inner in value] if isinstance(value, list) else value


def _spell_escaped(body: bytes) -> bytes:
    escaped = re.sub(r"[^\x00-\x7f]", _escape, body.decode()).encode()
    return _STRING.sub(lambda found: found[0].replace(b"/", b"\\/"), escaped)


def _escape(found: re.Match[str]) -> str:
    return re.sub("....", lambda unit: f"\\u{unit[0]}", found[0].encode("utf-16-be").hex().upper())


def _spell_exponents(body: bytes) -> bytes:
    """Write decimals as 1.25E3, or with a zero at their end."""

    def spell(found: re.Match[bytes]) -> bytes:
        if found[1]:
            return found[1]
        value = found[2]
        return value + b"0" if len(value) % 2 else f"{Decimal(value.decode()).scaleb(-3):f}E+3".encode()

    return _DECIMAL.sub(spell, body)


class Dialect(NamedTuple):
    """How a service differs.

    Attributes:
        gap: What the specification leaves open there; two dialects about the same gap exclude each other.
        says: What the service does, for `--dialect help`.
        twists: What happens to every request.
        options: Options of the service that it sets.
        ending: How a run over a list ends, where that is not exit 0 with every value; for `--dialect help`.
    """

    gap: str
    says: str
    twists: tuple[Twist, ...] = ()
    options: Mapping[str, Any] = MappingProxyType({})
    ending: str = ""


_CREDITS = ("x-credits-charged", "x-credits-remaining")
_RATE = ("limit", "remaining", "reset")
_HURRIED = {"requests_per_minute": 6000, "rate_limit_headers": "all"}

DIALECTS: dict[str, Dialect] = {
    # Requests.
    "language-header": Dialect(
        "language header", "takes the language from X-Language; without it names are Dutch",
        (LanguageHeader("x-language"),), {"language": "NL"},
    ),
    "language-default": Dialect(
        "language header", "answers in Dutch whatever the header says", (LanguageHeader(None),), {"language": "NL"},
        ending="names and places are Dutch",
    ),
    "paging-skip-take": Dialect(
        "paging parameters", "calls limit `take` and offset `skip`, and refuses other names",
        (Names({"limit": "take", "offset": "skip"}),),
    ),
    "paging-ignored": Dialect(
        "paging parameters", "calls limit `pageSize`, and ignores names that it does not know",
        (Names({"limit": "pageSize", "offset": "skip"}, "ignored"),),
    ),
    "page-default-one": Dialect(
        "default page size", "answers one record if the request names no limit", options={"page_limit_default": 1},
    ),
    "page-100": Dialect("largest page", "refuses a limit above 100", options={"page_limit_max": 100}),
    "page-clamped": Dialect(
        "largest page", "cuts every page to 3 records and says so only in `pagination.limit`",
        (SmallPages(3, endpoint="financials"),),
    ),
    "total-untold": Dialect(
        "totals", "sends `hasMore` instead of `pagination.total`", (Records(_tell_more),),
    ),
    "total-of-page": Dialect(
        "totals", "counts the records of the page in `pagination.total`", (Records(_count_page),),
        ending="check says so; a run asks for more until a page is not full",
    ),
    "oldest-first": Dialect("item order", "lists the oldest period first", options={"oldest_first": True}),
    "body-short": Dialect(
        "bulk body", "names companies by `country` and `number`, and says which name it expected",
        (Names({"countryCode": "country", "companyNumber": "number"}),),
    ),
    "body-silent": Dialect(
        "bulk body", "calls the array `identifiers`, and refuses anything else without a reason",
        (Names({"companies": "identifiers", "countryCode": "country"}, "refused"),),
    ),
    "companies-20": Dialect(
        "companies in a bulk request", "accepts at most 20 companies in a request",
        options={"companies_per_request": 20},
    ),
    "records-unlimited": Dialect(
        "records in a bulk request", "has no limit on companies x limit", options={"records_per_request": 0},
    ),
    "records-200": Dialect(
        "records in a bulk request", "limits companies x limit to 200", options={"records_per_request": 200},
    ),
    "contacts-names": Dialect(
        "contacts body", "calls the entries of a contacts request `entries`, and a contact `id`",
        (Names({"companyContacts": "entries", "contactId": "id"}),),
    ),
    "zero-required": Dialect(
        "spelling of company numbers", "accepts and sends Belgian numbers only with their leading zero",
        options={"number_spelling": "full", "leading_zero": True},
    ),
    "zero-answered": Dialect(
        "spelling of company numbers", "sends Belgian numbers with their leading zero", options={"leading_zero": True},
    ),
    "number-integers": Dialect(
        "spelling of company numbers", "sends company numbers as JSON numbers", (_each("companyNumber", int),),
    ),
    # Limits, credits, errors.
    "rate-standard": Dialect(
        "rate limit", "states its rate limit in RateLimit headers and Retry-After", options=_HURRIED,
    ),
    "rate-custom": Dialect(
        "rate limit", "states its rate limit in X-Rate-Limit headers",
        (Headers({f"ratelimit-{part}": f"x-rate-limit-{part}" for part in _RATE}),), _HURRIED,
    ),
    "credits-renamed": Dialect(
        "credit headers", "calls the headers Credits-Used and Credits-Left",
        (Headers(dict(zip(_CREDITS, ("credits-used", "credits-left"), strict=True))),),
    ),
    "credits-untold": Dialect("credit headers", "sends no credit headers", (Headers(dict.fromkeys(_CREDITS, "")),)),
    "credits-for-unknown": Dialect(
        "credits", "charges a credit for a company that it does not know", options={"credits_for_unknown": True},
    ),
    "errors-problem": Dialect(
        "whole-request errors", "writes errors as RFC 9457 does",
        (Errors(lambda status, text: {
            "type": "about:blank", "title": "Request failed", "status": status, "detail": text,
        }),),
    ),
    "errors-nested": Dialect(
        "whole-request errors", "puts the message into an object `error`",
        (Errors(lambda status, text: {"error": {"code": f"E{status}", "message": text}}),),
    ),
    "errors-listed": Dialect(
        "whole-request errors", "sends a list of messages, as validators do",
        (Errors(lambda status, text: {"statusCode": status, "message": [text], "error": "Bad Request"}),),
    ),
    "errors-html": Dialect(
        "whole-request errors", "writes errors as an HTML page",
        (Errors(lambda status, text: (
            f"<html><head><title>{status}</title></head><body><p>{text}</p></body></html>".encode()
        )),),
    ),
    "not-found-text": Dialect(
        "company not found", "says `Onderneming onbekend` of a company that it does not know",
        (NotFoundText(_UNKNOWN), _each("message", lambda text: _UNKNOWN if text == _NOT_FOUND else text)),
    ),
    "not-found-404": Dialect(
        "company not found", "answers 404 if all companies of a request are unknown", (_refuse(all),),
    ),
    "not-found-refused": Dialect(
        "company not found", "refuses a request that names an unknown company with 404", (_refuse(any),),
        ending="a run halves requests to find the companies; it needs the message to tell them from a wrong address",
    ),
    "not-found-omitted": Dialect(
        "company not found", "leaves out companies that it does not know",
        (Records(lambda elements: [one for one in elements if "name" in one["identifier"]], endpoint="bulk"),),
        ending="a run asks for them twice more beside a company that was answered",
    ),
    "message-ok": Dialect("answers without records", "says `Done` instead of `OK`", (Records(_say_done),)),
    # Records.
    "nulls-omitted": Dialect("absent keys", "leaves out keys whose value is null", (_omit(None),)),
    "empties-omitted": Dialect("absent keys", "leaves out keys whose value is null or empty", (_omit(None, [], {}),)),
    "fields-added": Dialect("unknown fields", "adds fields to every object", (Records(_add_fields),)),
    "decimal-integers": Dialect(
        "integers", "counts employees in full-time equivalents (12.5), and has a health indicator of 7.5",
        tuple(_each(field, lambda count: count + Decimal("0.5")) for field in ("healthIndicator", "employees")),
        ending="values with decimals are discarded from integer columns, unless [contract] widens them",
    ),
    "numbers-as-text": Dialect(
        "types", "writes amounts and ratios as text",
        tuple(_each(part, _quote) for part in ("profitability", "liquidity", "solvency")),
    ),
    "fractions-100": Dialect(
        "scale of fractions", "sends shares of women and men, and stakes, as percentages, 0 to 100",
        tuple(_each(field, _hundredfold) for field in ("employeeMaleRatio", "employeeFemaleRatio", "percentage")),
    ),
    "scores-100": Dialect("scale of scores", "scores lookalikes from 0 to 100", (_each("score", _hundredfold),)),
    "children-company-id": Dialect(
        "`children` of relationships", "names a child by `companyId`",
        (_name_children(lambda company: {"companyId": company}),),
    ),
    "children-flat": Dialect(
        "`children` of relationships", "names a child by flat `country` and `companyNumber`",
        (_name_children(lambda company: company),),
    ),
    "children-unknown": Dialect(
        "`children` of relationships", "identifies a child only by its own id, `entity`",
        (_name_children(lambda company: {"entity": "-".join(map(str, company.values()))}),),
        ending="children are kept as JSON",
    ),
    "functions-new": Dialect(
        "`function`", "knows functions other than SHAREHOLDER",
        (_each("function", lambda function: {"SHAREHOLDER": "DIRECTOR"}.get(function, "BENEFICIAL_OWNER")),),
    ),
    "health-hundred": Dialect(
        "`healthIndicator`", "counts the health indicator in hundreds",
        (_each("healthIndicator", lambda health: health * 100),),
        ending="health indicators stay a hundred times as large",
    ),
    # What is around and within the JSON.
    "json-pretty": Dialect("JSON", "indents its JSON and sorts keys backwards", (Spelling(_spell_pretty),)),
    "json-escaped": Dialect(
        "JSON", "escapes slashes and all characters outside ASCII", (Spelling(_spell_escaped),),
    ),
    "json-exponents": Dialect(
        "JSON", "writes numbers with exponents and unnecessary zeros", (Spelling(_spell_exponents),),
    ),
    "byte-order-mark": Dialect(
        "JSON", "begins every body with a byte order mark", (Spelling(lambda body: b"\xef\xbb\xbf" + body),),
    ),
    "gzip": Dialect("transfer", "compresses answers without being asked to", (Gzip(),)),
    "chunked": Dialect("transfer", "sends bodies in chunks, without their length", (Chunked(),)),
    "companies-repeated": Dialect(
        "elements", "answers every company twice", (Records(lambda elements: [*elements, *elements]),),
    ),
    "companies-reordered": Dialect("elements", "answers companies in another order", (Elements("reordered"),)),
    # What is not to be had.
    "forbidden": Dialect(
        "endpoints", "forbids relationships (403)",
        (Status(403, "You may not use this", endpoint="relationships"),),
        ending="exit 3: financials and lookalikes are there, relationships are not",
    ),
    "down": Dialect(
        "endpoints", "always answers lookalikes with 500",
        (Status(500, "Internal server error", endpoint="lookalikes"),),
        ending="exit 3: financials and relationships are there, lookalikes are not",
    ),
    "lists-forbidden": Dialect(
        "lists", "forbids the overview of lists (403)", (Status(403, "You may not use this", endpoint="lists"),),
    ),
    "wrapped": Dialect(
        "bulk body", 'wraps bulk answers in an object: {"items": [...]}',
        (Records(lambda elements: {"items": elements}, endpoint="bulk"),),
        ending="no setting helps: check says so, and a run buys nothing more",
    ),
}  # fmt: skip

_COMBINED_SHARE = 0.5
"""Of the gaps, those at which a combination by seed differs from the specification."""


def resolve_dialects(names: Iterable[str]) -> tuple[Dialect, ...]:
    """Find dialects by name, in the order of the table; `seed:7` is a combination, always the same.

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
    return tuple(dialect for name, dialect in DIALECTS.items() if name in found.values())


def _expand(name: str) -> list[str]:
    kind, _, seed = name.partition(":")
    return combine(int(seed)) if kind == "seed" and seed.isdecimal() else [name]


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
    end = "seed:N combines dialects that have no remark in parentheses; a seed always gives the same combination.\n"
    return "\n".join([*lines, "", end])
