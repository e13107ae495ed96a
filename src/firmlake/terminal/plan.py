"""The output about a company list and its plan."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from firmlake.core.settings import RunSettings
from firmlake.core.text import count_of, duration, one_line, shown
from firmlake.enrich.plan import Planned, tell_before
from firmlake.enrich.targets import Estimate
from firmlake.intake.lines import CompanyList
from firmlake.report.bill import Bill
from firmlake.terminal.rows import Part, first_rows
from firmlake.terminal.status import describe_bill

_REFUSED_MAX = 10
_REFUSED_NAMED = 5
_GIVEN_MAX = 60


def plan_parts(
    planned: Planned, bill: Bill | None, steps: Sequence[Planned], unknown: range, left: int | None, run: RunSettings
) -> Iterator[Part]:
    """Yield a plan: its list, what a run will fetch, the bill, prices, steps of `run.expand`, and refused lines.

    `steps` are the plans of the steps whose companies are known, `unknown` the numbers of the others, and `left` the
    credits that the budget leaves for these; None without a budget.
    """
    yield from (*describe_list(planned.companies), *describe_plan(planned))
    yield from describe_bill(bill) if bill else ()
    yield from describe_prices(planned, run.credit_price)
    for number, step in enumerate(steps, 1):
        yield f"Step {number}, {run.expand}, as far as the warehouse knows:"
        yield from (f"  {line}" for line in describe_plan(step))
    for number in unknown:
        before = planned.companies.path.name if number == 1 else f"step {number - 1}"
        limit = "no limit of credits" if left is None else f"up to {left:,} credits of the budget"
        yield f"Step {number}, {run.expand}: not known before {before} is fetched; {limit}"
    refused = planned.companies.refused.select("line", "given", "reason")
    rows = refused.head(_REFUSED_MAX).rows()
    yield first_rows(_REFUSED_MAX, ("line", "given", "because"), rows, "refused lines", refused.height)


def describe_list(companies: CompanyList) -> Iterator[str]:
    """Describe what was read from a company list."""
    yield (
        f"{shown(companies.path.name)}: {count_of(companies.companies.height, 'company')} accepted, "
        f"{count_of(companies.repaired.height, 'line')} repaired, {companies.refused.height:,} refused, "
        f"{companies.repeated_count:,} repeated"
    )
    yield from companies.guesses


def describe_plan(planned: Planned) -> Iterator[str]:
    """Describe what a run will fetch and cost."""
    if planned.unfinished:
        before = planned.budget.before
        spent = f", which has spent {count_of(before, 'credit')}" if before else ""
        yield (
            f"Continuing run {planned.unfinished.run_id} of {planned.unfinished.plan.started_at:%Y-%m-%d %H:%M} UTC"
            f"{spent}"
        )
    still, held = ("Still to fetch", "fresh or landed") if planned.unfinished else ("To fetch", "fresh")
    content = plan_content(planned)
    requests = ", ".join(f"{dataset} {count:,}" for dataset, count in content["requests"].items())
    yield (
        f"{still}: {count_of(content['target_count'], 'company')} ({content['fresh_count']:,} {held}), "
        f"about {count_of(sum(content['requests'].values()), 'request')}{f' ({requests})' if requests else ''}, "
        f"at most {count_of(content['credits'], 'credit')}, "
        f"{duration(content['minutes'] * 60)} at the allowance"
    )
    if planned.waits and planned.waits.why:
        yield f"The first request is sent in {duration(planned.waits.wait_seconds)}: {planned.waits.why}"
    if planned.waits and planned.waits.pace:
        yield f"Pace: {planned.waits.pace}"
    if whole := planned.whole:
        yield (
            f"The whole list, without a sample: {count_of(whole.target_count, 'company')} to fetch, "
            f"about {count_of(sum(whole.request_counts.values()), 'request')}, "
            f"at most {count_of(whole.credit_count, 'credit')}, {duration(whole.minutes * 60)} at the allowance"
        )
    if count := content["free_refreshes"]:
        yield (f"Of these, {count_of(count, 'company')} in the last days of their paid window, refreshed for free")
    if planned.refresh_off:
        yield planned.refresh_off
    if line := planned.budget.tell(content["credits"]):
        yield line
    if content["waiting_count"]:
        setting = planned.budget.limit.split(" ")[0] or f"run.max_credits{tell_before(planned.budget.before)}"
        yield f"Left out by {setting}: {count_of(content['waiting_count'], 'company')}"
    if left := content["left_out_requests"]:
        yield f"Left to the next run by run.max_requests: about {count_of(left, 'request')}"


def describe_prices(planned: Planned, credit_price: str) -> Iterator[str]:
    """Describe what a list will cost, low, expected and worst, then its cheaper cuts."""
    rate = planned.hit_rate
    if rate.asked_count:
        yield (
            f"The service knew {rate.hit_count:,} of {count_of(rate.asked_count, 'company')} asked so far: "
            f"{rate.hit_count / rate.asked_count:.0%} (95 % interval: {rate.low:.0%} to {rate.high:.0%})"
        )
    for price in planned.prices:
        expected = "unknown" if price.expected is None else f"{price.expected:,}"
        money = (" to " if price.expected is None else ", ").join(price.in_money(credit_price))
        said = f" ({money})" if money else ""
        yield (
            f"Price, {price.cut}{f' ({price.how})' if price.how else ''}: {count_of(price.target_count, 'company')}, "
            f"about {count_of(price.request_count, 'request')}, {duration(price.minutes * 60)}, credits low "
            f"{price.low:,}, expected {expected}, worst {price.worst:,}{said}"
        )


def plan_content(planned: Planned) -> dict[str, Any]:
    """Convert a plan to plain values for JSON."""
    companies = planned.companies
    return {
        "list": str(companies.path),
        "company_count": companies.companies.height,
        "repaired_count": companies.repaired.height,
        "refused_count": companies.refused.height,
        "repeated_count": companies.repeated_count,
        "fresh_count": companies.companies.height - planned.estimate.target_count - planned.waiting_count,
        "waiting_count": planned.waiting_count,
        **_cost(planned.estimate),
        "left_out_requests": planned.estimate.left_out_count,
        "credits_before": planned.budget.before,
        "free_refreshes": planned.estimate.refresh_count,
        "wait_seconds": round(planned.waits.wait_seconds, 1) if planned.waits else 0.0,
        "waits_because": planned.waits.why if planned.waits else "",
        "continues_run": planned.unfinished.run_id if planned.unfinished else None,
        "whole": planned.whole and _cost(planned.whole),
        "hit_rate": planned.hit_rate._asdict(),
        "prices": [price._asdict() for price in planned.prices],
        "guesses": companies.guesses,
        "refused": companies.refused.head(1000).to_dicts(),
    }


def describe_refused(companies: CompanyList, name: str) -> Iterator[str]:
    """Describe the first refused lines of a list, and the command that shows all of them for the list `name`."""
    for line, given, reason in companies.refused.select("line", "given", "reason").head(_REFUSED_NAMED).rows():
        text = "" if given is None else f"{one_line(given, _GIVEN_MAX) or '(empty)'}: "  # null for a forgotten company
        yield f"  line {line}: {text}{reason}"
    if companies.refused.height > _REFUSED_NAMED:
        yield f"  and {companies.refused.height - _REFUSED_NAMED:,} more: `firmlake list show {shlex.quote(name)}`"


def _cost(estimate: Estimate) -> dict[str, Any]:
    return {
        "target_count": estimate.target_count,
        "requests": estimate.request_counts,
        "credits": estimate.credit_count,
        "minutes": round(estimate.minutes, 2),
    }
