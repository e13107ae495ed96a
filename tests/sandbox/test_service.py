"""What the service remembers: who was paid for, how often it was asked, and what its options and clocks make of it."""

from __future__ import annotations

import pytest

from firmlake_sandbox import sample_numbers
from firmlake_sandbox.state import Account

from .conftest import DATASETS, KBC, STATIC, UNKNOWN

DAY, T = 86_400, 1_800_000_000.0
CHARGED, REMAINING = "X-Credits-Charged", "X-Credits-Remaining"


# --- credits ---------------------------------------------------------------------------------------------------------


def test_a_company_costs_one_credit_once_for_all_endpoints_and_again_after_thirty_days(api, companies):
    first = api.bulk("financials", companies[:50])
    assert (first.headers[CHARGED], first.headers[REMAINING]) == ("50", "999950")
    for dataset in DATASETS:
        assert api.bulk(dataset, companies[:50]).headers[CHARGED] == "0"
        assert api.single(dataset, companies[0]).headers[CHARGED] == "0"
    assert api.single("lookalikes", companies[50]).headers[CHARGED] == "1"
    assert api.bulk("lookalikes", [KBC, "BE403227515", KBC]).headers[CHARGED] == "1", "in both spellings"
    charges = dict.fromkeys([*companies[:51], KBC], 1)
    assert api.sandbox.ledger()["charges"] == charges
    assert api.summary()["credits_charged"] == api.summary()["companies_charged"] == 52
    assert CHARGED not in api.lists().headers
    assert CHARGED not in api.add_contacts(STATIC, {companies[99]: ["123"]}).headers
    api.sandbox.advance(30 * DAY - 60)
    assert api.single("financials", companies[0]).headers[CHARGED] == "0"
    api.sandbox.advance(120)
    assert api.single("financials", companies[0]).headers[CHARGED] == "1"
    assert api.sandbox.ledger()["charges"] == charges | {companies[0]: 2}
    assert (api.summary()["companies_charged_again"], api.summary()["credits_charged"]) == (1, 53)


def test_companies_not_found_are_free_unless_chosen_otherwise(api):
    assert api.single("lookalikes", UNKNOWN).headers[CHARGED] == "0"
    assert api.bulk("lookalikes", [UNKNOWN]).headers[CHARGED] == "0"
    numbers = [country + number for country, number in sample_numbers(400)]
    elements = [one for part in range(0, 400, 100) for one in api.bulk("lookalikes", numbers[part : part + 100]).json()]
    never_found = [number for number, element in zip(numbers, elements, strict=True) if element["message"]]
    api.sandbox.set_options(credits_for_unknown=True)
    assert api.bulk("lookalikes", [UNKNOWN, never_found[0]]).headers[CHARGED] == "1", "only one is well-formed"


def test_where_credits_lack_nothing_is_answered_or_charged(api, companies):
    api.sandbox.set_options(credits=10)
    answer = api.bulk("financials", companies[:11])
    assert answer.json() == {"status": 402, "message": "11 credits needed, 10 left"}
    assert (answer.status_code, answer.headers[CHARGED], answer.headers[REMAINING]) == (402, "0", "10")
    assert api.bulk("financials", companies[:10]).headers[REMAINING] == "0"
    assert api.bulk("lookalikes", companies[:10]).status_code == 200
    assert api.single("lookalikes", companies[10]).status_code == 402


def test_a_book_keeps_what_was_paid_when_the_process_ends(tmp_path):
    book = tmp_path / "paid"
    Account(10, 30, book).charge([1, 2], T)
    book.write_bytes(book.read_bytes() + b"cut")
    Account(10, 30, book).charge([3], T + 1000)
    again = Account(10, 30, book)
    assert (again.find_unpaid([1, 2, 3, 4], T + 1000), again.balance) == ([4], 7)
    assert Account(10, 30, book).find_unpaid([1, 2, 3, 4], T + 500 + 30 * DAY) == [1, 2, 4]
    assert book.stat().st_mode & 0o777 == 0o600


# --- how often -------------------------------------------------------------------------------------------------------


def statuses(api, count):
    return [api.lists().status_code for _ in range(count)]


# By kind of limit: what is let in 30 s after a full burst of ten in second 50 of a minute, which is in the next minute.
@pytest.mark.parametrize(("kind", "allowed"), [("fixed-window", 10), ("sliding-window", 0), ("token-bucket", 5)])
def test_beyond_the_allowance_requests_are_refused_until_a_minute_later(api, kind, allowed):
    api.sandbox.set_options(requests_per_minute=10, rate_limit_kind=kind)
    ticks = api.sandbox.control("POST", "clock", {"seconds": 0})["ticks"]
    api.sandbox.advance(0, rate_seconds=50 - ticks % 60 + 60)
    assert statuses(api, 12) == [200] * 10 + [429] * 2
    api.sandbox.advance(0, rate_seconds=30)
    assert statuses(api, 12).count(200) == allowed
    api.sandbox.advance(60)
    assert statuses(api, 1) == [200]


ABOUT = {"ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"}
ABOUT_LIMIT = {
    "none": set(), "retry-after": {"retry-after"}, "ratelimit": ABOUT, "all": {"retry-after", *ABOUT},
}  # fmt: skip


@pytest.mark.parametrize("choice", ABOUT_LIMIT)
def test_headers_about_the_limit_are_an_option_and_each_token_has_an_allowance_of_its_own(api, choice):
    names, known = ABOUT_LIMIT[choice], {"retry-after", *ABOUT}
    api.sandbox.set_options(requests_per_minute=1, rate_limit_kind="sliding-window", rate_limit_headers=choice)
    first, second = (api.lists().headers for _ in range(2))
    assert known & set(first) == names - {"retry-after"}
    assert known & set(second) == names
    assert all(0 < int(second[name]) <= 60 for name in names & {"retry-after", "ratelimit-reset"})
    headers = {"Authorization": "Bearer second"}
    assert [api.call("GET", "/v1/lists", headers=headers).status_code for _ in range(2)] == [200, 429]
    assert [api.call("GET", "/_sandbox/options").status_code for _ in range(5)] == [200] * 5, "control has no limit"


# --- control ---------------------------------------------------------------------------------------------------------


def test_the_ledger_counts_by_endpoint_and_outcome(api, companies):
    api.bulk("financials", companies[:3])
    api.bulk("financials", [])
    api.single("lookalikes", UNKNOWN)
    api.call("GET", "/nowhere")
    ledger = api.sandbox.ledger()
    assert ledger["summary"]["by_endpoint"] == {
        "financials.bulk": {"200": 1, "400": 1},
        "lookalikes.single": {"404": 1},
        "unknown": {"404": 1},
    }
    assert ledger["summary"]["requests"] == ledger["summary"]["busiest_minute"] == len(ledger["times"]) == 4
    assert ledger["times"] == sorted(ledger["times"])


def test_the_busiest_minute_is_that_of_the_rate_clock(api):
    for seconds in (59, 59, 59 + 120, 0):
        api.lists()
        api.sandbox.advance(seconds)
    assert api.summary()["busiest_minute"] == 2


def test_options_not_named_stay(sandbox):
    before = sandbox.control("GET", "options")
    sandbox.set_options(week=3)
    assert sandbox.control("GET", "options") == before | {"week": 3}
