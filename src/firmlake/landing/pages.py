"""Plan bulk requests: the companies of each request, and the slice of their records."""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

import msgspec
import polars as pl

from firmlake.api.contract import DATASETS
from firmlake.api.requests import fitting
from firmlake.core.company import Company
from firmlake.core.settings import ApiSettings
from firmlake.core.text import count_of


class Wanted(NamedTuple):
    """The next records to fetch for a company."""

    company: Company
    offset: int = 0  # records that have landed already
    remaining: int | None = None  # records still to come; None before the first page, which has the total
    expected: int | None = None  # records that an earlier run found, used if `remaining` is None; None if unknown


class Page(NamedTuple):
    """One bulk request: the same slice of records of up to `companies_per_request` companies."""

    dataset: str
    companies: tuple[Company, ...]
    limit: int | None = None
    offset: int | None = None

    @property
    def size(self) -> tuple[int, int]:
        """The number of companies, and of records of each if there are pages."""
        return len(self.companies), self.limit or 0

    def __str__(self) -> str:
        records = f" with {count_of(self.limit, 'record')} of each" if self.limit else ""
        return f"{count_of(len(self.companies), 'company')}{records} in one request for {self.dataset}"


def request_id(run_id: str, page: Page, language: str) -> str:
    """Return a hash of what a request asks for, so that all its attempts share one identifier."""
    return hashlib.blake2b(msgspec.json.encode((run_id, *page, language)), digest_size=12).hexdigest()


def plan_pages(api: ApiSettings, dataset: str, wanted: Sequence[Wanted]) -> list[Page]:
    """Plan the requests for the next records of companies.

    A request asks for at most `companies_per_request` companies and, if the service has such a limit, for at most
    `records_per_request` records (docs/service_gaps.md, "records in a bulk request" and "paging parameters"). The
    number of a company's records is unknown at first. The first request therefore asks for as many companies as fit and
    a few records of each. Its answer has the totals, and the remaining records are packed by length, longest first.

    If an earlier run found at most twice as many records as the first request asks for, all of them are requested at
    once, with one more that may be new: that is cheaper than two requests. For more records, or without the additional
    one, it would cost more than it saves.
    """
    api = fitting(api, dataset)
    if not DATASETS[dataset].is_paged:
        companies = [want.company for want in wanted]
        return [Page(dataset, tuple(chunk)) for chunk in _chunks(companies, api.companies_per_request)]
    first: list[Company] = []
    slices: defaultdict[int, list[tuple[int, Company]]] = defaultdict(list)
    for company, offset, remaining, expected in wanted:
        remaining = _likely(api, expected) if expected and remaining is None else remaining
        if remaining is None:
            first.append(company)
        else:
            slices[offset].append((remaining, company))
    pages = [Page(dataset, tuple(chunk), _first_limit(api), 0) for chunk in _chunks(first, api.companies_per_request)]
    for offset, group in sorted(slices.items()):
        group.sort(key=itemgetter(0), reverse=True)
        for limit, place in _pack(api, [remaining for remaining, _ in group], offset):
            pages.append(Page(dataset, tuple(company for _, company in group[place]), limit, offset))
    return pages


def accompany(api: ApiSettings, pages: Iterable[Page], witness: Company | None) -> Iterator[Page]:
    """Add a witness, a company that was answered before, to the first pages of companies that an answer left out.

    If the service answers the witness and leaves the others out again, it does not know them. Without a witness the
    answer would be an empty array, which a service in trouble may send too. Pages stay unchanged if there is no
    witness, or if a request has room for one company only.
    """
    for page in pages:
        api = fitting(api, page.dataset)
        most = _size(api, page.limit) if page.limit else api.companies_per_request
        if witness is None or most == 1 or page.offset:
            yield page
        elif len(page.companies) < most:
            yield page._replace(companies=(witness, *page.companies))
        else:
            yield page._replace(companies=(witness, *page.companies[1:]))
            yield page._replace(companies=(witness, page.companies[0]))


def count_pages(api: ApiSettings, dataset: str, expected: pl.Series, totals: Iterator[int]) -> int:
    """Count the pages that `plan_pages` would make, without making them.

    The expected number of records of a company is null if it is unknown; then `totals` supplies one.
    """
    api = fitting(api, dataset)
    if not DATASETS[dataset].is_paged:
        return math.ceil(len(expected) / api.companies_per_request)
    first = _first_limit(api)
    known = Counter(expected.drop_nulls().to_list())
    at_once = {total: _likely(api, total) for total in known}
    likely = Counter({limit: known[total] for total, limit in at_once.items() if limit})
    rest = Counter(islice(totals, expected.null_count()))
    rest.update({total: count for total, count in known.items() if not at_once[total]})
    left = Counter({total - first: count for total, count in rest.items() if total > first})
    pages = math.ceil(rest.total() / api.companies_per_request)
    return pages + _count_packed(api, likely) + _count_packed(api, left)


def _first_limit(api: ApiSettings) -> int:
    """Return the records to request for each company while its total is unknown."""
    return min(api.page_limit_max, max(1, api.records_per_request // api.companies_per_request))


def _likely(api: ApiSettings, expected: int | None) -> int | None:
    """Return the number of records to request at once, given the expected number; None to ask for the total first."""
    first, likely = _first_limit(api), (expected or 0) + 1
    return likely if first < likely <= 2 * first and likely == _limit(api, likely) else None


def _pack(api: ApiSettings, remaining: Sequence[int], offset: int = 0) -> Iterator[tuple[int, slice]]:
    """Fill requests from the longest remainder down, so that each limit fits its companies closely.

    Yields the limit of each request, and the places of its companies among the remainders, which are sorted.
    """
    start = 0
    while start < len(remaining):
        limit = _limit(api, remaining[start], offset)
        end = start + _size(api, limit)
        yield limit, slice(start, end)
        start = end


def _limit(api: ApiSettings, remaining: int, offset: int = 0) -> int:
    limit = max(1, min(remaining, api.page_limit_max, api.records_per_request))
    if not offset or api.offsets == "any":
        return limit
    # A page as long as all before it doubles them, until that is too long.
    most = min(offset, api.page_limit_max, api.records_per_request)
    divisors = [size for size in range(1, most + 1) if offset % size == 0]
    return next((size for size in divisors if size >= limit), divisors[-1])


def _size(api: ApiSettings, limit: int) -> int:
    return min(api.companies_per_request, api.records_per_request // limit)


def _count_packed(api: ApiSettings, counts: Counter[int]) -> int:
    """Count the pages for companies counted by their number of remaining records."""
    remaining = sorted(counts.elements(), reverse=True)
    return sum(math.ceil(remaining[place.start] / limit) for limit, place in _pack(api, remaining))


def _chunks(companies: Sequence[Company], size: int) -> Iterable[Sequence[Company]]:
    return (companies[start : start + size] for start in range(0, len(companies), size))
