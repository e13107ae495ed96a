"""The finding about totals: whether `pagination.total` counts all records of a company on every page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from firmlake.api.contract import DATASETS
from firmlake.api.exchange import Answer
from firmlake.check.finding import Finding
from firmlake.check.talk import content_of

__all__ = ["find_totals"]

_ROW = "totals"
_RELY = "Report this service. Runs request every full page again with twice the limit, which costs more requests"


class _Page(NamedTuple):
    """A page with records: the requested limit, the offset of its end, and the content of `pagination`."""

    company: str
    limit: int | None
    end: int
    total: int | None
    has_limit: bool


def find_totals(answers: Iterable[Answer]) -> Finding:
    """Compare the totals of each company across all answers for financials, which had various limits and offsets.

    Datasets without pages must be complete in one answer.
    """
    answers = list(answers)
    if cut := _find_cut(answers):
        return cut
    pages = [page for answer in answers if answer.request.endpoint == "financials" for page in _pages(answer)]
    if not pages:
        return Finding(_ROW, "no records came", "not_observed")
    untold = [page for page in pages if page.total is None]
    if any(not page.has_limit for page in untold):
        return Finding(
            _ROW, "records without `pagination`, so it is unknown whether there are more", "needs_you",
            next_step="Report this service: the financials of such companies fail",
        )  # fmt: skip
    if untold:
        seen = "`pagination.total` is not a number; full pages are requested again with twice the limit"
        return Finding(_ROW, seen, "covered")
    return _compare([(page, page.total) for page in pages if page.total is not None])


# ---------------------------------------------------------------------------------------------------------------------


def _find_cut(answers: Iterable[Answer]) -> Finding | None:
    """Find a company with fewer records than its total in a dataset without pages."""
    for answer in answers:
        dataset = answer.request.endpoint
        is_whole = dataset in DATASETS and not DATASETS[dataset].is_paged
        for page in _pages(answer) if is_whole else ():
            if page.end < (page.total or 0):
                return Finding(
                    _ROW, f"{dataset} of {page.company}: {page.end} records, but a total of {page.total}", "needs_you",
                    next_step=f"Ask the service how to get all {dataset} at once: runs never fetch the rest",
                )  # fmt: skip
    return None


def _compare(told: list[tuple[_Page, int]]) -> Finding:
    of_company: defaultdict[str, dict[int, _Page]] = defaultdict(dict)
    for page, total in told:
        of_company[page.company].setdefault(total, page)
    for company, totals in of_company.items():
        if len(totals) > 1:
            seen = ", ".join(f"{total} with a limit of {page.limit}" for total, page in sorted(totals.items())[:3])
            return Finding(_ROW, f"{company}: {seen}; it counts only the page", "needs_you", next_step=_RELY)
    for page, total in told:
        if page.end > total:
            return Finding(
                _ROW, f"{page.company}: {page.end} records, but a total of {total}", "needs_you",
                next_step="Report this service: such companies fail, and others may lack their last records",
            )  # fmt: skip
    limits = {page.limit for page, _ in told}
    if len(limits) == 1:
        return Finding(_ROW, "all answered pages had the same size", "not_observed")
    return Finding(_ROW, f"the same with {len(limits)} page sizes", "as_assumed")


def _pages(answer: Answer) -> Iterator[_Page]:
    content = content_of(answer)
    for element in content if isinstance(content, list) else [content]:
        if not isinstance(element, dict) or not (isinstance(element.get("data"), list) and element["data"]):
            continue
        identifier, paging = element.get("identifier"), element.get("pagination")
        held: dict[str, Any] = paging if isinstance(paging, dict) else {}
        named = identifier if isinstance(identifier, dict) else {}
        start = _count(held.get("offset"))  # `find_page_names` reports an offset other than the requested one
        end = (start or 0) + len(element["data"])
        company = f"{named.get('country')} {named.get('companyNumber')}"
        yield _Page(company, answer.request.limit, end, _count(held.get("total")), held.get("limit") is not None)


def _count(total: Any) -> int | None:
    text = str(total).removesuffix(".0")
    return int(text) if text.isdecimal() else None
