"""What `check` says of messages beside records and of charges, from a handful of answers."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from firmlake.api import requests
from firmlake.api.exchange import Answer
from firmlake.check.limits import choose_repeated, find_messages, find_not_found
from firmlake.check.questions import find_credits
from firmlake.check.talk import Talk
from firmlake.core.settings import ApiSettings, Settings
from firmlake.enrich.check import Checked
from firmlake.terminal.rows import show
from firmlake.terminal.runs import checked_parts
from support import ACME, BOLT, NOON, found, not_found, period

API = ApiSettings()


def answer(*elements, limit=None, offset=None, dataset="financials", headers=None, status=200):
    request = requests.bulk(API, dataset, [ACME, BOLT], limit, offset)
    return Answer(request, 1, status, "", headers or {}, json.dumps(elements).encode(), NOON, 0.1, 0)


@pytest.mark.parametrize(
    ("messages", "verdict", "settings"),
    [
        ((None, None), "as_assumed", {}),
        (("OK", "ok"), "covered", {}),
        (("Done", "Done"), "covered", {"api.names.success_message": "Done"}),
        (("1 record", "2 records"), "needs_you", {}),
        (("Try again later", "Try again later"), "needs_you", {}),
    ],
)
def test_the_message_beside_records_is_found(messages, verdict, settings):
    elements = [
        {**found(company, "financials", period()), "message": message}
        for company, message in zip((ACME, BOLT), messages, strict=True)
    ]
    finding = find_messages(SimpleNamespace(api=API), {"financials": answer(*elements)})
    assert (finding.verdict, finding.settings) == (verdict, settings)


@pytest.mark.parametrize("change", [{}, {"data": None, "message": None}], ids=["absent", "null"])
def test_an_absent_array_is_named(change):
    element = found(ACME, "lookalikes")
    del element["data"], element["message"]
    finding = find_messages(SimpleNamespace(api=API), {"lookalikes": answer(element | change, dataset="lookalikes")})
    said = "no `data` for 1 of 1; read as no records if the company has a name"
    assert (finding.verdict, finding.seen) == ("covered", said)


@pytest.mark.parametrize(("falls", "are_credits"), [((0, 1, 0, 1, 0), True), ((1,) * 5, False), ((0,) * 5, False)])
def test_what_is_left_of_a_quota_are_credits_if_it_fell_by_companies(falls, are_credits):
    """A quota of requests falls by one with each."""
    left = [str(1000 - sum(falls[:place])) for place in range(6)]
    talk = Talk.__new__(Talk)
    talk.api, talk.answers = API, [answer(headers={"x-quota-remaining": count}) for count in left]
    settings = next(find_credits(talk, [ACME, BOLT], None)).settings
    assert settings == ({"api.names.credits_remaining_header": "x-quota-remaining"} if are_credits else {})


def test_credits_of_a_service_that_tells_only_what_is_left_are_seen():
    talk = Talk.__new__(Talk)
    talk.api = API
    talk.answers = [answer(headers={"x-credits-remaining": left}) for left in ("90", "89", "88", "88")]
    headers, price = find_credits(talk, [ACME, BOLT], None)
    assert headers.seen == "x-credits-remaining; firmlake counts the credits of a run itself"
    assert (price.seen, price.verdict) == ("2 for 2 companies, then free", "as_assumed")


def test_a_check_does_not_say_that_nothing_was_charged_if_nobody_told_it(capsys):
    show(checked_parts(Checked([], Settings(), {}, 30, None)))
    assert "credits unknown" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("headers", "charged"),
    [
        ([{"x-credits-charged": "1.00"}, {"x-credits-charged": "2 credits"}], 3),
        ([{"x-credits-remaining": "90.00"}, {"x-credits-remaining": "70"}], 20),
        ([{"x-credits-charged": "1", "x-credits-remaining": "90"}, {"x-credits-remaining": "50"}], 1),
        ([{}, {}], 0),
    ],
)
def test_charges_are_read_in_any_spelling_or_from_what_is_left(headers, charged):
    """What is left may fall for others who use the key, so it counts only if no charge is told."""
    talk = Talk.__new__(Talk)
    talk.api, talk.answers = API, [answer(headers=one) for one in headers]
    assert (talk.charged, talk.tells_credits) == (charged, bool(charged))


@pytest.mark.parametrize(
    ("told", "repeats", "chosen"),
    [(True, True, [ACME]), (True, False, []), (False, True, [ACME, BOLT]), (False, False, [])],
)
def test_a_company_is_named_many_times_only_where_that_should_cost_nothing(told, repeats, chosen):
    """One that headers show to be free, or else one that does not exist."""
    talk = SimpleNamespace(
        charged=1, tells_credits=told, bulk=lambda dataset, named, size: answer(*[{}] * size * repeats)
    )
    assert choose_repeated(talk, "lookalikes", ACME, BOLT) == chosen


def test_words_for_an_unknown_company_that_name_it_are_written_for_any():
    """Otherwise the setting would hold for the company of the check alone."""
    refused = answer(not_found(BOLT, message=f"No company NL/{BOLT.company_number} could be found"))
    talk = SimpleNamespace(api=API, bulk=lambda dataset, companies: refused)
    finding = find_not_found(talk, "lookalikes", ACME, BOLT)
    assert finding.settings == {"api.names.not_found_message": "No company {country}/{number} could be found"}


def test_words_of_a_passing_fault_are_not_taken_for_those_about_an_unknown_company():
    """Otherwise every company that fails in these words would count as unknown."""
    refused = answer(not_found(BOLT, message="Temporarily unavailable"))
    talk = SimpleNamespace(api=API, bulk=lambda dataset, companies: refused)
    finding = find_not_found(talk, "lookalikes", ACME, BOLT)
    assert (finding.verdict, finding.settings) == ("needs_you", {})
