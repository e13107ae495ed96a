"""Pages of one company: nothing is taken for the whole that may lack a record, and asking always comes to an end."""

from __future__ import annotations

import pytest

from firmlake.core.company import Company
from firmlake.core.settings import NameSettings
from firmlake.landing.progress import Progress
from support import ACME, body, found, header, period

TOTALS = {
    "right": lambda count, total, limit: total,
    "of the page": lambda count, total, limit: count,
    "the limit, or what there is": lambda count, total, limit: min(limit, total),
    "absent": lambda count, total, limit: None,
    "minus one": lambda count, total, limit: -1,
    "pages": lambda count, total, limit: -(-total // limit),
}


def page(company, count, limit, offset=0, total="right", most=500):
    """A page of a company that has so many periods, of a service that tells totals in its own way."""
    used = min(limit, most)
    records = [period(2000 + number) for number in range(offset, min(offset + used, count))]
    element = found(company, "financials", *records, offset=offset)
    element["pagination"] |= {"limit": used, "total": TOTALS[total](len(records), count, used)}
    return header("financials", [company], offset=offset, limit=limit), body(element)


def new_progress(companies=(ACME,), *, trusts=False):
    wanted = [("financials", companies, [None] * len(companies))]
    return Progress(wanted, NameSettings(), keep_records=True, trusts_totals=trusts)


def fetch(count, total, most=500, limit_max=500, *, trusts=False):
    """Ask like a run, by what the track says is missing; return the track and the number of requests."""
    progress, requests = new_progress(trusts=trusts), 0
    track = progress.datasets["financials"][ACME]
    while progress.pending("financials") and not track.is_given_up:
        requests += 1
        assert requests < 500, "no end"
        limit = min(track.remaining or 5, limit_max)
        progress.absorb(*page(ACME, count, limit, 0 if track.wider else track.next_offset, total, most))
    return track, requests


def years(track):
    return [int(bytes(raw)[14:18]) for part in track.parts for raw in part.records["period"]]


@pytest.mark.parametrize("total", TOTALS)
@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 9, 10, 11, 40, 499])
def test_every_period_comes_whatever_the_service_calls_its_total(count, total):
    track, requests = fetch(count, total)
    assert (track.status, years(track)) == ("answered", list(range(2000, 2000 + count)))
    assert requests <= 2 + count.bit_length()


@pytest.mark.parametrize("total", TOTALS)
@pytest.mark.parametrize("count", [2, 3, 4, 9, 12])
def test_nothing_is_lost_silently_where_pages_are_cut_as_well(count, total):
    """A service cuts pages to 3 records and says so in `pagination.limit`."""
    track, _ = fetch(count, total, most=3)
    if track.status == "answered":
        assert years(track) == list(range(2000, 2000 + count))
    else:
        assert track.is_given_up
    assert (track.status == "answered") == ((total, count) != ("pages", 12))


@pytest.mark.parametrize("count", [5, 9])
def test_settings_that_allow_no_longer_page_lose_nothing_either(count):
    for total in ("right", "of the page"):
        track, requests = fetch(count, total, limit_max=5)
        assert (track.status, years(track)) == ("answered", list(range(2000, 2000 + count)))
        assert requests <= 3, "one more for a full page, and one for the limit"


@pytest.mark.parametrize("count", [4, 5, 6, 9, 10, 11, 40])
def test_without_a_total_the_longest_pages_follow_each_other_until_one_is_not_full(count):
    for most, limit_max in ((500, 5), (5, 500), (3, 500)):
        track, requests = fetch(count, "absent", most, limit_max)
        assert (track.status, years(track)) == ("answered", list(range(2000, 2000 + count)))
        assert requests <= 3 + count / min(most, limit_max)


@pytest.mark.parametrize(("trusts", "requests"), [(False, 2), (True, 1)])
def test_a_company_with_exactly_a_page_costs_one_more_request_unless_totals_are_known(trusts, requests):
    assert fetch(5, "right", trusts=trusts)[1] == requests


def fetch_together(counts, cut):
    """Ask for all companies at once, of a service that cuts each answer to so many records; None in counts: to none."""
    progress, requests = new_progress(tuple(counts)), 0
    tracks = progress.datasets["financials"]
    while asked := [one for one in progress.pending("financials") if not tracks[one].is_given_up]:
        requests += 1
        assert requests < 500, "no end"
        offset = min(tracks[one].next_offset for one in asked)
        asked, room, elements = [one for one in asked if tracks[one].next_offset == offset], cut, []
        for company in asked:
            total = 40 if counts[company] is None else counts[company]
            left = 0 if counts[company] is None else max(0, min(total - offset, room))
            records = [period(2000 + number) for number in range(offset, offset + left)]
            room -= len(records)
            element = found(company, "financials", *records, offset=offset)
            elements.append(element | {"pagination": {"limit": 500, "offset": offset, "total": total}})
        progress.absorb(header("financials", asked, offset=offset, limit=500), body(*elements))
    return tracks, requests


@pytest.mark.parametrize("cut", [1, 7, 100])
def test_a_company_that_a_cut_answer_leaves_without_records_waits_for_the_others(cut):
    counts = {Company("NL", f"{number:08}"): number for number in range(1, 21)}
    tracks, requests = fetch_together(counts, cut)
    assert {company: len(years(track)) for company, track in tracks.items()} == counts
    assert requests <= 2 * len(counts) + sum(counts.values()) // cut


def test_a_company_whose_records_never_come_does_not_keep_a_run_going():
    tracks, _ = fetch_together({ACME: None, **{Company("NL", f"{n:08}"): 9 for n in range(1, 9)}}, 10)
    assert (tracks[ACME].reason.text, tracks[ACME].is_given_up) == ("an empty page, but a total of 40", True)
    assert [track.status for company, track in tracks.items() if company != ACME] == ["answered"] * 8


def test_a_service_that_orders_each_page_anew_is_asked_for_one_page():
    """The counts fit, but one period came twice and another is missing."""
    progress = new_progress(trusts=True)
    element = found(ACME, "financials", *[period(2000 + n) for n in (4, 5, 6)], total=8, offset=5)
    progress.absorb(*page(ACME, 8, 5))
    progress.absorb(header("financials", [ACME], offset=5, limit=3), body(element))
    track = progress.datasets["financials"][ACME]
    assert (track.status, track.wider, track.reason.text) == ("pending", 8, "a page repeats records of an earlier one")
    progress.absorb(*page(ACME, 8, 8))
    assert (track.status, years(track)) == ("answered", list(range(2000, 2008)))


def test_records_without_a_page_size_and_a_total_are_not_taken_for_the_whole():
    """The service may ignore the limit and give its own default."""
    element = found(ACME, "financials", period())
    element["pagination"] = None
    progress = new_progress()
    progress.absorb(header("financials", [ACME], offset=0, limit=5), body(element))
    assert "number of records is unknown" in progress.datasets["financials"][ACME].reason.text
    assert progress.pending("financials")


def test_no_records_are_the_whole_without_pagination_too():
    element = found(ACME, "financials")
    del element["pagination"], element["data"]
    progress = new_progress()
    progress.absorb(header("financials", [ACME], offset=0, limit=5), body(element))
    assert progress.datasets["financials"][ACME].status == "answered"


def test_a_company_with_a_page_is_not_unknown_because_the_next_page_is_refused():
    progress = new_progress()
    progress.absorb(*page(ACME, 8, 5))
    progress.absorb(header("financials", [ACME], kind="unknown", error="404: Company not found"), b"")
    assert progress.datasets["financials"][ACME].status == "failed"
