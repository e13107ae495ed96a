"""Which scripted faults apply to a request, decided so that the order of concurrent requests changes nothing."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

from firmlake_sandbox.contract import name_endpoint
from firmlake_sandbox.numbers import parse_number
from firmlake_sandbox.rules import AnyRule


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
