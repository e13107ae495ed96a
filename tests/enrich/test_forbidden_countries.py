"""A 403 for a whole request, because the token may not ask about one of its countries, costs only that country."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

import firmlake_sandbox
from other_service import start_other_service
from support import DATASETS, query, slow

from .desk import Desk

OF_COUNTRY = 10
EVERY = dict.fromkeys(DATASETS, 1)


def sample(*countries):
    """Give companies of countries, in turn."""
    numbers = firmlake_sandbox.sample_numbers(200)
    of_country = [[one for one in numbers if one[0] == country][:OF_COUNTRY] for country in countries]
    return [one for row in zip(*of_country, strict=True) for one in row]


@pytest.fixture
def desk(tmp_path):
    with start_other_service() as service:
        desk = Desk(tmp_path, service)
        desk.write_companies(sample("BE", "NL", "FR"))
        yield desk


def held(desk):
    """Count the companies by country and status; what is said of one dataset holds for all, or is named."""
    rows = query(desk.folders, "SELECT country, status, dataset, count(*) FROM company_state GROUP BY ALL")
    found = {}
    for country, status, dataset, count in rows:
        found.setdefault((country, status, count), set()).add(dataset)
    return {key if len(of) == len(DATASETS) else (*key, *sorted(of)) for key, of in found.items()}


def pay_nothing_twice(desk):
    assert max(Counter(desk.service.charged).values()) == 1


def cost_of(desk, *arguments):
    """Run, and give the exit code, what was said, and the requests."""
    before = desk.service.requests.copy()
    code, _, said = desk.call(*arguments) if arguments else desk.run()
    return code, said, desk.service.requests - before


@pytest.mark.parametrize("datasets", [*slow(list(DATASETS)), ["lookalikes"]], ids=["every dataset", "one dataset"])
def test_a_forbidden_country_costs_only_its_own_companies(desk, datasets):
    desk.service.forbidden, desk.service.forbidden_in = {"FR"}, set(datasets)
    code, said, requests = cost_of(desk)
    assert code == 3, said
    names = "financials, lookalikes and relationships are" if len(datasets) == 3 else "lookalikes is"
    reason = "The token may not ask about companies in FR (403: Not in your plan)"
    assert said.count(f"{names} forbidden for {OF_COUNTRY} companies ({reason})") == 1
    assert "et a token that may ask about them" in said
    allowed = {("BE", "reported", OF_COUNTRY), ("NL", "reported", OF_COUNTRY)}
    is_part = [] if len(datasets) == 3 else datasets
    fetched = set() if not is_part else {("FR", "reported", OF_COUNTRY, "financials", "relationships")}
    assert held(desk) == allowed | {("FR", "forbidden", OF_COUNTRY, *is_part)} | fetched
    assert len(desk.service.charged) == OF_COUNTRY * (2 if len(datasets) == 3 else 3)
    pay_nothing_twice(desk)
    # The refused page, one company of each country, a second French one, and the page without these.
    assert requests == EVERY | dict.fromkeys(datasets, 6)
    assert query(desk.folders, "SELECT DISTINCT reason FROM dead_letters") == [(reason,)]

    for _ in range(2):
        code, said, requests = cost_of(desk)
        assert code == 3, said
        assert requests == dict.fromkeys(datasets, 1), "one request tells that it is still forbidden"
        assert "The token may not ask about these companies in FR (403: Not in your plan)" in said

    desk.service.forbidden = set()
    code, said, requests = cost_of(desk)
    assert code == 0, said
    assert requests == dict.fromkeys(datasets, 2), "an upgrade is noticed by the same request"
    assert held(desk) == allowed | {("FR", "reported", OF_COUNTRY)}
    assert len(desk.service.charged) == 3 * OF_COUNTRY
    pay_nothing_twice(desk)


def test_a_company_that_answers_leave_out_is_unknown_once_another_country_is_allowed(desk):
    """It was requested before all others, so `redrive` had no answered company beside it, however often it ran."""
    stranger, answer = "999002109", desk.service.answer

    def leave_out(dataset, asked):
        return answer(dataset, [one for one in asked if one["companyNumber"] != stranger])

    desk.service.answer, desk.service.forbidden = leave_out, {"FR"}
    assert desk.run()[0] == 3  # so that earlier runs were answered
    desk.write_companies([("BE", stranger), *sample("FR")])
    assert desk.run("--list-name", "other")[0] == 3
    assert ("BE", "failed", 1) in held(desk)
    desk.service.forbidden = set()
    assert desk.call("redrive")[0] == 0
    assert ("BE", "not_found", 1) in held(desk)


@pytest.mark.slow
def test_two_of_three_countries_are_told_apart_and_each_is_noticed_when_it_is_allowed(desk):
    desk.service.forbidden = {"FR", "BE"}
    code, said, requests = cost_of(desk)
    assert code == 3, said
    assert requests == dict.fromkeys(DATASETS, 7)
    assert held(desk) == {
        ("NL", "reported", OF_COUNTRY),
        ("FR", "forbidden", OF_COUNTRY),
        ("BE", "forbidden", OF_COUNTRY),
    }
    assert cost_of(desk)[2] == dict.fromkeys(DATASETS, 2)
    desk.service.forbidden = {"BE"}
    assert cost_of(desk)[::2] == (3, dict.fromkeys(DATASETS, 3))
    assert ("FR", "reported", OF_COUNTRY) in held(desk)


@pytest.mark.slow
def test_where_every_country_is_forbidden_the_token_is_to_blame(desk):
    desk.service.forbidden = {"FR", "BE", "NL"}
    for _ in range(2):
        code, said, requests = cost_of(desk)
        assert code == 5, said
        assert requests == dict.fromkeys(DATASETS, 4), "the page, and one company of each country"
    desk.service.forbidden = set()
    assert desk.run()[0] == 0
    assert len(desk.service.charged) == 3 * OF_COUNTRY


@pytest.mark.parametrize("count", [*slow(1, 2), OF_COUNTRY])
def test_a_list_of_a_forbidden_country_only_is_a_matter_of_the_token(desk, count):
    desk.write_companies(sample("FR")[:count])
    desk.service.forbidden = {"FR"}
    code, said, requests = cost_of(desk)
    assert code == 5, said
    assert requests == dict.fromkeys(DATASETS, min(count, 2) + (count > 1))
    desk.service.forbidden = set()
    assert desk.run()[0] == 0


@pytest.mark.slow
def test_companies_of_a_forbidden_country_that_join_a_list_do_not_blame_the_token(desk):
    desk.write_companies(sample("BE", "NL"))
    desk.service.forbidden = {"FR"}
    assert desk.run()[0] == 0
    desk.write_companies(sample("BE", "NL", "FR"))
    code, said, requests = cost_of(desk)
    assert code == 3, said
    assert requests == dict.fromkeys(DATASETS, 3)
    assert ("FR", "forbidden", OF_COUNTRY) in held(desk)
    more = [one for one in firmlake_sandbox.sample_numbers(200) if one[0] == "FR"][: 2 * OF_COUNTRY]
    desk.write_companies(sample("BE", "NL") + more)
    code, said, requests = cost_of(desk)
    assert requests == dict.fromkeys(DATASETS, 3), "what was forbidden before is not asked for as well"
    assert said.count("are forbidden for 20 companies (The token may not ask about companies in FR (403: Not in") == 1


@pytest.mark.slow
def test_a_list_in_order_of_country_goes_on_after_a_shard_of_which_all_is_forbidden(desk):
    desk.write_companies(sample("FR") + sample("BE", "NL"))
    desk.service.forbidden = {"FR"}
    code, said, _ = cost_of(desk, "run", str(desk.list), "--set", "run.shard_companies=5")
    assert code == 3, said
    assert len(desk.service.charged) == 2 * OF_COUNTRY
    assert ("FR", "forbidden", OF_COUNTRY) in held(desk)


@pytest.mark.slow
def test_a_budget_goes_to_others_before_companies_that_were_forbidden(desk):
    """Otherwise they would use it up each time, and those behind them would never be asked for."""
    desk.write_companies(sample("FR") + sample("BE"))
    desk.service.forbidden = {"FR"}
    budget = ["run", str(desk.list), "--max-credits", str(OF_COUNTRY)]
    assert [cost_of(desk, *budget)[0] for _ in range(2)] == [4, 4]
    assert ("BE", "reported", OF_COUNTRY) in held(desk)
    assert desk.call(*budget)[0] == 3
    desk.service.forbidden = set()
    assert desk.call(*budget)[0] == 0
    pay_nothing_twice(desk)


@pytest.mark.slow
def test_a_forbidden_dataset_is_named_as_such_and_later_runs_ask_for_one_company_of_each_country(desk):
    desk.service.broken = {"lookalikes": 403}
    code, said, _ = cost_of(desk)
    assert code == 3, said
    assert "lookalikes is forbidden for 30 companies (The token may not use /v1/companies/lookalikes (403" in said
    assert cost_of(desk)[::2] == (3, {"lookalikes": 3})
    desk.service.broken, desk.service.forbidden, desk.service.forbidden_in = {}, {"BE", "NL"}, {"lookalikes"}
    assert cost_of(desk)[::2] == (3, {"lookalikes": 4}), "also if the token was upgraded for one country only"
    assert ("FR", "reported", OF_COUNTRY) in held(desk)
    desk.service.forbidden = set()
    assert desk.run()[0] == 0
    pay_nothing_twice(desk)


@pytest.mark.slow
def test_single_forbidden_companies_cost_no_others_and_are_asked_for_apart_afterwards(desk):
    companies = sample("BE", "NL", "FR")
    single = {"".join(one) for one in companies if one[0] == "NL"}
    single = set(sorted(single)[3:8:4])
    desk.service.forbidden = {"FR", *single}
    code, said, requests = cost_of(desk)
    assert code == 3, said
    assert "may not ask about this company (403: Not in your plan)" in said
    assert ("NL", "forbidden", len(single)) in held(desk)
    assert len(desk.service.charged) == 2 * OF_COUNTRY - len(single)
    assert max(requests.values()) <= 6 + 2 * 5 * len(single)
    assert cost_of(desk)[2] == dict.fromkeys(DATASETS, 2), "one for each country with forbidden companies"
    desk.service.forbidden = {"FR"}
    assert desk.run()[0] == 3
    assert ("NL", "reported", OF_COUNTRY) in held(desk)
    pay_nothing_twice(desk)


@pytest.mark.slow
def test_one_refused_company_closes_no_country_once_the_token_is_known_to_be_good(desk):
    dutch = sample("NL")
    desk.write_companies(sample("BE") + sample("NL", "FR"))
    desk.service.forbidden = {"FR", "".join(dutch[0])}
    code, said, _ = cost_of(desk, "run", str(desk.list), "--set", f"run.shard_companies={OF_COUNTRY}")
    assert code == 3, said
    assert ("NL", "reported", OF_COUNTRY - 1) in held(desk)


@pytest.mark.slow
def test_many_single_forbidden_companies_do_not_close_their_country(desk):
    companies = [one for one in firmlake_sandbox.sample_numbers(200) if one[0] == "NL"]
    desk.write_companies(companies)
    desk.service.forbidden = {"".join(one) for one in companies[1::3]}
    desk.service.forbidden_in = {"lookalikes"}
    code, said, requests = cost_of(desk)
    assert code == 3, said
    count = len(desk.service.forbidden)
    assert count > 10
    assert ("NL", "forbidden", count, "lookalikes") in held(desk)
    assert ("NL", "reported", len(companies) - count, "lookalikes") in held(desk)
    assert requests["lookalikes"] < 2 * len(companies)


@pytest.mark.slow
def test_redrive_asks_one_company_of_a_forbidden_country_and_takes_them_all_once_it_may(desk):
    desk.service.forbidden = {"FR"}
    assert desk.run()[0] == 3
    code, said, requests = cost_of(desk, "redrive")
    assert code == 3, said
    assert requests == EVERY
    assert ("FR", "forbidden", OF_COUNTRY) in held(desk)
    desk.service.forbidden = set()
    assert desk.call("redrive")[0] == 0
    assert ("FR", "reported", OF_COUNTRY) in held(desk)
    pay_nothing_twice(desk)


@pytest.mark.slow
def test_a_token_that_lost_everything_is_to_blame_and_the_run_goes_on_with_another(desk):
    """Even midway: each country is closed after ten companies that were refused alone, in a row."""
    desk.write_companies(firmlake_sandbox.sample_numbers(200))
    narrow = ["run", str(desk.list), "--set", "run.shard_companies=100", "--set", "api.companies_per_request=20"]
    received = []

    def revoke():
        received.append(1)
        if len(received) == 16:
            desk.service.forbidden = {"FR", "BE", "NL"}

    desk.service.on_request = revoke
    code, said, requests = cost_of(desk, *narrow)
    assert code == 5, said
    assert requests.total() < 300
    desk.service.forbidden = set()
    code, said, _ = cost_of(desk, *narrow)
    assert (code, len(desk.service.charged)) == (0, 200), said
    pay_nothing_twice(desk)


@pytest.mark.slow
def test_a_whole_list_that_is_refused_later_is_a_matter_of_the_token(desk):
    desk.service.forbidden = {"FR"}
    assert desk.run()[0] == 3
    desk.service.forbidden = {"FR", "BE", "NL"}
    assert desk.run("--refresh")[0] == 5
    desk.service.forbidden = {"FR"}
    assert desk.run("--refresh")[0] == 3
    assert ("BE", "reported", OF_COUNTRY) in held(desk)


@pytest.mark.parametrize("last", [*slow(2, 4), 9])
def test_a_killed_run_resumes_without_paying_twice(desk, last):
    desk.service.forbidden = {"FR"}
    command = [sys.executable, "-m", "firmlake", "run", str(desk.list)]
    received = []

    def kill():
        received.append(1)
        if len(received) == last:
            run.kill()
            run.wait(60)

    desk.service.on_request = kill
    with subprocess.Popen(command, env={**os.environ, **desk.environment}, stderr=subprocess.DEVNULL) as run:
        assert run.wait(60) == -9
    code, said, requests = cost_of(desk)
    assert code == 3, said
    assert held(desk) == {
        ("NL", "reported", OF_COUNTRY),
        ("FR", "forbidden", OF_COUNTRY),
        ("BE", "reported", OF_COUNTRY),
    }
    assert len(desk.service.charged) == 2 * OF_COUNTRY
    pay_nothing_twice(desk)
    assert max(requests.values()) <= 6


@pytest.mark.slow
def test_a_dataset_that_wants_a_long_pause_with_403_leaves_the_others(desk):
    desk.service.headers = {"Retry-After": "7200"}
    desk.service.broken = {"lookalikes": 403}
    code, said, requests = cost_of(desk)
    assert code == 3, said
    assert requests == EVERY
    assert desk.statuses() == {
        ("financials", "reported"),
        ("lookalikes", "unavailable"),
        ("relationships", "reported"),
    }
    desk.service.broken = {}
    assert desk.run()[0] == 0


@pytest.mark.slow
def test_where_every_dataset_wants_a_long_pause_with_403_the_run_stops(desk):
    desk.service.headers = {"Retry-After": "7200"}
    desk.service.broken = dict.fromkeys(DATASETS, 403)
    code, said, requests = cost_of(desk)
    assert code == 4, said
    assert requests == EVERY
    desk.service.broken = {}
    assert desk.run()[0] == 0


def test_an_answer_that_says_nothing_about_a_company_is_not_asked_for_in_vain(desk):
    """`redrive` would get the same answer: the service has to say what it means."""
    country, number = sample("NL")[0]
    desk.service.unsaid = {country + number}
    code, said, _ = cost_of(desk)
    assert code == 3, said
    assert "ask the service what an element without data, message and name means" in said
    assert "firmlake redrive" not in said
    assert "firmlake redrive" not in desk.status()["next_step"]
