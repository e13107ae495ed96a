"""Findings about response headers: the rate limit and credits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import msgspec

from firmlake.api.exchange import read_credits
from firmlake.api.throttle.hints import read_allowance
from firmlake.check.finding import Finding
from firmlake.check.talk import Talk, is_charge, is_remainder
from firmlake.core.company import Company

__all__ = ["find_credits", "find_rate_limit"]

_QUOTA_LEFT = re.compile(r"quota.*(remain|left)|(remain|left).*quota")
_RATE_LIMIT = re.compile(r"(x-)?rate-?limit(-limit)?|(x-)?rate-limit-limit")


def find_rate_limit(talk: Talk) -> Finding:
    """Find the rate limit in the headers, and adopt it if it is lower than ours."""
    row, ours = "rate limit", talk.api.requests_per_minute
    told = [read_allowance(answer.headers, datetime.now(UTC)).requests_per_minute for answer in talk.answers]
    limit = next((pace for pace in told if pace), None)
    known = f"{ours} a minute is assumed" if ours else "none is assumed"
    if limit is None:
        others = sorted({name for answer in talk.answers for name in answer.headers if _RATE_LIMIT.fullmatch(name)})
        seen = f"{', '.join(others)} could not be read" if others else "not in any header"
        return Finding(row, f"{seen}; {known}, and a 429 is waited out", "not_observed")
    if not ours or limit >= ours:
        return Finding(row, f"{limit} a minute; {known}", "as_assumed")
    return Finding(row, f"{limit} a minute; {known}", "covered", {"api.requests_per_minute": limit})


def find_credits(talk: Talk, companies: Sequence[Company], stranger: Company | None) -> Iterator[Finding]:
    """Find the headers that report credits, and check that a company costs one credit.

    A header for the rest of a quota counts as credits if the quota fell once per company, but not if it fell with each
    request.
    """
    names, row = talk.api.names, "credit headers"
    charged_header, remaining_header = names.credits_charged_header.lower(), names.credits_remaining_header.lower()
    told = {name for answer in talk.answers for name in answer.headers}
    found: dict[str, str] = {}
    bought_max = len(companies) + (stranger is not None)
    for key, usual, is_like in (
        ("credits_charged_header", charged_header, is_charge),
        ("credits_remaining_header", remaining_header, lambda name: _is_left(talk, name, bought_max)),
    ):
        like = [name for name in sorted(told) if is_like(name)]
        if usual not in told and like:
            found[key] = like[0]
    if found:
        talk.api = msgspec.structs.replace(talk.api, names=msgspec.structs.replace(names, **found))
        settings = {f"api.names.{key}": name for key, name in found.items()}
        yield Finding(row, ", ".join(found.values()), "covered", settings)
    elif {charged_header, remaining_header} <= told:
        yield Finding(row, f"{names.credits_charged_header}, {names.credits_remaining_header}", "as_assumed")
    elif charged_header in told:
        yield Finding(row, f"{names.credits_charged_header} only", "covered")
    else:
        seen = f"{names.credits_remaining_header} only" if remaining_header in told else "none"
        yield Finding(row, f"{seen}; firmlake counts the credits of a run itself", "covered")
    yield _find_price(talk, companies, stranger)


def _is_left(talk: Talk, header: str, bought_max: int) -> bool:
    """Return whether a header holds the credits left: by its name, or by its numbers if it names a quota."""
    if not _QUOTA_LEFT.search(header):
        return is_remainder(header)
    told = (read_credits(answer.headers.get(header, "")) for answer in talk.answers)
    left = [count for count in told if count is not None]
    return bool(left) and 0 < max(left) - left[-1] <= bought_max


def _find_price(talk: Talk, companies: Sequence[Company], stranger: Company | None) -> Finding:
    row, header = "credits", talk.api.names.credits_charged_header.lower()
    told = (read_credits(answer.headers.get(header, "")) for answer in talk.answers)
    charges = [count for count in told if count is not None]
    total, most = sum(charges) if charges else talk.charged, len(companies)
    if not charges and not total:  # what is left may have fallen before it was told first
        return Finding(row, "not reported by the service", "not_observed")
    if total == 0:
        return Finding(row, "none charged: these companies were paid for within the last 30 days", "not_observed")
    if total <= most:
        return Finding(row, f"{total} for {most} companies, then free", "as_assumed")
    if stranger is not None and total == most + 1:
        return Finding(row, f"{total} for {most} companies and one that does not exist", "covered")
    return Finding(
        row, f"{total} for {most} companies", "needs_you",
        next_step="The service does not charge one credit per company in 30 days: ask it what it charges before a run",
    )  # fmt: skip
