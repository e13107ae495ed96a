"""Shaping requests: which companies and which slice of records each bulk request carries."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import polars as pl

from firmlake.api.contract import DATASETS
from firmlake.core.company import Company
from firmlake.core.settings import ApiSettings

__all__ = ["Page", "Wanted", "count_pages", "plan_pages"]


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


def count_pages(api: ApiSettings, dataset: str, group: pl.DataFrame, totals: Iterator[int]) -> int:
    """Count the pages that `plan_pages` would make, by numbers alone: equal record counts are grouped.

    Args:
        api: Limits of the service.
        dataset: Of all rows.
        group: expected_count and remaining_count, a row for each company.
        totals: Supplies the record count of companies of which nothing is known.
    """
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


# ---------------------------------------------------------------------------------------------------------------------


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
