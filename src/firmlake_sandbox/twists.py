"""Twists: what the service does otherwise than it should, to a request, to an answer or on the connection.

A twist applies to the requests that its conditions name, and acts at some of five points: before the work, on the
request, on the elements of the answer, on the answer as a whole, in sending it. Faults are the kinds of twists that
tests script; a dialect (`firmlake_sandbox.dialects`) is a few twists without conditions. Adding a fault is adding a
class here, with its fields, to `FAULTS`.
"""

import asyncio
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, reduce
from hashlib import blake2b
from itertools import chain, repeat
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from firmlake_sandbox.contract import name_endpoint
from firmlake_sandbox.numbers import COUNTRIES, parse_number
from firmlake_sandbox.wire import Answer, Call, GoneError, Line, RefusedError, error_answer, read_json, write_json

if TYPE_CHECKING:
    from firmlake_sandbox.state import State

Object = dict[str, Any]
_Positive = Annotated[int, Meta(ge=1)]
_Count = Annotated[int, Meta(ge=0)]
_Seconds = Annotated[float, Meta(ge=0)]


class Exchange(NamedTuple):
    """A request, and what a twist may act on before it is answered."""

    state: "State"
    token: str
    call: Call
    line: Line


def _name_kind(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


class Twist(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag=_name_kind):
    """Something that happens to requests for which all of these conditions hold."""

    endpoint: str = ""  # the request is for this endpoint (`financials.bulk`) or a part of its name; empty: any
    # The request names one of these, such as BE0403227515; empty: any. Twists of single elements change only theirs.
    companies: tuple[str, ...] = ()
    nth: tuple[_Positive, ...] = ()  # it is the n-th request, from 1, that endpoint and companies apply to; empty: any
    # Decided by a hash of the request's content and how often it came, never by the order of requests.
    probability: Annotated[float, Meta(ge=0, le=1)] = 1.0
    seed: int = 0  # another seed decides otherwise
    times: _Positive | None = None  # the twist has applied fewer times; None: no matter
    rank: ClassVar[int] = 0
    """In which order twists change an answer as a whole: errors are worded, JSON is spelled, bodies are replaced and
    compressed, headers are named."""

    def is_for(self, endpoint: str) -> bool:
        """Tell whether it concerns an endpoint."""
        return self.endpoint in ("", endpoint, *endpoint.split("."))

    async def before(self, exchange: Exchange) -> Answer | None:
        """Do something before the work; an answer takes the place of it."""
        return None

    def translate(self, call: Call) -> Call:
        """Return the request as the service reads it."""
        return call

    def rewrite(self, elements: list[Object], bits: int) -> Any:
        """Return the elements of a successful answer, which it may change in place; a single endpoint has only one.

        `bits` are 64 for decisions of its own.
        """
        return elements

    def finish(self, answer: Answer) -> Answer:
        """Return the answer as it is sent."""
        return answer

    async def send(self, answer: Answer, line: Line) -> None:
        """Send the answer."""
        await line.send(answer)


class Status(Twist, frozen=True):
    """Answer an error, or a redirect with its headers, instead of working; with `companies` these are poison."""

    status: Annotated[int, Meta(ge=300, le=599)] = 500
    message: str = "Scripted fault"
    headers: dict[str, str] = {}

    async def before(self, exchange: Exchange) -> Answer:
        return error_answer(self.status, self.message, self.headers)


class Hang(Twist, frozen=True):
    """Neither work nor answer, until the client gives up."""

    async def before(self, exchange: Exchange) -> None:
        await exchange.line.wait_for_end()


class Reset(Twist, frozen=True):
    """Reset the connection instead of working."""

    async def before(self, exchange: Exchange) -> None:
        await exchange.line.reset()


class ExpireToken(Twist, frozen=True):
    """Refuse the request's token from now on with 401."""

    async def before(self, exchange: Exchange) -> Answer:
        exchange.state.expired.add(exchange.token)
        return error_answer(401, "Access token has expired")


class ExhaustCredits(Twist, frozen=True):
    """Set the balance before working; from then on the service itself answers 402 for what it would have to charge."""

    balance: _Count = 0

    async def before(self, exchange: Exchange) -> None:
        exchange.state.account.balance = self.balance


class ChangeLists(Twist, frozen=True):
    """Change which lists there are before working, as somebody does who works with them meanwhile.

    `appear`: one more at the end; `vanish`; `front`: it moves before all others. `appear` needs no `list`.
    """

    change: Literal["appear", "vanish", "front"]
    list: _Count = 0

    async def before(self, exchange: Exchange) -> None:
        exchange.state.lists.change(self.change, self.list)


class Delay(Twist, frozen=True):
    """Wait before working."""

    seconds: _Seconds = 1.0

    async def before(self, exchange: Exchange) -> None:
        await asyncio.sleep(self.seconds)


class Elements(Twist, frozen=True):
    """Answer with elements that are not as they should be.

    `contradictory`: found, and again not found; `foreign`: a company not asked for as well; `reordered`: in reverse;
    `message`: a message although there is data.
    """

    anomaly: Literal["missing", "doubled", "contradictory", "foreign", "reordered", "message"]
    count: _Count = 1  # how many elements, where `companies` names none; 0: all

    def rewrite(self, elements: list[Object], bits: int) -> list[Object]:
        chosen = _choose(self.companies, self.count, elements, bits)
        if self.anomaly == "missing":
            return [element for place, element in enumerate(elements) if place not in chosen]
        if self.anomaly == "reordered":
            return elements[::-1]
        for place in chosen:
            element = elements[place]
            if self.anomaly == "message":
                element["message"] = "Answered in part"
            else:
                elements.append(element | _ADDED[self.anomaly])
        return elements


_ADDED: dict[str, Object] = {
    "doubled": {},
    "contradictory": {"data": None, "message": "Company not found"},
    "foreign": {"identifier": {"country": "NL", "companyNumber": "99999999", "name": "Elders B.V.", "place": "Elders"}},
}
"""What differs in the element that is added for one."""


class Totals(Twist, frozen=True):
    """Announce another total on every page but the first."""

    by: int = 1

    def rewrite(self, elements: list[Object], bits: int) -> list[Object]:
        for page in pages(elements):
            page["pagination"]["total"] += self.by if page["pagination"]["offset"] else 0
        return elements


class SmallPages(Twist, frozen=True):
    """Return smaller pages than asked for; `is_silent`: while announcing the limit that was asked for."""

    limit: _Positive = 1
    is_silent: bool = False

    def rewrite(self, elements: list[Object], bits: int) -> list[Object]:
        for page in pages(elements):
            page["data"] = page["data"][: self.limit]
            if not self.is_silent:
                page["pagination"]["limit"] = min(self.limit, page["pagination"]["limit"])
        return elements


class Drift(Twist, frozen=True):
    """Answer with fields that are not as they were.

    `renamed`: to its name and `V2`; `unknown`: another one, `unheardOf`, beside it; `text`: a number in quotes;
    `literal`: replaced by the JSON text `literal`.
    """

    field: str  # its name in the answer, such as `revenue` or `score`; wherever it is found
    change: Literal["vanished", "renamed", "unknown", "text", "literal"]
    literal: str = "null"  # any JSON text, for example `1e30`, `12.345`, `null` or `{}`
    count: _Count = 1  # in how many elements, where `companies` names none; 0: all

    def rewrite(self, elements: list[Object], bits: int) -> list[Object]:
        for place in _choose(self.companies, self.count, elements, bits):
            for holder in objects(elements[place]):
                if self.field in holder:
                    _DRIFTS[self.change](holder, self.field, self.literal)
        return elements


_DRIFTS: dict[str, Callable[[Object, str, str], object]] = {
    "vanished": lambda holder, field, _: holder.pop(field),
    "renamed": lambda holder, field, _: holder.update({f"{field}V2": holder.pop(field)}),
    "unknown": lambda holder, _, __: holder.update(unheardOf={"since": "2026-11", "values": [1, None]}),
    "text": lambda holder, field, _: holder.update({field: str(holder[field])}),
    "literal": lambda holder, field, literal: holder.update({field: msgspec.Raw(literal.encode())}),
}


class WrongBody(Twist, frozen=True):
    """Do the work and answer 200 with a body that is none; `cut` is half the JSON, `depth` is of the nested arrays."""

    body: Literal["cut", "html", "empty", "null", "error", "empty_object", "empty_list", "nested"] = "cut"
    depth: _Positive = 100_000
    rank = 3

    def finish(self, answer: Answer) -> Answer:
        if answer.status != 200:
            return answer
        if self.body == "html":
            html = b"<!DOCTYPE html><html><body><h1>We'll be right back</h1></body></html>"
            return Answer(200, {**answer.headers, "content-type": "text/html; charset=utf-8"}, html)
        bodies = {
            "cut": answer.body[: len(answer.body) // 2],
            "empty": b"",
            "null": b"null",
            "error": b'{"status":500,"message":"Internal server error"}',
            "empty_object": b"{}",
            "empty_list": b"[]",
            "nested": b"[" * self.depth + b"]" * self.depth,
        }
        return answer._replace(body=bodies[self.body])


class GzipBomb(Twist, frozen=True):
    """Answer 200 with a small body that inflates to so many megabytes of valid JSON."""

    megabytes: _Positive = 256
    rank = 3

    def finish(self, answer: Answer) -> Answer:
        if answer.status != 200:
            return answer
        return answer._replace(headers={**answer.headers, "content-encoding": "gzip"}, body=_bomb(self.megabytes))


@lru_cache(maxsize=2)
def _bomb(megabytes: int) -> bytes:
    """Return `[`, so many megabytes of blanks and `]`, as gzip; 256 take a second."""
    packer = zlib.compressobj(1, wbits=zlib.MAX_WBITS | 16)
    parts = chain([b"["], repeat(b" " * 1_000_000, megabytes), [b"]"])
    return b"".join(map(packer.compress, parts)) + packer.flush()


class Lose(Twist, frozen=True):
    """Do the work, charge for it, then reset the connection instead of answering."""

    async def send(self, answer: Answer, line: Line) -> None:
        await line.reset()


class _Part(Twist, frozen=True):
    """Send a beginning of the body; `bytes` None: its first half."""

    bytes: _Count | None = None

    async def send(self, answer: Answer, line: Line) -> None:
        await line.begin(answer)
        await line.send_part(answer.body[: len(answer.body) // 2 if self.bytes is None else self.bytes])


class ResetBody(_Part, frozen=True):
    """Reset the connection within the body; `bytes` None: in its middle."""

    async def send(self, answer: Answer, line: Line) -> None:
        await super().send(answer, line)
        await line.reset()


class Truncate(_Part, frozen=True):
    """Close the connection properly, but before all of the body that was announced; `bytes` None: in its middle."""

    async def send(self, answer: Answer, line: Line) -> None:
        await super().send(answer, line)
        raise GoneError


class Trickle(Twist, frozen=True):
    """Send the body in small pieces with a pause before each."""

    bytes: _Positive = 1
    seconds: _Seconds = 0.1

    async def send(self, answer: Answer, line: Line) -> None:
        await line.begin(answer)
        for start in range(0, len(answer.body), self.bytes):
            await asyncio.sleep(self.seconds)
            await line.send_part(answer.body[start : start + self.bytes])
        await line.end()


FAULTS: tuple[type[Twist], ...] = (
    Status, Hang, Reset, Delay, ExpireToken, ExhaustCredits, ChangeLists,
    Elements, Totals, SmallPages, Drift, WrongBody, GzipBomb,
    Lose, ResetBody, Truncate, Trickle,
)  # fmt: skip
"""The kinds that can be scripted."""
AnyFault: Any = reduce(or_, FAULTS)

Applied = list[tuple[Twist, int]]
"""Twists that apply to a request, each with 64 bits for its own decisions."""


async def work_twisted(exchange: Exchange, applied: Applied, work: Callable[[Call], Answer]) -> Answer:
    """Answer a request as the twists have it, faults first, up to the answer as a whole; `work` answers properly.

    Raises GoneError if a twist, or the client, has ended the connection.
    """
    for twist, _ in applied:
        if early := await twist.before(exchange):
            return early
    call, headers = exchange.call, {}
    try:
        for twist, _ in applied:
            call = twist.translate(call)
        answer = work(call)
        headers = answer.headers
        return answer._replace(body=rewrite_body(applied, answer.body)) if answer.status == 200 else answer
    except RefusedError as error:
        return error_answer(error.status, error.message, headers)


async def send_twisted(line: Line, applied: Applied, answer: Answer) -> None:
    """Send an answer as the twists have it, or raise GoneError if a twist, or the client, has ended the connection."""
    for twist, _ in sorted(applied, key=lambda one: one[0].rank):
        answer = twist.finish(answer)
    sender = next((twist for twist, _ in applied if _overrides(twist, "send")), Twist())
    await sender.send(answer, line)


def rewrite_body(applied: Applied, body: bytes) -> bytes:
    """Return the body of a successful answer with its elements as the twists have them."""
    rewriting = [(twist, bits) for twist, bits in applied if _overrides(twist, "rewrite")]
    if not rewriting:
        return body
    content = read_json(body)
    elements = content if isinstance(content, list) else [content]
    for twist, bits in rewriting:
        elements = twist.rewrite(elements, bits)
    is_single = isinstance(elements, list) and not isinstance(content, list)
    return write_json((elements or [None])[-1] if is_single else elements)


def _overrides(twist: Twist, point: str) -> bool:
    return getattr(type(twist), point) is not getattr(Twist, point)


def pages(elements: Iterable[Object]) -> Iterator[Object]:
    """Yield the elements that are pages."""
    return (element for element in elements if element.get("pagination"))


def objects(value: Any) -> Iterator[Object]:
    """Yield every object within a value, itself included, the innermost first."""
    if isinstance(value, dict):
        for inner in list(value.values()):
            yield from objects(inner)
        yield value
    elif isinstance(value, list):
        for inner in value:
            yield from objects(inner)


def _choose(companies: tuple[str, ...], count: int, elements: list[Object], bits: int) -> list[int]:
    """Return the places of these companies, or else of so many drawn elements that have any data."""
    if companies:
        wanted = set(map(parse_company, companies))
        return [place for place, element in enumerate(elements) if _node_of(element) in wanted]
    filled = [place for place, one in enumerate(elements) if one.get("data", True)]  # contacts answers have no data
    start = bits % (len(filled) or 1)
    return (filled[start:] + filled[:start])[: count or None]


def _node_of(element: Object) -> int | None:
    """Return the company an element is about, None where it is about none."""
    identifier = element.get("identifier") or {}
    try:
        return parse_company(identifier["country"] + identifier["companyNumber"])
    except (KeyError, ValueError):
        return None


class FaultBook:
    """The faults in force, and how often each applied; the order of concurrent requests changes nothing."""

    def __init__(self, rules: tuple[Twist, ...] = ()) -> None:
        self.rules = rules
        self.applied: Counter[str] = Counter()
        self._companies = [frozenset(map(parse_company, rule.companies)) for rule in rules]
        self._matched = [0] * len(rules)
        self._left = [rule.times for rule in rules]
        self._seen: Counter[bytes] = Counter()

    def find(self, call: Call) -> Applied:
        """Return the faults that apply to a request that has just come."""
        if not self.rules:
            return []
        endpoint, nodes = name_endpoint(call.method, call.path), frozenset(_list_nodes(call))
        content = b"\0".join((call.method.encode(), call.path.encode(), call.query, call.body))
        content = blake2b(content, digest_size=16).digest()
        self._seen[content] += 1
        seen, found = self._seen[content], []
        for place, rule in enumerate(self.rules):
            companies = self._companies[place]
            if not rule.is_for(endpoint) or (companies and companies.isdisjoint(nodes)):
                continue
            self._matched[place] += 1
            bits = blake2b(b"%d/%d/%d/" % (rule.seed, place, seen) + content, digest_size=8).digest()
            is_drawn = int.from_bytes(bits) < rule.probability * 2.0**64
            is_turn = self._matched[place] in rule.nth if rule.nth else True
            left = self._left[place]
            if is_turn and is_drawn and left != 0:
                self._left[place] = left and left - 1
                self.applied[str(rule.__struct_config__.tag)] += 1
                found.append((rule, int.from_bytes(bits)))
        return found


def parse_company(text: str) -> int:
    """Return the node of a company written as country and number."""
    country, number = text[:2], text[2:]
    node = parse_number(country, number) if country in COUNTRIES and number.isdecimal() else None
    if node is None:
        raise ValueError(f"{text!r} is no company: country and number, such as BE0403227515")
    return node


def _list_nodes(call: Call) -> Iterator[int]:
    """Yield the companies that a path or a body names, as far as it can be read."""
    parts = call.path.split("/")
    pairs = [(parts[3], parts[4])] if len(parts) == 6 else []
    try:
        content = json.loads(call.body) if call.body else {}
        entries = [*content.get("companies", ()), *(one["company"] for one in content.get("companyContacts", ()))]
        pairs += [(one["countryCode"], one["companyNumber"]) for one in entries]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass  # the service itself will refuse it
    for country, number in pairs:
        try:
            yield parse_company(f"{country}{number}")
        except ValueError:
            continue
