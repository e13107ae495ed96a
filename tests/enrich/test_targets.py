"""Planning: every company and record is asked for once, within the limits, in few requests, at a known price."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import islice

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import firmlake_sandbox
from firmlake.core.company import company_key, normal_form
from firmlake.core.settings import ApiSettings
from firmlake.enrich.targets import ASSUMED_TOTALS, estimate, find_targets
from firmlake.landing.pages import Wanted, plan_pages
from firmlake_sandbox.financials import list_financials
from firmlake_sandbox.numbers import parse_number
from firmlake_sandbox.world import World, is_found
from support import NOON, examples

COMPANIES = [normal_form(*pair) for pair in firmlake_sandbox.sample_numbers(5000)]
PAGED = "financials"
DATASETS = ("financials", "lookalikes", "relationships")

LIMITS = st.builds(
    lambda companies, factor, page, offsets: ApiSettings(
        companies_per_request=companies,
        records_per_request=companies * factor,
        page_limit_max=page,
        offsets=offsets,
    ),
    st.integers(1, 120),
    st.sampled_from([0, 1, 2, 5, 7]),
    st.sampled_from([1, 3, 4, 5, 20, 500]),
    st.sampled_from(["any", "multiples"]),
)


def fetch_all(api, totals, expected=()):
    """Ask, as fetching does, until everybody's records are there; a service that holds so many is simulated.

    Returns the pages of each round.
    """
    held = dict.fromkeys(totals, 0)
    known = {}
    rounds = []
    open_ones = list(totals)
    while open_ones:
        wanted = [
            Wanted(company, held[company], known.get(company), dict(expected).get(company)) for company in open_ones
        ]
        pages = plan_pages(api, PAGED, wanted)
        rounds.append(pages)
        for page in pages:
            for company in page.companies:
                assert page.offset == held[company], "each record is asked for once"
                held[company] = min(totals[company], held[company] + page.limit)
                known[company] = max(1, totals[company] - held[company])
        open_ones = [company for company in open_ones if held[company] < totals[company]]
        assert len(rounds) < 1000
    return rounds


@cache
def totals_of(week=0):
    """Records of companies in the embedded service's world; 0 for those it does not know."""
    world = World(week=week)
    nodes = {company: parse_number(*company) for company in COMPANIES}
    return {
        company: list_financials(world, node, 0, 0)[1] if is_found(world, node) else 0
        for company, node in nodes.items()
    }


def targets_of(companies, expected=None, datasets=DATASETS, shard_companies=5000):
    state = state_of((*company, PAGED, False, False, count) for company, count in (expected or {}).items())
    return find_targets(frame(companies), datasets, state, paid_for(), max_credits=-1, shard_companies=shard_companies)


def state_of(rows=()):
    """What is held, of rows that begin with country and company number."""
    names = {"country": pl.String, "company_number": pl.String}
    rest = {"dataset": pl.String, "is_fresh": pl.Boolean, "has_failed": pl.Boolean, "expected_count": pl.Int32}
    frame = pl.DataFrame(list(rows), schema=names | rest, orient="row")
    return frame.select(company_key().alias("company"), *rest, is_barred=False, is_closing=False, is_left_out=False)


def paid_for(companies=()):
    keys = frame(companies).select(company_key().alias("company"))
    return keys.with_columns(free_until=pl.lit(NOON.replace(tzinfo=None)))


def frame(companies):
    return pl.DataFrame(list(companies), schema={"country": pl.String, "company_number": pl.String}, orient="row")


# --- pages -----------------------------------------------------------------------------------------------------------


@examples(80)
@given(
    api=LIMITS,
    wanted=st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(1, 60)), max_size=150),
    dataset=st.sampled_from(DATASETS),
)
def test_every_company_is_in_one_page_and_every_page_is_allowed(api, wanted, dataset):
    wanted = [
        Wanted(company, offset if left else 0, left) for company, (offset, left) in zip(COMPANIES, wanted, strict=False)
    ]
    pages = plan_pages(api, dataset, wanted)
    asked = Counter(company for page in pages for company in page.companies)
    assert asked == Counter(want.company for want in wanted)
    for page in pages:
        assert 1 <= len(page.companies) <= api.companies_per_request
        if dataset != PAGED:
            assert (page.limit, page.offset) == (None, None)
            continue
        assert 1 <= page.limit <= api.page_limit_max
        assert not api.records_per_request or len(page.companies) * page.limit <= api.records_per_request
        offsets = {want.offset for want in wanted if want.company in page.companies}
        assert offsets == {page.offset}
        assert api.offsets == "any" or page.offset % page.limit == 0


@examples(40)
@given(api=LIMITS, totals=st.lists(st.integers(0, 60), max_size=120), data=st.data())
def test_all_records_are_asked_for_and_each_once(api, totals, data):
    totals = dict(zip(COMPANIES, totals, strict=False))
    guesses = data.draw(st.lists(st.none() | st.integers(1, 60), min_size=len(totals), max_size=len(totals)))
    expected = {company: guess for company, guess in zip(totals, guesses, strict=True) if guess}
    fetch_all(api, totals, expected)


def test_what_is_known_to_be_left_is_packed_by_length():
    """A page asks for as many records as its longest company has left, so that those of one length go together."""
    wanted = [Wanted(company, 5, left) for company, left in zip(COMPANIES, [1, 15, 2, 14, 1, 13], strict=False)]
    pages = plan_pages(ApiSettings(companies_per_request=3, records_per_request=45), PAGED, wanted)
    assert [(page.limit, [COMPANIES.index(company) for company in page.companies]) for page in pages] == [
        (15, [1, 3, 5]), (2, [2, 0, 4]),
    ]  # fmt: skip


# --- few requests ----------------------------------------------------------------------------------------------------


def count_requests(api, totals, expected=()):
    paged = sum(map(len, fetch_all(api, totals, expected)))
    wanted = [Wanted(company) for company in totals]
    return paged + sum(len(plan_pages(api, dataset, wanted)) for dataset in DATASETS if dataset != PAGED)


def test_full_history_takes_at_most_39_requests_for_1000_companies():
    assert count_requests(ApiSettings(), totals_of()) / 5 <= 39


@pytest.mark.parametrize("weeks", [0, 4, 13, 52])
@pytest.mark.parametrize("count", [1000, 5000])
def test_when_totals_are_known_it_takes_fewer(weeks, count):
    """Although in four weeks one company in twelve has filed another year; of a few pages none is saved."""
    now, before = (dict(islice(totals_of(week).items(), count)) for week in (weeks, 0))
    expected = {company: total for company, total in before.items() if total}
    known, unknown = (count_requests(ApiSettings(), now, totals) for totals in (expected, {}))
    assert known < unknown if count == 5000 else known <= unknown + 1


# --- the price beforehand --------------------------------------------------------------------------------------------


@examples(40)
@given(api=LIMITS, totals=st.lists(st.integers(1, 60), min_size=1, max_size=150))
def test_the_price_is_exact_where_totals_are_known_and_fit_a_page(api, totals):
    """Longer ones need a third request, which may be shared by more companies than the one before: it is no more."""
    api = msgspec.structs.replace(api, offsets="any")  # otherwise a long company needs more
    totals = dict(zip(COMPANIES, totals, strict=False))
    said, needed = estimate(api, targets_of(totals, totals), []), count_requests(api, totals, totals)
    if api.page_limit_max >= 60 and (not api.records_per_request or api.records_per_request >= 60):
        assert sum(said.request_counts.values()) == needed
    assert sum(said.request_counts.values()) == pytest.approx(needed, rel=0.5, abs=3)


@pytest.mark.parametrize("api", [ApiSettings(), ApiSettings(records_per_request=0), ApiSettings(page_limit_max=4)])
def test_the_price_of_unknown_companies_is_right_within_5_percent(api):
    totals = totals_of()
    said = estimate(api, targets_of(COMPANIES), [])
    assert sum(said.request_counts.values()) == pytest.approx(count_requests(api, totals), rel=0.05)


def test_the_price_follows_what_other_companies_turned_out_to_have():
    totals = dict.fromkeys(COMPANIES[:1000], 40)
    said = estimate(ApiSettings(), targets_of(totals), [40] * 200)
    assert said.request_counts[PAGED] == pytest.approx(sum(map(len, fetch_all(ApiSettings(), totals))), rel=0.02)


def test_a_few_companies_are_no_picture_of_the_others():
    few, none = (estimate(ApiSettings(), targets_of(COMPANIES), known) for known in ([400] * 5, []))
    assert few == none
    assert sum(ASSUMED_TOTALS) / len(ASSUMED_TOTALS) == pytest.approx(8, abs=0.5)


@pytest.mark.parametrize(
    ("per_minute", "budget", "sent", "minutes"), [(50, -1, 40, 0.8), (0, 10**6, 40, 0), (50, 3, 3, 0.06)]
)
def test_minutes_are_requests_by_the_allowance_and_a_budget_leaves_the_rest_to_the_next_run(
    per_minute, budget, sent, minutes
):
    said = estimate(ApiSettings(requests_per_minute=per_minute), targets_of(COMPANIES[:1000]), [], max_requests=budget)
    assert (said.minutes, said.left_out_count) == (minutes, sum(said.request_counts.values()) - sent)


# --- targets ---------------------------------------------------------------------------------------------------------


def test_what_is_fresh_is_left_alone():
    one, two, three = COMPANIES[:3]
    rows = [(*one, "financials", True, False, 5), (*one, "lookalikes", False, True, None)]
    rows += [(*two, "financials", False, False, 9)]
    rows += [(*three, dataset, True, False, None) for dataset in DATASETS]
    state = state_of(rows)
    targets = find_targets(frame([one, two, three]), DATASETS, state, paid_for(), max_credits=-1, shard_companies=1)
    columns = "shard", "company_number", "dataset", "expected_count", "has_failed"
    assert targets.select(columns).rows() == [
        (1, one.company_number, "lookalikes", None, True),
        (1, one.company_number, "relationships", None, False),
        (2, two.company_number, "financials", 9, False),
        (2, two.company_number, "lookalikes", None, False),
        (2, two.company_number, "relationships", None, False),
    ]


def test_a_fresh_company_in_the_last_days_of_its_window_is_refreshed_and_costs_nothing():
    """But not if the service may charge for it: what is closing, and not known as paid for, stays fresh."""
    one, two, three = COMPANIES[:3]
    rows = [(*company, dataset, True, False, None) for company in (one, two, three) for dataset in DATASETS]
    state = state_of(rows).with_columns(is_closing=pl.Series([True] * 6 + [False] * 3))
    paid = paid_for([one, three])
    targets = find_targets(frame([one, two, three]), DATASETS, state, paid, max_credits=0, shard_companies=1)
    assert set(targets.select("company_number", "is_paid", "is_refresh").rows()) == {(one.company_number, True, True)}
    said = estimate(ApiSettings(), targets, [])
    assert (said.credit_count, said.refresh_count) == (0, 1)


@pytest.mark.parametrize("is_fresh", [True, False], ids=["alone", "beside a known one"])
def test_companies_that_answers_left_out_are_asked_for_again_only_beside_a_known_one(is_fresh):
    """Alone they all failed, in each of the four weeks in which a weekly schedule has nothing else to ask for."""
    known, lost = COMPANIES[:2]
    rows = [(*known, dataset, is_fresh, False, 5) for dataset in DATASETS]
    rows += [(*lost, dataset, False, False, None) for dataset in DATASETS]
    state = state_of(rows).with_columns(is_left_out=pl.Series([False] * 3 + [True] * 3))
    targets = find_targets(frame([lost, known]), DATASETS, state, paid_for(), max_credits=-1, shard_companies=9)
    assert set(targets["company_number"]) == (set() if is_fresh else {known.company_number, lost.company_number})


def test_records_that_do_not_fit_are_asked_for_again_only_while_that_is_free():
    """And by `redrive`, which was told to."""
    paid, unpaid, fit = COMPANIES[:3]
    rows = [(*company, dataset, True, company != fit, None) for company in COMPANIES[:3] for dataset in DATASETS]
    arguments = frame(COMPANIES[:3]), DATASETS, state_of(rows), paid_for([paid, fit])
    targets = find_targets(*arguments, max_credits=-1, shard_companies=9)
    assert set(targets["company_number"]) == {paid.company_number}
    again = find_targets(*arguments, max_credits=-1, shard_companies=9, only_failed=True)
    assert set(again["company_number"]) == {paid.company_number, unpaid.company_number}


@examples(40)
@given(
    kinds=st.lists(st.sampled_from(["paid", "new", "failed"]), min_size=1, max_size=30),
    budget=st.integers(0, 30),
    shard_companies=st.integers(1, 10),
)
def test_a_budget_buys_the_first_and_never_leaves_out_what_is_paid_for(kinds, budget, shard_companies):
    """Companies that failed in all datasets come last."""
    companies, of = COMPANIES[: len(kinds)], {"paid": [], "new": [], "failed": []}
    for company, kind in zip(companies, kinds, strict=True):
        of[kind].append(company)
    state = state_of((*company, dataset, False, True, None) for company in of["failed"] for dataset in DATASETS)
    targets = find_targets(
        frame(companies), DATASETS, state, paid_for(of["paid"]), max_credits=budget, shard_companies=shard_companies
    )
    shards = {tuple(row[1:]): row[0] for row in targets.select("shard", "country", "company_number").iter_rows()}
    assert len(shards) == len(companies)
    left_out = {company for company, shard in shards.items() if shard == 0}
    assert left_out == set([*of["new"], *of["failed"]][budget:])
    sizes = Counter(shard for shard in shards.values() if shard)
    assert sorted(sizes) == list(range(1, len(sizes) + 1))
    assert {sizes[shard] for shard in sorted(sizes)[:-1]} <= {shard_companies}, "all are full but the last"
    assert max(sizes.values(), default=0) <= shard_companies
