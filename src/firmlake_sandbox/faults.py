"""Which scripted faults apply to a request, decided so that the order of concurrent requests changes nothing."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Literal

from msgspec import Meta, Struct

from firmlake_sandbox.contract import name_endpoint
from firmlake_sandbox.numbers import parse_number

_Positive = Annotated[int, Meta(ge=1)]
_Seconds = Annotated[float, Meta(ge=0)]


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """When a fault happens: where all of these hold.

    Attributes:
        endpoint: The request is for this endpoint (`financials.bulk`) or dataset (`financials`); empty: any.
        companies: The request names one of these, such as `BE0403227515`; empty: any. Where the fault changes
            single elements of the answer, it changes theirs.
        nth: It is the n-th request, from 1, that endpoint and companies apply to; empty: any.
        seen: This very request comes for the n-th time, from 1; empty: any. `[1]` fails each request once.
        probability: Decided by a hash of the request's content and how often it came, never by the order of requests.
        seed: Another seed decides otherwise.
        times: The rule has applied fewer times; None: no matter.
    """

    endpoint: str = ""
    companies: tuple[str, ...] = ()
    nth: tuple[_Positive, ...] = ()
    seen: tuple[_Positive, ...] = ()
    probability: Annotated[float, Meta(ge=0, le=1)] = 1.0
    seed: int = 0
    times: _Positive | None = None


class Status(Rule, frozen=True, tag="status"):
    """Answer an error instead of working; with `companies` these are poison.

    Attributes:
        status: The code.
        message: The message.
        headers: Headers to add, such as a Retry-After of any kind.
        retry_after_date: Add a Retry-After that names the date so many seconds ahead.
    """

    status: Annotated[int, Meta(ge=400, le=599)] = 500
    message: str = "Scripted fault"
    headers: dict[str, str] = {}
    retry_after_date: float | None = None


class Redirect(Rule, frozen=True, tag="redirect"):
    """Answer a redirect instead of working."""

    status: Literal[301, 302, 303, 307, 308] = 307
    location: str = "http://127.0.0.1:9/elsewhere"


class Hang(Rule, frozen=True, tag="hang"):
    """Neither work nor answer, until the client gives up."""


class Reset(Rule, frozen=True, tag="reset"):
    """Reset the connection instead of working."""


class ExpireToken(Rule, frozen=True, tag="expire_token"):
    """Refuse the request's token from now on with 401."""


class ExhaustCredits(Rule, frozen=True, tag="exhaust_credits"):
    """Set the balance before working; from then on the service itself answers 402 for what it would have to charge."""

    balance: Annotated[int, Meta(ge=0)] = 0


class ChangeLists(Rule, frozen=True, kw_only=True, tag="change_lists"):
    """Change which lists there are before working, as somebody does who works with them meanwhile.

    Attributes:
        change: `appear`: one more at the end; `vanish`; `front`: it moves before all others.
        list: Which; for `appear` it does not matter.
    """

    change: Literal["appear", "vanish", "front"]
    list: Annotated[int, Meta(ge=0)] = 0


class Delay(Rule, frozen=True, tag="delay"):
    """Wait before working."""

    seconds: _Seconds = 1.0


class Lose(Rule, frozen=True, tag="lose"):
    """Do the work, charge for it, then reset the connection instead of answering."""


class ResetBody(Rule, frozen=True, tag="reset_body"):
    """Reset the connection within the body; `bytes` None: in its middle."""

    bytes: Annotated[int, Meta(ge=0)] | None = None


class Truncate(Rule, frozen=True, tag="truncate"):
    """Close the connection properly, but before all of the body that was announced; `bytes` None: in its middle."""

    bytes: Annotated[int, Meta(ge=0)] | None = None


class Trickle(Rule, frozen=True, tag="trickle"):
    """Send the body in small pieces with a pause before each."""

    bytes: _Positive = 1
    seconds: _Seconds = 0.1


class GzipBomb(Rule, frozen=True, tag="gzip_bomb"):
    """Answer 200 with a small body that inflates to so many megabytes of valid JSON."""

    megabytes: _Positive = 256


class WrongBody(Rule, frozen=True, tag="wrong_body"):
    """Do the work and answer 200 with a body that is none.

    Attributes:
        body: `cut` JSON, an `html` page, `empty`, `null`, an `error` object, an `empty_object`, an `empty_list`, or
            `nested` arrays.
        depth: Of the nested arrays.
    """

    body: Literal["cut", "html", "empty", "null", "error", "empty_object", "empty_list", "nested"] = "cut"
    depth: _Positive = 100_000


class Elements(Rule, frozen=True, tag="elements"):
    """Answer with elements that are not as they should be.

    Attributes:
        anomaly: `missing`; `doubled`; `contradictory`: found, and again not found; `foreign`: a company not asked for
            as well; `swapped`: the data of another company of the request; `reordered`: all in reverse; `message`:
            a message although there is data.
        count: How many elements, where `companies` names none; 0: all.
    """

    anomaly: Literal["missing", "doubled", "contradictory", "foreign", "swapped", "reordered", "message"]
    count: Annotated[int, Meta(ge=0)] = 1


class Totals(Rule, frozen=True, tag="totals"):
    """Announce another total on every page but the first."""

    by: int = 1


class SmallPages(Rule, frozen=True, tag="small_pages"):
    """Return smaller pages than asked for; `is_silent`: while announcing the limit that was asked for."""

    limit: _Positive = 1
    is_silent: bool = False


class Drift(Rule, frozen=True, tag="drift"):
    """Answer with fields that are not as they were.

    Attributes:
        field: Its name in the answer, such as `revenue` or `score`; wherever it is found.
        change: `vanished`; `renamed`: to its name and `V2`; `unknown`: another one, `unheardOf`, beside it; `text`: a
            number in quotes; `literal`: replaced by the JSON text `literal`.
        literal: Any JSON text, for example `1e30`, `12.345`, `null` or `{}`.
        count: In how many elements, where `companies` names none; 0: all.
    """

    field: str
    change: Literal["vanished", "renamed", "unknown", "text", "literal"]
    literal: str = "null"
    count: Annotated[int, Meta(ge=0)] = 1


AnyRule = (
    Status
    | Redirect
    | Hang
    | Reset
    | ExpireToken
    | ExhaustCredits
    | ChangeLists
    | Delay
    | Lose
    | ResetBody
    | Truncate
    | Trickle
    | GzipBomb
    | WrongBody
    | Elements
    | Totals
    | SmallPages
    | Drift
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks.

    Attributes:
        endpoint: Its name in `contract.ENDPOINTS`.
        nodes: The companies it names.
        content: A hash of all that makes it this request.
    """

    endpoint: str
    nodes: frozenset[int]
    content: bytes


class FaultBook:
    """The rules in force, and how often each applied."""

    def __init__(self, rules: tuple[AnyRule, ...] = ()) -> None:
        """Put rules into force."""
        self.rules = rules
        self.applied: Counter[str] = Counter()
        self._companies = [frozenset(map(parse_company, rule.companies)) for rule in rules]
        self._matched = [0] * len(rules)
        self._left = [rule.times for rule in rules]
        self._seen: Counter[bytes] = Counter()

    def find(self, asked: Asked) -> list[tuple[AnyRule, int]]:
        """Return the rules that apply to a request that has just come, each with 64 bits for its own decisions."""
        self._seen[asked.content] += 1
        seen = self._seen[asked.content]
        found = []
        for place, rule in enumerate(self.rules):
            if not _is_for(rule, self._companies[place], asked):
                continue
            self._matched[place] += 1
            bits = _decide(rule.seed, place, asked.content, seen)
            left = self._left[place]
            if (
                (not rule.nth or self._matched[place] in rule.nth)
                and (not rule.seen or seen in rule.seen)
                and bits < rule.probability * 2.0**64
                and left != 0
            ):
                self._left[place] = left and left - 1
                self.applied[_kind(rule)] += 1
                found.append((rule, bits))
        return found


def describe_request(method: str, path: str, query: bytes, body: bytes) -> Asked:
    """Return what a request asks, as far as it can be read."""
    content = blake2b(b"\0".join((method.encode(), path.encode(), query, body)), digest_size=16).digest()
    return Asked(name_endpoint(method, path), frozenset(_list_nodes(path, body)), content)


def parse_company(text: str) -> int:
    """Return the node of a company written as country and number.

    Raises:
        ValueError: No company is called this.
    """
    country, number = text[:2], text[2:]
    node = parse_number(country, number) if country in ("BE", "NL", "FR") and number.isdecimal() else None
    if node is None:
        raise ValueError(f"{text!r} is no company: country and number, such as BE0403227515")
    return node


def _list_nodes(path: str, body: bytes) -> Iterator[int]:
    """Yield the companies that a path or a body names."""
    parts = path.split("/")
    pairs = [(parts[3], parts[4])] if len(parts) == 6 else []
    try:
        content = json.loads(body) if body else {}
        entries = [*content.get("companies", ()), *(one["company"] for one in content.get("companyContacts", ()))]
        pairs += [(one["countryCode"], one["companyNumber"]) for one in entries]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass  # the service itself will refuse it
    for country, number in pairs:
        try:
            yield parse_company(f"{country}{number}")
        except ValueError:
            continue


def _is_for(rule: AnyRule, companies: frozenset[int], asked: Asked) -> bool:
    """Tell whether a rule concerns the endpoint and the companies of a request."""
    is_endpoint = rule.endpoint in ("", asked.endpoint, asked.endpoint.partition(".")[0])
    return is_endpoint and not (companies and companies.isdisjoint(asked.nodes))


def _decide(seed: int, place: int, content: bytes, seen: int) -> int:
    """Return 64 bits that depend on the rule and the request alone."""
    return int.from_bytes(blake2b(b"%d/%d/%d/" % (seed, place, seen) + content, digest_size=8).digest())


def _kind(rule: AnyRule) -> str:
    """Return the kind of a rule, as JSON names it."""
    return str(rule.__struct_config__.tag)
