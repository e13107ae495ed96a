"""The price of a list: low, expected and worst, from how many of the companies asked so far the service knew."""

from __future__ import annotations

import pytest

from enrich.desk import Desk
from firmlake.enrich.targets import hit_rate_of
from firmlake_sandbox import sample_numbers


@pytest.fixture
def desk(sandbox, tmp_path):
    return Desk(tmp_path, sandbox)


def priced(desk, *options):
    content = desk.call("plan", str(desk.list), "--json", *options).content
    return content["hit_rate"], {each["cut"]: each for each in content["prices"]}


@pytest.mark.parametrize(
    ("hits", "asked", "low", "high"),
    [(0, 0, 0, 1), (1, 1, 0.2065, 1), (0, 10, 0, 0.2775), (81, 263, 0.2553, 0.3662)],  # the last: Newcombe 1998
)
def test_the_interval_is_wilsons(hits, asked, low, high):
    rate = hit_rate_of(hits, asked)
    assert (rate.low, rate.high) == pytest.approx((low, high), abs=5e-5)


def test_before_the_first_answer_nothing_is_expected_and_all_is_possible(desk):
    desk.write(60)
    rate, prices = priced(desk)
    whole = prices["everything due"]
    assert (rate["asked_count"], whole["low"], whole["expected"], whole["worst"]) == (0, 0, None, 60)
    assert sum(each["worst"] for cut, each in prices.items() if cut.startswith("only ")) == 60


@pytest.mark.slow
def test_a_sample_prices_the_rest_by_what_the_service_knew_of_it(desk):
    """Companies bought before cost again once their window is over; those never fetched are a cheaper cut."""
    unknown = [("NL", "17085815"), ("FR", "652014051")]
    desk.write([*unknown, *sample_numbers(28)])
    code, _, err = desk.call("run", str(desk.list), "--sample", "10", "--set", "run.credit_price=0.10 EUR")
    assert code == 0, err
    rate, prices = priced(desk)
    whole, low = prices["everything due"], int(20 * hit_rate_of(8, 10).low)
    assert (rate["hit_count"], rate["asked_count"]) == (8, 10)
    assert (whole["target_count"], whole["low"], whole["expected"], whole["worst"]) == (20, low, 16, 20)
    assert f"credits low {low}, expected 16, worst 20 (0.90 EUR, 1.60 EUR, 2.00 EUR)" in err
    always = ("--set", "run.refresh_after_days=0", "--set", "run.credit_window_days=0")
    _, prices = priced(desk, *always)
    whole, never = prices["everything due"], prices["only companies never fetched"]
    assert (whole["target_count"], whole["low"], whole["expected"], whole["worst"]) == (30, 8 + low, 8 + 16, 30)
    assert (never["target_count"], never["worst"]) == (20, 20)
    key, _, value = never["how"].removeprefix("--set ").partition("=")
    _, cut = priced(desk, *always, "--set", f"{key}={value}")
    assert cut["everything due"]["target_count"] == 20


def test_the_cut_without_lookalikes_is_what_a_run_with_its_option_would_ask(desk):
    _, prices = priced(desk)
    cut = prices["without lookalikes"]
    _, alone = priced(desk, *cut["how"].split(" "))
    assert alone["everything due"]["request_count"] == cut["request_count"] < prices["everything due"]["request_count"]


def test_a_price_without_a_currency_is_refused(desk):
    assert desk.call("plan", str(desk.list), "--set", "run.credit_price=0.12")[0] == 2
