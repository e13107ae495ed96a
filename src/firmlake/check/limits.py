"""Findings about the limits of one request: records per page, companies, and companies times records.

The limit of companies is tested by naming one company many times in a request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

import msgspec

from firmlake.api.exchange import Answer
from firmlake.api.refusal import read_lines
from firmlake.check.examples import describe_refusal
from firmlake.check.finding import Finding
from firmlake.check.refusal import find_bounds
from firmlake.check.talk import Talk, bearing_loss, content_of, is_lost, is_refusal, pagination, read_json
from firmlake.core.company import Company

__all__ = ["choose_repeated", "find_companies_cap", "find_page_cap", "find_records_cap"]

_HALVINGS_MAX = 12


def find_page_cap(talk: Talk, company: Company) -> Finding:
    """Find the largest page."""
    assumed = talk.api.page_limit_max
    ask = _asking(talk, lambda size: talk.single("financials", company, size, 0))
    answer = ask(assumed)
    if answer.is_success:
        page = pagination(answer)
        limit = page.get("limit") or assumed
        if limit >= assumed or limit == page.get("total"):
            return Finding("largest page", f"{assumed} are accepted", "as_assumed")
        seen = f"pages are cut to {limit} of {assumed} requested"
        return _capped(talk, "largest page", seen, page_limit_max=limit)
    largest = _largest(ask, 1, assumed, answer)
    if largest is None:
        return _unclear("largest page", answer)
    if is_lost(answer):
        seen = f"answers of more than {largest} records do not arrive ({answer.error})"
        return _capped(talk, "largest page", seen, page_limit_max=largest)
    return _capped(talk, "largest page", f"{largest}, {assumed} are refused", page_limit_max=largest)


def choose_repeated(talk: Talk, dataset: str, company: Company, stranger: Company | None) -> list[Company]:
    """Choose the companies for requests that name a company many times; the last one is repeated.

    A service may charge each time that a company is named. If its headers show that it does not, a known company is
    repeated. If no header reports credits, a company that does not exist is, since most services do not charge for it.

    Returns:
        The companies; empty if repeating costs credits, or if the service does not answer each repetition.
    """
    charged = talk.charged
    if talk.tells_credits:
        is_free = _count(talk.bulk(dataset, [company], size=2)) == 2 and talk.charged == charged
        return [company] if is_free else []
    named = [company, stranger] if stranger else []
    return named if named and _count(talk.bulk(dataset, named, size=3)) == 3 else []


def find_companies_cap(talk: Talk, dataset: str, named: list[Company]) -> Finding:
    """Find the largest number of companies in a bulk request.

    Args:
        talk: The conversation.
        dataset: The dataset to ask for.
        named: From `choose_repeated`.
    """
    assumed = talk.api.companies_per_request
    row = "companies in a bulk request"
    if not named:
        seen = f"{assumed} were not tried: a company named twice is answered once, or might be charged twice"
        return Finding(row, seen, "not_observed")
    ask = _asking(talk, lambda count: talk.bulk(dataset, named, size=count))
    answer = ask(assumed)
    if answer.is_success:
        return Finding(row, f"{assumed} are accepted", "as_assumed")
    largest = _largest(ask, 1, assumed, answer)
    if largest is None:
        return _unclear(row, answer)
    seen = f"{largest}, {assumed} are refused"
    if is_lost(answer):
        seen = f"answers of more than {largest} companies do not arrive ({answer.error})"
    return _capped(talk, row, seen, companies_per_request=largest)


def find_records_cap(talk: Talk, company: Company, named: list[Company]) -> Finding:
    """Find the largest number of records (companies times limit) in a bulk request for financials.

    Args:
        talk: The conversation; its page size and number of companies are known to be accepted.
        company: A company to ask for.
        named: From `choose_repeated`; if empty, only one company is named in a request.
    """
    assumed, page, most = talk.api.records_per_request, talk.api.page_limit_max, talk.api.companies_per_request
    most = most if named else 1
    row = "records in a bulk request"

    def send(records: int) -> Answer:
        """Ask for this many records, or slightly fewer, with as few companies as possible."""
        count = -(-records // page)
        return talk.bulk("financials", named or [company], records // count, 0, size=count)

    if not assumed:
        return Finding(row, "no cap is set", "not_observed")
    ask = _asking(talk, send)
    first = min(assumed, page * most)
    answer = ask(first)
    if not answer.is_success:
        largest = _largest(ask, 1, first, answer)
        if largest is None:
            return _unclear(row, answer)
        return _capped(talk, row, f"companies x limit up to {largest}", records_per_request=largest)
    if cut := _cut_to(answer):
        return _capped(talk, row, f"answers are cut to {cut} records", records_per_request=cut)
    if most == 1:
        return Finding(row, f"one company with a limit of {first} is accepted", "not_observed")
    if page * most <= assumed:
        return Finding(row, f"companies x limit of {page * most} is accepted, more is not possible", "as_assumed")
    twice = min(2 * assumed, page * most)
    for records, seen in (
        (twice, f"companies x limit up to {assumed}; {twice} is refused"),
        (page * most, f"companies x limit of {twice} is accepted, {page * most} is not"),
    ):
        answer = ask(records)
        if _refused(answer):
            return Finding(row, seen, "as_assumed")
        if cut := _cut_to(answer):
            return _capped(talk, row, f"answers are cut to {cut} records", records_per_request=cut)
    return _capped(talk, row, f"no cap: companies x limit of {page * most} is accepted", records_per_request=0)


# ---------------------------------------------------------------------------------------------------------------------


def _asking(talk: Talk, ask: Callable[[int], Answer]) -> Callable[[int], Answer]:
    return lambda size: bearing_loss(talk, lambda: ask(size))


def _largest(ask: Callable[[int], Answer], accepted: int, refused: int, refusal: Answer) -> int | None:
    """Find the largest accepted number from the text of the refusal, or by bisection.

    If the answer was lost, the number is only halved, because each further try may last until the timeout.

    Returns:
        The number; None if the service does not seem to refuse because of the number.
    """
    if is_lost(refusal):
        return next((size for size in _halves(refused) if ask(size).is_success), None)
    for bound in find_bounds(read_lines(refusal.body), refused)[:3]:
        if bound >= accepted and ask(bound).is_success:
            if bound + 1 == refused or _refused(ask(bound + 1)):
                return bound
            accepted = bound
    if not is_refusal(refusal) or not ask(accepted).is_success:
        return None
    for _ in range(_HALVINGS_MAX):
        if refused - accepted <= 1:
            break
        middle = (accepted + refused) // 2
        accepted, refused = (accepted, middle) if _refused(ask(middle)) else (middle, refused)
    return accepted


def _halves(size: int) -> Iterator[int]:
    while size > 1:
        size //= 2
        yield size


def _refused(answer: Answer) -> bool:
    return not answer.is_success


def _count(answer: Answer) -> int:
    content = read_json(answer.body)
    return len(content) if isinstance(content, list) else 0


def _cut_to(answer: Answer) -> int:
    """Return the number of records in an answer that gives one company different numbers of them; 0 if none does."""
    counts: defaultdict[str, list[int]] = defaultdict(list)
    content = content_of(answer)
    for element in content if isinstance(content, list) else []:
        if isinstance(element, dict) and isinstance(element.get("data"), list):
            counts[str(element.get("identifier"))].append(len(element["data"]))
    return sum(map(sum, counts.values())) if any(len(set(of)) > 1 for of in counts.values()) else 0


def _capped(talk: Talk, row: str, seen: str, **found: int) -> Finding:
    if 0 < (records := found.get("records_per_request", 0)) < talk.api.companies_per_request:
        found["companies_per_request"] = records  # else no page would fit
    talk.api = msgspec.structs.replace(talk.api, **found)
    return Finding(row, seen, "covered", {f"api.{key}": value for key, value in found.items()})


def _unclear(row: str, answer: Answer) -> Finding:
    return Finding(
        row, f"refused, apparently not for its size: {describe_refusal(answer)}", "needs_you",
        next_step="Compare the message with the service's documentation",
    )  # fmt: skip
