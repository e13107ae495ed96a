"""Choose the targets of a run, given what is already held, and estimate what they cost.

A list is priced by how many of the companies asked so far the service knew, because it charges for those. How many of
the others it knows is estimated from the companies of the list that were asked already, or from all companies ever
asked if none of the list was. The interval is Wilson's, 95 %.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from itertools import cycle
from math import ceil, floor, sqrt
from typing import Final, NamedTuple

import polars as pl

from firmlake.core.company import COUNTRIES, company_key
from firmlake.core.settings import ApiSettings, Settings
from firmlake.enrich.held import Held
from firmlake.landing.pages import count_pages

ASSUMED_TOTALS = (1, 2, 3, 4, 5, 5, 6, 6, 7, 7, 8, 8, 8, 9, 10, 11, 12, 13, 15, 20)
"""Assumed numbers of records of companies that were never requested: 8 on average, as in the sandbox."""

FAILED = pl.col("has_failed") | pl.col("is_barred")
"""The targets of `redrive`, as a condition on `Held.state` or on targets."""

_KNOWN = pl.col("is_paid") | pl.col("expected_count").is_not_null()
_DUE = ~pl.col("is_fresh") | pl.col("is_refresh") | (pl.col("has_failed") & pl.col("is_paid"))
_FLAGS = ("is_fresh", "is_closing", "is_left_out", "has_failed", "is_barred")
_FROZEN = ("expected_count", "is_paid", "free_until", "is_refresh", "has_failed", "is_barred")


class Estimate(NamedTuple):
    """What a run will cost, estimated before its first request."""

    target_count: int  # companies to request
    request_counts: dict[str, int]  # by dataset; exact without pages, otherwise from known or assumed totals
    credit_count: int  # companies outside their paid window, at one credit each
    minutes: float  # at the allowance; 0 without an allowance
    left_out_count: int  # how many of these requests `max_requests` leaves to a later run
    refresh_count: int = 0  # companies refreshed for free, because they are in the last days of their paid window


def find_targets(
    companies: pl.DataFrame,
    datasets: Sequence[str],
    state: pl.DataFrame,
    paid: pl.DataFrame,
    *,
    max_credits: int,
    shard_companies: int,
    only_failed: bool = False,
) -> pl.DataFrame:
    """Choose the companies and datasets to ask for.

    A company whose records do not fit is requested again while that is free. Outside its paid window, its answer counts
    like any other, because paying again would most likely bring the same records.

    Companies that answers left out are requested again only if others are requested that the service knows: about them
    alone the answer would be an empty array, which proves nothing.

    Args:
        companies: Accepted companies: country, company_number, in list order.
        datasets: The datasets to fetch for each company.
        state: What is held: company (its key), dataset, is_fresh, is_closing, is_left_out, has_failed,
            is_barred, expected_count.
        paid: Companies inside their paid window: company (its key), free_until.
        max_credits: How many companies outside their paid window may be requested; -1 for all. Companies that failed
            or were given up in all datasets come last, because otherwise they could block the others forever.
        shard_companies: Companies per shard.
        only_failed: Choose only what failed, does not fit or was given up, even if it is fresh.

    Returns:
        One row per company and dataset that is not fresh, or that is requested again for free: shard (from 1; 0 if the
        budget leaves the company out), country, company_number, dataset, expected_count, is_paid, free_until (until
        when that holds), is_refresh (fresh, but in the last days of its paid window), has_failed, is_barred; in list
        order.
    """
    is_first = pl.col("order").diff().fill_null(1) != 0  # the rows of a company are adjacent
    is_allowed = pl.lit(value=True)
    if max_credits >= 0:
        is_new, is_last = is_first & ~pl.col("is_paid"), FAILED.all().over("order")
        others = is_new & ~is_last
        rank = pl.when(is_last).then(others.sum() + (is_new & is_last).cum_sum()).otherwise(others.cum_sum())
        is_allowed = pl.col("is_paid") | (rank <= max_credits)
    shard = (is_first & is_allowed).cum_sum().cast(pl.Int32).sub(1) // shard_companies + 1
    targets = (
        _with_held(companies, datasets, state, paid)
        .lazy()
        .with_columns(pl.col("is_paid", *_FLAGS).fill_null(value=False))
        .with_columns(is_refresh=pl.col("is_paid") & pl.col("is_fresh") & pl.col("is_closing"))
        .filter(FAILED if only_failed else _DUE)
        .filter(~pl.col("is_left_out") | _KNOWN.any())
        .select(pl.when(is_allowed).then(shard).otherwise(0).alias("shard"), "order", "dataset", *_FROZEN)
        .collect()
    )
    names = companies.select(pl.col("country").cast(pl.Enum(COUNTRIES)), "company_number")[targets["order"]]
    return pl.concat([targets, names], how="horizontal").select("shard", *names.columns, "dataset", *_FROZEN)


def beside(kept: pl.DataFrame, last_shard: int, targets: pl.DataFrame) -> pl.DataFrame:
    """Add targets, as returned by `find_targets`, to those that an interrupted run keeps, in shards after its last."""
    shard = pl.when(pl.col("shard") > 0).then(pl.col("shard") + last_shard).otherwise(0)
    return pl.concat([kept, targets.with_columns(shard=shard).cast(dict(kept.schema))])  # type: ignore[arg-type]


def estimate(api: ApiSettings, targets: pl.DataFrame, known_totals: Sequence[int], max_requests: int = -1) -> Estimate:
    """Estimate what targets (as returned by `find_targets`; shard 0 costs nothing) will cost.

    Companies without any information have as many records as those already held (`known_totals`), or as
    `ASSUMED_TOTALS` says if there are too few. The run may send `max_requests`; -1 for all.
    """
    asked = targets.lazy().filter(pl.col("shard") > 0)
    totals = cycle(known_totals if len(known_totals) >= len(ASSUMED_TOTALS) else ASSUMED_TOTALS)
    counts: Counter[str] = Counter()
    for dataset in targets["dataset"].unique(maintain_order=True):  # one at a time: there may be millions of rows
        of_dataset = (
            asked.filter(pl.col("dataset") == dataset).select("shard", "is_refresh", "expected_count").collect()
        )
        for _, group in of_dataset.group_by("shard", "is_refresh", maintain_order=True):
            counts[dataset] += count_pages(api, dataset, group["expected_count"], totals)
    unpaid = count_companies(asked.filter(~pl.col("is_paid")))
    sent = counts.total() if max_requests < 0 else min(max_requests, counts.total())
    minutes = sent / api.requests_per_minute if api.requests_per_minute else 0.0
    refreshed = count_companies(asked.filter(pl.col("is_refresh")))
    return Estimate(count_companies(asked), dict(counts), unpaid, minutes, counts.total() - sent, refreshed)


def count_companies(targets: pl.DataFrame | pl.LazyFrame) -> int:
    """Count the companies in targets, where the rows of a company are adjacent (see `find_targets`)."""
    company = pl.struct("country", "company_number")
    return targets.lazy().select(company.rle_id().max() + 1).collect().item() or 0


_Z: Final = 1.959964
_WITHOUT: Final = "lookalikes"


class HitRate(NamedTuple):
    """How many of the companies that were asked the service knows."""

    hit_count: int
    asked_count: int  # companies that it knew or did not know; companies that failed count as neither
    low: float  # lower bound of the share of companies that it knows, at 95 %
    high: float  # upper bound


class Price(NamedTuple):
    """What a list costs, or a cheaper part of it."""

    cut: str  # what is fetched
    how: str  # what restricts a run to it: an option, or a shorter list; empty for the whole list
    target_count: int  # companies to request
    request_count: int  # about
    minutes: float  # at the allowance
    low: int  # credits, if the true hit rate is the lower bound of its interval
    expected: int | None  # credits, at the observed hit rate; None if no company was asked yet
    worst: int  # credits, if the service charges for every company outside its paid window

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

    Targets are as returned by `find_targets`, without a budget or with one, which is ignored.
    """
    # There may be millions of rows: a cut differs only in its shards, of which 0 costs nothing, and the rest is shared.
    company = company_key().alias("company")
    earlier = held.state.lazy().group_by("company").agg(pl.col("is_bought").any(), pl.col("is_not_found").any())
    told = earlier.join(companies.lazy().select(company), on="company", how="semi")
    is_unknown = ~pl.col("is_bought") & pl.col("is_not_found")
    known, unknown = told.select(pl.col("is_bought").sum(), is_unknown.sum().alias("unknown")).collect().row(0)
    hit_count, miss_count = held.hits[0] + known, held.hits[1] + unknown
    rate = hit_rate_of(hit_count, hit_count + miss_count)
    facts = targets.lazy().select(company).join(earlier, on="company", how="left", maintain_order="left")
    rows = targets.hstack(facts.select("is_bought", "is_not_found").collect())
    cuts = {"everything due": ("", pl.lit(value=True))}
    if len(left := [name for name in settings.run.datasets if name != _WITHOUT]) < len(settings.run.datasets) and left:
        cuts[f"without {_WITHOUT}"] = (f"--set run.datasets={','.join(left)}", pl.col("dataset") != _WITHOUT)
    cuts["only companies never fetched"] = ("--set run.refresh_after_days=36500", pl.col("is_bought").is_null())
    countries = targets["country"].cast(pl.String).unique().sort()
    for country in countries if len(countries) > 1 else []:
        cuts[f"only {country}"] = ("with a list of these lines", pl.col("country") == country)
    shard = pl.max_horizontal("shard", pl.lit(1, pl.Int32))
    priced = [
        _price(settings, rate, held.totals, cut, how, rows.with_columns(shard=pl.when(rule).then(shard).otherwise(0)))
        for cut, (how, rule) in cuts.items()
    ]
    whole = priced[0]
    return rate, [whole, *(each for each in priced[1:] if each[2:] != whole[2:] and each.target_count)]


def _price(
    settings: Settings, rate: HitRate, totals: Sequence[int], cut: str, how: str, targets: pl.DataFrame
) -> Price:
    cost = estimate(settings.api, targets, totals)
    unpaid = targets.lazy().filter(pl.col("shard") > 0, ~pl.col("is_paid"))
    known = count_companies(unpaid.filter(pl.col("is_bought")))
    new = count_companies(unpaid.filter(pl.col("is_bought").is_null() | ~pl.col("is_bought") & ~pl.col("is_not_found")))
    return Price(
        cut,
        how,
        cost.target_count,
        sum(cost.request_counts.values()),
        round(cost.minutes, 2),
        known + floor(new * rate.low),
        known + ceil(new * rate.hit_count / rate.asked_count) if rate.asked_count else None,
        cost.credit_count,
    )


def _with_held(
    companies: pl.DataFrame, datasets: Sequence[str], state: pl.DataFrame, paid: pl.DataFrame
) -> pl.DataFrame:
    """Join each company (as its `order` in the list) and dataset with what is held.

    There may be millions of rows. Integer keys and one join per dataset avoid several copies in memory.
    """
    window = paid.lazy().with_columns(is_paid=True)
    listed = companies.lazy().select(company_key().alias("company")).with_row_index("order")
    listed = listed.join(window, on="company", how="left", maintain_order="left").collect().lazy()
    parts = []
    for dataset in datasets:
        held = state.lazy().filter(pl.col("dataset") == dataset).select("company", *_FLAGS, "expected_count")
        joined = listed.join(held, on="company", how="left", maintain_order="left")
        name = pl.lit(dataset, pl.Enum(datasets)).alias("dataset")
        parts.append(joined.select("order", name, "is_paid", "free_until", *_FLAGS, "expected_count").collect())
    places = pl.int_range(companies.height * len(datasets), eager=True, dtype=pl.UInt32)
    return pl.concat(parts)[places % len(datasets) * companies.height + places // len(datasets)]
