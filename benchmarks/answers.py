"""What the fast service says of a company: one of some thousand companies of the sandbox, chosen by the number alone.

So the service has all its answers ready as bytes, and whoever knows the numbers that were asked for knows what the
tables must hold: how many rows, and the sums of their columns.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple

import msgspec

from firmlake_sandbox.dialects import resolve_dialects
from firmlake_sandbox.financials import list_financials
from firmlake_sandbox.numbers import parse_number, sample_numbers
from firmlake_sandbox.related import list_lookalikes, list_relationships
from firmlake_sandbox.twists import rewrite_body
from firmlake_sandbox.world import World, identify, is_found

__all__ = ["POOL", "Answers", "Totals", "expected_totals"]

POOL = 4_999
_UNKNOWN_ONE_IN = 50
_CHANGED_ONE_IN = 20
_MIX = 0x9E3779B1


class Totals(msgspec.Struct, frozen=True, eq=True):
    """What tables must hold: rows, and sums in whole units of the last decimal (cents, millionths)."""

    companies: int = 0
    not_found: int = 0
    financials: int = 0
    joint_committees: int = 0
    lookalikes: int = 0
    relationships: int = 0
    revenue_cents: int = 0
    net_profit_cents: int = 0
    total_assets_cents: int = 0
    stake_millionths: int = 0


class _Sample(NamedTuple):
    """One company of the sandbox, as JSON; `ends` are whole elements but for the number they begin with."""

    name_and_place: bytes
    periods: list[bytes]
    lookalikes: bytes
    relationships: bytes
    ends: dict[tuple[str, int, int], bytes]


class Answers:
    """Answers for any company number.

    Args:
        pool: How many different companies there are to choose from.
        week: In week 1, 5 % of the companies say something else than in week 0.
        dialect: Name of a dialect of the sandbox in which records are said; empty for the one that is specified.
    """

    def __init__(self, pool: int = POOL, week: int = 0, dialect: str = "") -> None:
        world = World()
        nodes = (parse_number(*company) for company in sample_numbers(2 * pool))
        found = [node for node in nodes if node is not None and is_found(world, node)][:pool]
        self._samples = [_sample(world, node, dialect) for node in found]
        self._week = week

    def body(self, dataset: str, companies: Iterable[tuple[str, str]], limit: int, offset: int) -> bytes:
        """Return the body of a bulk answer: an element for each (country, number), in the order asked for."""
        parts = []
        for country, number in companies:
            place = self._place(number)
            end = _MISSING[dataset] if place is None else _end(self._samples[place], dataset, limit, offset)
            parts.append(f'{{"identifier":{{"country":"{country}","companyNumber":"{number}"'.encode() + end)
        return b"[" + b",".join(parts) + b"]"

    def totals(self, number: str) -> Totals:
        """Return what one company adds to the tables."""
        place = self._place(number)
        if place is None:
            return Totals(companies=1, not_found=1)
        sample = self._samples[place]
        periods = [json.loads(period, parse_float=Decimal, parse_int=Decimal) for period in sample.periods]
        related = json.loads(sample.relationships, parse_float=Decimal, parse_int=Decimal)
        parties = [*related["parents"], *related["children"]]
        return Totals(
            companies=1,
            financials=len(periods),
            joint_committees=sum(len(period.get("jointCommitteeCodes") or ()) for period in periods),
            lookalikes=len(json.loads(sample.lookalikes)),
            relationships=len(parties),
            revenue_cents=_sum(100, (period["profitability"].get("revenue") for period in periods)),
            net_profit_cents=_sum(100, (period["profitability"].get("netProfit") for period in periods)),
            total_assets_cents=_sum(100, (period["solvency"].get("totalAssets") for period in periods)),
            stake_millionths=_sum(1_000_000, (party.get("percentage") for party in parties)),
        )

    def kind(self, number: str) -> int:
        """Return a number that is the same for companies with the same answers."""
        place = self._place(number)
        return -1 if place is None else place

    def _place(self, number: str) -> int | None:
        mixed = int(number) * _MIX & 0xFFFFFFFF
        if mixed % _UNKNOWN_ONE_IN == 0:
            return None
        return ((mixed >> 8) + self._week * (mixed % _CHANGED_ONE_IN == 1)) % len(self._samples)


def expected_totals(answers: Answers, companies: Iterable[tuple[str, str]]) -> Totals:
    """Add up what tables must hold after these companies were asked for, each once."""
    sums: Counter[str] = Counter()
    numbers: dict[int, str] = {}
    counts: Counter[int] = Counter()
    for _, number in companies:
        kind = answers.kind(number)
        counts[kind] += 1
        numbers[kind] = number
    for kind, count in counts.items():
        for name, value in msgspec.structs.asdict(answers.totals(numbers[kind])).items():
            sums[name] += value * count
    return Totals(**sums)


# ---------------------------------------------------------------------------------------------------------------------

_MISSING = {
    "financials": b'},"data":null,"pagination":null,"message":"Company not found"}',
    "lookalikes": b'},"data":null,"message":"Company not found"}',
    "relationships": b'},"data":null,"message":"Company not found"}',
}


def _sample(world: World, node: int, dialect: str) -> _Sample:
    identifier = identify(world, node, "EN")
    encode = msgspec.json.encode
    periods, _ = list_financials(world, node, 500, 0)
    data = {
        "financials": encode(periods),
        "lookalikes": encode(list_lookalikes(world, node)),
        "relationships": encode(list_relationships(world, node, "EN")),
    }
    twists = [(twist, 0) for one in resolve_dialects([dialect] if dialect else []) for twist in one.twists]
    for dataset, records in data.items():
        body = rewrite_body(twists, b'{"data":%b}' % records)
        data[dataset] = bytes(msgspec.json.decode(body, type=dict[str, msgspec.Raw])["data"])
    return _Sample(
        b',"name":%b,"place":%b}' % (encode(identifier["name"]), encode(identifier["place"])),
        [bytes(period) for period in msgspec.json.decode(data["financials"], type=list[msgspec.Raw])],
        data["lookalikes"],
        data["relationships"],
        {},
    )


def _end(sample: _Sample, dataset: str, limit: int, offset: int) -> bytes:
    key = (dataset, limit, offset)
    if key not in sample.ends:
        page = b""
        data = sample.lookalikes if dataset == "lookalikes" else sample.relationships
        if dataset == "financials":
            data = b"[%b]" % b",".join(sample.periods[offset : offset + limit])
            page = b'"pagination":{"limit":%d,"offset":%d,"total":%d},' % (limit, offset, len(sample.periods))
        sample.ends[key] = b'%b,"data":%b,%b"message":null}' % (sample.name_and_place, data, page)
    return sample.ends[key]


def _sum(factor: int, values: Iterable[Decimal | str | None]) -> int:
    return int(sum(Decimal(value) for value in values if value is not None) * factor)
