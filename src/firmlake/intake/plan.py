"""What to ask for: the requests a company list costs, shaped so that they are as few as its records allow."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle, islice
from typing import NamedTuple

import polars as pl

from firmlake.api.contract import DATASETS
from firmlake.company import COUNTRIES, Company
from firmlake.intake.key import company_key
from firmlake.settings import ApiSettings

__all__ = ["Estimate", "Page", "Wanted", "count_companies", "estimate", "find_targets", "plan_pages"]

ASSUMED_TOTALS = (1, 2, 3, 4, 5, 5, 6, 6, 7, 7, 8, 8, 8, 9, 10, 11, 12, 13, 15, 20)
"""Records of a company of which nothing is known: 8 on average, as the embedded service has it."""


_COUNTED = ("expected_count", "remaining_count")
_HELD = ("is_fresh", "has_failed", "expected_count", "held_hash")
_FROZEN = ("expected_count", "is_paid", "has_failed", "held_hash")


class Wanted(NamedTuple):
    """The next records wanted of a company.

    Attributes:
        offset: Records held already.
        remaining: Records still to come; None where nobody knows yet.
        expected: Then the number an earlier run found, or None.
    """

    company: Company
    offset: int = 0
    remaining: int | None = None
    expected: int | None = None


class Page(NamedTuple):
    """One bulk request: the same slice of records of up to `companies_per_request` companies."""

    dataset: str
    companies: tuple[Company, ...]
    limit: int | None = None
    offset: int | None = None


class Estimate(NamedTuple):
    """What a run will cost, before its first request.

    Attributes:
        request_counts: By dataset; exact for what does not page, else by the totals known or assumed.
        credit_count: Companies outside their paid window.
        minutes: At the allowance; 0 where there is none.
        left_out_count: Of these requests, those that `max_requests` leaves to a later run.
    """

    request_counts: dict[str, int]
    credit_count: int
    minutes: float
    left_out_count: int


def plan_pages(api: ApiSettings, dataset: str, wanted: Sequence[Wanted]) -> list[Page]:
    """Shape the requests for the next records of companies.

    A request carries at most `companies_per_request` companies and, where the service caps it, `records_per_request`
    records. Nobody knows at first how many records a company has, so the first request takes as many companies as fit
    and few records of each; its answer tells the totals, and what is left is packed by length, longest first. Where an
    earlier run found up to twice as many, all are asked for at once, and one more, which may have come since: cheaper
    than two requests. For longer ones, or without that one more, it would cost more than it saves.

    References:
        docs/service_gaps.md, "records in a bulk request" and "paging parameters".
    """
    if not DATASETS[dataset].is_paged:
        companies = [want.company for want in wanted]
        return [Page(dataset, tuple(chunk)) for chunk in _chunks(companies, api.companies_per_request)]
    slices: defaultdict[int, list[Wanted]] = defaultdict(list)
    wanted = [
        want._replace(remaining=_likely(api, want.expected)) if want.remaining is None else want for want in wanted
    ]
    first = [want.company for want in wanted if want.remaining is None]
    pages = [Page(dataset, tuple(chunk), _first_limit(api), 0) for chunk in _chunks(first, api.companies_per_request)]
    for want in wanted:
        if want.remaining is not None:
            slices[want.offset].append(want)
    for offset, group in sorted(slices.items()):
        pages += _pack(api, dataset, offset, sorted(group, key=lambda want: -(want.remaining or 0)))
    return pages


def find_targets(
    companies: pl.DataFrame,
    datasets: Sequence[str],
    state: pl.DataFrame,
    paid: pl.DataFrame,
    *,
    max_credits: int,
    shard_companies: int,
) -> pl.DataFrame:
    """Choose what to ask for.

    Args:
        companies: Accepted companies: country, company_number, in list order.
        datasets: What is wanted of each.
        state: What is held: company (its key), dataset, is_fresh, has_failed, expected_count, held_hash.
        paid: Companies inside their paid window: country, company_number.
        max_credits: Companies outside it that may be asked for; -1 for all.
        shard_companies: Companies of a shard.

    Returns:
        One row per company and dataset that is not fresh: shard (1 first; 0 for those the budget leaves out), country,
        company_number, dataset, expected_count, is_paid, has_failed, held_hash; in list order.
    """
    is_first = pl.col("order").diff().fill_null(1) != 0  # rows of a company follow each other
    is_allowed = pl.lit(value=True)
    if max_credits >= 0:
        is_allowed = pl.col("is_paid") | ((is_first & ~pl.col("is_paid")).cum_sum() <= max_credits)
    shard = (is_first & is_allowed).cum_sum().cast(pl.Int32).sub(1) // shard_companies + 1
    targets = (
        _with_held(companies, datasets, state, paid)
        .lazy()
        .filter(~pl.col("is_fresh").fill_null(value=False))
        .with_columns(pl.col("is_paid", "has_failed").fill_null(value=False))
        .select(pl.when(is_allowed).then(shard).otherwise(0).alias("shard"), "order", "dataset", *_FROZEN)
        .collect()
    )
    names = companies.select(pl.col("country").cast(pl.Enum(COUNTRIES)), "company_number")[targets["order"]]
    return pl.concat([targets, names], how="horizontal").select("shard", *names.columns, "dataset", *_FROZEN)


def estimate(api: ApiSettings, targets: pl.DataFrame, known_totals: Sequence[int], max_requests: int = -1) -> Estimate:
    """Say what targets will cost.

    Args:
        api: Limits of the service.
        targets: As `find_targets` gives them; shard 0 costs nothing. Where some have landed in part, remaining_count
            says how many records are still to come of them.
        known_totals: Records of companies already held, as a picture of those that are not; few are no picture.
        max_requests: Requests the run may send; -1 for all.
    """
    asked = targets.lazy().filter(pl.col("shard") > 0)
    if "remaining_count" not in targets.columns:
        asked = asked.with_columns(pl.lit(None, pl.Int32).alias("remaining_count"))
    totals = cycle(known_totals if len(known_totals) >= len(ASSUMED_TOTALS) else ASSUMED_TOTALS)
    counts: Counter[str] = Counter()
    for dataset in targets["dataset"].unique(maintain_order=True):  # one by one, for there may be millions of rows
        of_dataset = asked.filter(pl.col("dataset") == dataset).select("shard", *_COUNTED).collect()
        for _, group in of_dataset.group_by("shard", maintain_order=True):
            counts[dataset] += _count_requests(api, dataset, group, totals)
    unpaid = count_companies(asked.filter(~pl.col("is_paid")))
    sent = counts.total() if max_requests < 0 else min(max_requests, counts.total())
    minutes = sent / api.requests_per_minute if api.requests_per_minute else 0.0
    return Estimate(dict(counts), unpaid, minutes, counts.total() - sent)


def count_companies(targets: pl.DataFrame | pl.LazyFrame) -> int:
    """Count the companies in targets as `find_targets` gives them, where the rows of one follow each other."""
    company = pl.struct("country", "company_number")
    return targets.lazy().select(company.rle_id().max() + 1).collect().item() or 0


# ---------------------------------------------------------------------------------------------------------------------


def _with_held(
    companies: pl.DataFrame, datasets: Sequence[str], state: pl.DataFrame, paid: pl.DataFrame
) -> pl.DataFrame:
    """Give a row for each company (by its `order` in the list) and dataset, with what is held of it.

    There may be millions: without texts, and joined one dataset after the other, they are not in memory several times.
    """
    window = paid.lazy().select(company_key().alias("company"), is_paid=True)
    listed = companies.lazy().select(company_key().alias("company")).with_row_index("order")
    listed = listed.join(window, on="company", how="left", maintain_order="left").collect().lazy()
    parts = []
    for dataset in datasets:
        held = state.lazy().filter(pl.col("dataset") == dataset).select("company", *_HELD)
        joined = listed.join(held, on="company", how="left", maintain_order="left")
        name = pl.lit(dataset, pl.Enum(datasets)).alias("dataset")
        parts.append(joined.select("order", name, "is_paid", *_HELD).collect())
    places = pl.int_range(companies.height * len(datasets), eager=True, dtype=pl.UInt32)
    return pl.concat(parts)[places % len(datasets) * companies.height + places // len(datasets)]


def _first_limit(api: ApiSettings) -> int:
    """Records to ask of each company while its total is unknown."""
    if not api.records_per_request:
        return api.page_limit_max
    return min(api.page_limit_max, max(1, api.records_per_request // api.companies_per_request))


def _likely(api: ApiSettings, expected: int | None) -> int | None:
    """Records to ask for at once of a company that had so many; None where the first request is to tell."""
    first, likely = _first_limit(api), (expected or 0) + 1
    return likely if first < likely <= 2 * first and likely == _limit(api, likely) else None


def _pack(api: ApiSettings, dataset: str, offset: int, group: list[Wanted]) -> Iterable[Page]:
    """Fill requests from the longest remainder down, so that the limit each one needs fits its companies closely."""
    start = 0
    while start < len(group):
        limit = _limit(api, group[start].remaining or 0)
        size = _size(api, limit)
        yield Page(dataset, tuple(want.company for want in group[start : start + size]), limit, offset)
        start += size


def _limit(api: ApiSettings, remaining: int) -> int:
    return max(1, min(remaining, api.page_limit_max, api.records_per_request or api.page_limit_max))


def _size(api: ApiSettings, limit: int) -> int:
    if not api.records_per_request:
        return api.companies_per_request
    return min(api.companies_per_request, api.records_per_request // limit)


def _count_requests(api: ApiSettings, dataset: str, group: pl.DataFrame, totals: Iterator[int]) -> int:
    """Count the pages that `plan_pages` would make, by numbers alone: companies with as many records count together."""
    if not DATASETS[dataset].is_paged:
        return math.ceil(group.height / api.companies_per_request)
    expected = group.filter(pl.col("remaining_count").is_null())["expected_count"]
    first = _first_limit(api)
    known = Counter(expected.drop_nulls().to_list())
    at_once = {total: _likely(api, total) for total in known}
    likely = Counter({limit: known[total] for total, limit in at_once.items() if limit})
    rest = Counter(islice(totals, expected.null_count()))
    rest.update({total: count for total, count in known.items() if not at_once[total]})
    left = Counter({total - first: count for total, count in rest.items() if total > first})
    left.update(group["remaining_count"].drop_nulls().to_list())
    pages = math.ceil(rest.total() / api.companies_per_request)
    return pages + _count_packed(api, likely) + _count_packed(api, left)


def _count_packed(api: ApiSettings, counts: Counter[int]) -> int:
    """Count the pages for so many companies with so many records left, by the number of records."""
    remaining = sorted(counts.elements(), reverse=True)
    count = start = 0
    while start < len(remaining):
        limit = _limit(api, remaining[start])
        full_pages, rest = divmod(remaining[start], limit)
        count += full_pages + bool(rest)
        start += _size(api, limit)
    return count


def _chunks(companies: Sequence[Company], size: int) -> Iterable[Sequence[Company]]:
    return (companies[start : start + size] for start in range(0, len(companies), size))
