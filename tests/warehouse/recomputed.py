"""Events, worked out from the answers of several weeks by code that shares nothing with the warehouse's.

A state is what the service says of a company: `name`, `place`, `periods` (`start`, `end`, `received`, `codes` and
figures under any name) and `parents` (`company`, `function`, `stake`). None: it does not know the company.
"""

from __future__ import annotations

from collections import Counter


def list_events(shown):
    """Yield the events of each week, counted by company, kind and last day of the period.

    Args:
        shown: For each week the state of each company.
    """
    last, filed = {}, {}
    for before, now in zip([dict.fromkeys(shown[0]), *shown], shown, strict=False):
        expected = Counter()
        for company, state in now.items():
            if (before[company] is None) != (state is None):
                expected[company, "company_gone" if state is None else "company_appeared", None] += 1
            if state and company in last:
                events = list(_differences(last[company], state, filed[company]))
                expected.update((company, kind, end) for kind, end in events)
            if state:
                last[company] = state
                filed.setdefault(company, {}).update({filing_key(one): one for one in state["periods"]})
        yield expected


def filing_key(one):
    return one["start"], one["end"], one["received"]


def _differences(old, new, filed):
    if old["name"] != new["name"]:
        yield "company_renamed", None
    if old.get("place") != new.get("place"):
        yield "company_moved", None
    for dates in {(one["start"], one["end"]) for one in (*old["periods"], *new["periods"])}:
        yield from _filings(*([one for one in state["periods"] if (one["start"], one["end"]) == dates]
                              for state in (old, new)), filed)  # fmt: skip
    owners = [{one["company"]: one for one in state["parents"]} for state in (old, new)]
    for owner in owners[0].keys() | owners[1].keys():
        was, now = owners[0].get(owner), owners[1].get(owner)
        if was is None or now is None:
            yield "parent_in" if was is None else "parent_out", None
            continue
        if was["function"] != now["function"]:
            yield "function_changed", None
        stakes = [{one["function"]: one["stake"]} for one in (was, now)]
        for function in stakes[0].keys() | stakes[1].keys():
            if stakes[0].get(function) != stakes[1].get(function):
                yield "stake_changed", None


def _filings(old, new, filed):
    pairs = [(was, now) for now in new for was in old if was["received"] == now["received"]]
    rest_old = sorted((one for one in old if all(one is not was for was, _ in pairs)), key=filing_key)
    rest_new = sorted((one for one in new if all(one is not now for _, now in pairs)), key=filing_key)
    pairs += zip(rest_old, rest_new, strict=False)
    for was in rest_old[len(rest_new) :]:
        yield "period_removed", was["end"]
    for was, now in pairs:
        if {code.lstrip("0") for code in was["codes"]} != {code.lstrip("0") for code in now["codes"]}:
            yield "committees_changed", now["end"]
    for now in rest_new[len(rest_old) :]:
        yield "period_returned" if filing_key(now) in filed else "new_accounts", now["end"]
        if filing_key(now) in filed:
            pairs.append((filed[filing_key(now)], now))
    for was, now in pairs:
        if any(was[name] != now[name] for name in now.keys() - {"start", "end", "codes"}):
            yield "period_restated", now["end"]
