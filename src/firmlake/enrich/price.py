"""Price a list: what its companies will probably cost, judged by how many of those asked so far the service knew.

The service charges for companies that it knows. How many of the others it knows is estimated from the companies of the
list that were asked already, or from all companies ever asked if none of the list was. The interval is Wilson's, 95 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from math import ceil, floor, sqrt
from typing import Final, NamedTuple

import polars as pl

from firmlake.core.keys import company_key
from firmlake.core.settings import Settings
from firmlake.enrich.held import Held
from firmlake.enrich.targets import count_companies, estimate

_Z: Final = 1.959964
_WITHOUT: Final = "lookalikes"


class HitRate(NamedTuple):
    """How many of the companies that were asked the service knows.

    Attributes:
        hit_count: Companies that it knew.
        asked_count: Companies that it knew or did not know; companies that failed count as neither.
        low: Lower bound of the share of companies that it knows, at 95 %.
        high: Upper bound.
    """

    hit_count: int
    asked_count: int
    low: float
    high: float


class Price(NamedTuple):
    """What a list costs, or a cheaper part of it.

    Attributes:
        cut: What is fetched.
        how: What restricts a run to it: an option, or a shorter list; empty for the whole list.
        target_count: Companies to request.
        request_count: Requests, about.
        minutes: Duration at the allowance.
        low: Credits, if the true hit rate is the lower bound of its interval.
        expected: Credits, at the observed hit rate; None if no company was asked yet.
        worst: Credits, if the service charges for every company outside its paid window.
    """

    cut: str
    how: str
    target_count: int
    request_count: int
    minutes: float
    low: int
    expected: int | None
    worst: int

    def in_money(self, credit_price: str) -> list[str]:
        """Convert low, expected and worst into money, at a price such as "0.12 EUR"; empty if it is unknown."""
        amount, _, currency = credit_price.partition(" ")
        counts = [self.low, self.worst] if self.expected is None else [self.low, self.expected, self.worst]
        return [f"{count * Decimal(amount):,.2f} {currency}" for count in counts] if amount else []


def hit_rate_of(hit_count: int, asked_count: int) -> HitRate:
    """Compute the interval of a hit rate after Wilson.

    Example:
        >>> [round(bound, 3) for bound in hit_rate_of(45, 50)[2:]]
        [0.786, 0.957]
    """
    if not asked_count:
        return HitRate(0, 0, 0.0, 1.0)
    share, weight = hit_count / asked_count, _Z**2 / asked_count
    middle = (share + weight / 2) / (1 + weight)
    reach = _Z * sqrt(share * (1 - share) / asked_count + weight / (4 * asked_count)) / (1 + weight)
    return HitRate(hit_count, asked_count, max(0.0, middle - reach), min(1.0, middle + reach))


def price_cuts(
    settings: Settings, companies: pl.DataFrame, targets: pl.DataFrame, held: Held
) -> tuple[HitRate, list[Price]]:
    """Price the targets of a list, then the cheaper cuts that would leave some of them out.

    Args:
        settings: The datasets, and the limits of the service.
        companies: The companies of the list: country, company_number.
        targets: As returned by `find_targets`, without a budget or with one, which is ignored.
        held: What earlier answers come to.
    """
    earlier = held.state.group_by("company").agg(pl.col("is_bought").any(), pl.col("is_not_found").any())
    listed = earlier.join(companies.select(company_key().alias("company")), on="company", how="semi")
    rate = next((rate for frame in (listed, earlier) if (rate := _rate(frame)).asked_count), hit_rate_of(0, 0))
    rows = targets.with_columns(company_key().alias("company"), shard=pl.max_horizontal("shard", pl.lit(1)))
    rows = rows.join(earlier, on="company", how="left", maintain_order="left")
    cuts = {"everything due": ("", pl.lit(value=True))}
    if len(left := [name for name in settings.run.datasets if name != _WITHOUT]) < len(settings.run.datasets) and left:
        cuts[f"without {_WITHOUT}"] = (f"--set run.datasets={','.join(left)}", pl.col("dataset") != _WITHOUT)
    cuts["only companies never fetched"] = ("--set run.refresh_after_days=36500", pl.col("is_bought").is_null())
    countries = targets["country"].cast(pl.String).unique().sort()
    for country in countries if len(countries) > 1 else []:
        cuts[f"only {country}"] = ("with a list of these lines", pl.col("country") == country)
    priced = [_price(settings, rate, held.totals, cut, how, rows.filter(rule)) for cut, (how, rule) in cuts.items()]
    whole = priced[0]
    return rate, [whole, *(each for each in priced[1:] if each[2:] != whole[2:] and each.target_count)]


def _rate(earlier: pl.DataFrame) -> HitRate:
    hits = earlier.filter("is_bought").height
    return hit_rate_of(hits, hits + earlier.filter(~pl.col("is_bought") & pl.col("is_not_found")).height)


def _price(
    settings: Settings, rate: HitRate, totals: Sequence[int], cut: str, how: str, targets: pl.DataFrame
) -> Price:
    cost = estimate(settings.api, targets, totals)
    unpaid = targets.filter(~pl.col("is_paid"))
    known = count_companies(unpaid.filter(pl.col("is_bought")))
    new = count_companies(unpaid.filter(pl.col("is_bought").is_null() | ~pl.col("is_bought") & ~pl.col("is_not_found")))
    return Price(
        cut,
        how,
        count_companies(targets),
        sum(cost.request_counts.values()),
        round(cost.minutes, 2),
        known + floor(new * rate.low),
        known + ceil(new * rate.hit_count / rate.asked_count) if rate.asked_count else None,
        cost.credit_count,
    )
