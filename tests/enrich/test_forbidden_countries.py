"""A 403 for a whole request, because the token may not ask about one of its countries, costs only that country."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from typing import Any, NamedTuple

import pytest

import firmlake_sandbox
from other_service import start_other_service
from support import DATASETS, query, slow

from .desk import Desk

OF_COUNTRY = 10
FINE = ("reported", OF_COUNTRY)
BARRED = ("forbidden", OF_COUNTRY)


def sample(*countries):
    """Give companies of countries, in turn."""
    numbers = firmlake_sandbox.sample_numbers(200)
    of_country = [[one for one in numbers if one[0] == country][:OF_COUNTRY] for country in countries]
    return [one for row in zip(*of_country, strict=True) for one in row]


@pytest.fixture
def desk(tmp_path):
    with start_other_service() as service:
        desk = Desk(tmp_path, service)
        desk.write(sample("BE", "NL", "FR"))
        yield desk


def held(desk):
    """Count the companies by country and status; what is said of one dataset holds for all, or is named."""
    rows = query(desk.folders, "SELECT country, status, dataset, count(*) FROM company_state GROUP BY ALL")
    found = {}
    for country, status, dataset, count in rows:
        found.setdefault((country, status, count), set()).add(dataset)
    return {key if len(of) == len(DATASETS) else (*key, *sorted(of)) for key, of in found.items()}


class Step(NamedTuple):
    """A call, and what it must come to: exit code, requests of each dataset that was asked, and part of the state."""

    code: int
    requests: int | dict[str, int] | None = None
    held: tuple[tuple[Any, ...], ...] = ()
    said: str = ""
    forbidden: set[str] | None = None
    forbidden_in: set[str] | None = None
    broken: dict[str, int] | None = None
    lines: list[tuple[str, str]] | None = None
    options: tuple[str, ...] = ()
    redrive: bool = False


DUTCH, FRENCH = sample("NL"), [one for one in firmlake_sandbox.sample_numbers(200) if one[0] == "FR"]
BUDGET = ("--max-credits", str(OF_COUNTRY))
PLAN = "The token may not ask about companies in FR (403: Not in your plan)"
ALLOWED = (("BE", *FINE), ("NL", *FINE))
STORIES = {
    # The refused page, one company of each country, a second French one, and the page without these. Later one request
    # tells that it is still forbidden; the same request notices an upgrade.
    "every dataset": [
        Step(3, 6, (*ALLOWED, ("FR", *BARRED)), f"are forbidden for {OF_COUNTRY} companies ({PLAN})", forbidden={"FR"}),
        Step(3, 1, said="The token may not ask about these companies in FR (403: Not in your plan)"),
        Step(0, 2, (*ALLOWED, ("FR", *FINE)), forbidden=set()),
    ],
    "one dataset": [
        Step(
            3, {"financials": 1, "lookalikes": 6, "relationships": 1},
            (*ALLOWED, ("FR", *BARRED, "lookalikes"), ("FR", *FINE, "financials", "relationships")),
            "et a token that may ask about them", forbidden={"FR"}, forbidden_in={"lookalikes"},
        ),
        Step(3, {"lookalikes": 1}),
        Step(0, {"lookalikes": 2}, (("FR", *FINE),), forbidden=set()),
    ],
    "two of three countries": [
        Step(3, 7, (("NL", *FINE), ("FR", *BARRED), ("BE", *BARRED)), forbidden={"FR", "BE"}),
        Step(3, 2),
        Step(3, 3, (("FR", *FINE),), forbidden={"BE"}),
    ],
    "every country is a matter of the token": [
        Step(5, 4, forbidden={"FR", "BE", "NL"}),
        Step(5, 4),
        Step(0, forbidden=set()),
    ],
    "a list of one forbidden country is too": [
        Step(5, 3, forbidden={"FR"}, lines=sample("FR")),
        Step(0, forbidden=set()),
    ],
    "companies of a forbidden country that join a list blame nobody": [
        Step(0, forbidden={"FR"}, lines=sample("BE", "NL")),
        Step(3, 3, (("FR", *BARRED),), lines=sample("BE", "NL", "FR")),
        Step(3, 3, said=f"are forbidden for 20 companies ({PLAN}", lines=sample("BE", "NL") + FRENCH[: 2 * OF_COUNTRY]),
    ],
    "a shard of which all is forbidden": [
        Step(
            3, None, (("FR", *BARRED),), forbidden={"FR"}, lines=sample("FR") + sample("BE", "NL"),
            options=("--set", "run.shard_companies=5"),
        ),
    ],
    # Otherwise forbidden companies would use up the budget each time.
    "a budget goes to others first": [
        Step(4, forbidden={"FR"}, lines=sample("FR") + sample("BE"), options=BUDGET),
        Step(4, None, (("BE", *FINE),), options=BUDGET),
        Step(3, options=BUDGET),
        Step(0, forbidden=set(), options=BUDGET),
    ],
    "a forbidden dataset is named as such, then asked for one company of each country": [
        Step(3, None, (), "forbidden for 30 companies (The token may not use /v1/companies/lookalikes (403",
             broken={"lookalikes": 403}),
        Step(3, {"lookalikes": 3}),
        Step(3, {"lookalikes": 4}, (("FR", *FINE),), broken={}, forbidden={"BE", "NL"}, forbidden_in={"lookalikes"}),
        Step(0, forbidden=set()),
    ],
    "one refused company closes no country": [
        Step(
            3, None, (("NL", "reported", OF_COUNTRY - 1),), forbidden={"FR", "".join(DUTCH[0])},
            lines=sample("BE") + sample("NL", "FR"), options=("--set", f"run.shard_companies={OF_COUNTRY}"),
        ),
    ],
    "single companies are asked for apart": [
        Step(3, None, (("NL", "forbidden", 2),), "may not ask about this company (403: Not in your plan)",
             forbidden={"FR", "".join(DUTCH[3]), "".join(DUTCH[7])}),
        Step(3, 2),
        Step(3, None, (("NL", *FINE),), forbidden={"FR"}),
    ],
    "redrive takes them all once it may": [
        Step(3, forbidden={"FR"}),
        Step(3, 1, (("FR", *BARRED),), redrive=True),
        Step(0, None, (("FR", *FINE),), forbidden=set(), redrive=True),
    ],
    "a whole list that is refused later is a matter of the token": [
        Step(3, forbidden={"FR"}),
        Step(5, forbidden={"FR", "BE", "NL"}, options=("--refresh",)),
        Step(3, None, (("BE", *FINE),), forbidden={"FR"}, options=("--refresh",)),
    ],
}  # fmt: skip
_USUAL = ("one dataset", "a list of one forbidden country is too")


@pytest.mark.parametrize("name", [*_USUAL, *slow(*(name for name in STORIES if name not in _USUAL))])
def test_a_country_that_is_forbidden_costs_only_its_companies_and_nothing_is_paid_twice(desk, name):
    for step in STORIES[name]:
        service = desk.service
        if step.forbidden is not None:
            service.forbidden, service.forbidden_in = step.forbidden, step.forbidden_in or set(DATASETS)
        service.broken = service.broken if step.broken is None else step.broken
        if step.lines:
            desk.write(step.lines)
        before = service.requests.copy()
        code, _, said = desk.call("redrive") if step.redrive else desk.run(*step.options)
        assert code == step.code, said
        assert step.said in said
        requests = step.requests if isinstance(step.requests, dict) else dict.fromkeys(DATASETS, step.requests)
        assert step.requests is None or service.requests - before == requests
        assert not step.held or set(step.held) <= held(desk)
    if "--refresh" not in STORIES[name][-1].options:
        assert max(Counter(desk.service.charged).values()) == 1


def test_a_company_that_answers_leave_out_is_unknown_once_another_country_is_allowed(desk):
    """It was requested before all others, so `redrive` had no answered company beside it, however often it ran."""
    stranger, answer = "999002109", desk.service.answer

    def leave_out(dataset, asked):
        return answer(dataset, [one for one in asked if one["companyNumber"] != stranger])

    desk.service.answer, desk.service.forbidden = leave_out, {"FR"}
    assert desk.run()[0] == 3  # so that earlier runs were answered
    desk.write([("BE", stranger), *sample("FR")])
    assert desk.run("--list-name", "other")[0] == 3
    assert ("BE", "failed", 1) in held(desk)
    desk.service.forbidden = set()
    assert desk.call("redrive")[0] == 0
    assert ("BE", "not_found", 1) in held(desk)


@pytest.mark.slow
def test_a_token_that_lost_everything_midway_is_to_blame_and_the_run_goes_on_with_another(desk):
    """Each country is closed after ten companies that were refused alone, in a row."""
    desk.write(firmlake_sandbox.sample_numbers(200))
    narrow = ["run", str(desk.list), "--set", "run.shard_companies=100", "--set", "api.companies_per_request=20"]
    received = []

    def revoke():
        received.append(1)
        if len(received) == 16:
            desk.service.forbidden = {"FR", "BE", "NL"}

    desk.service.on_request = revoke
    code, _, said = desk.call(*narrow)
    assert code == 5, said
    assert desk.service.requests.total() < 300
    desk.service.forbidden = set()
    code, _, said = desk.call(*narrow)
    assert (code, len(desk.service.charged), len(set(desk.service.charged))) == (0, 200, 200), said


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
    before = desk.service.requests.copy()
    code, _, said = desk.run()
    assert code == 3, said
    assert held(desk) == {*ALLOWED, ("FR", *BARRED)}
    assert len(desk.service.charged) == len(set(desk.service.charged)) == 2 * OF_COUNTRY
    assert max((desk.service.requests - before).values()) <= 6


@pytest.mark.slow
def test_a_dataset_that_wants_a_long_pause_with_403_leaves_the_others(desk):
    desk.service.headers, desk.service.broken = {"Retry-After": "7200"}, {"lookalikes": 403}
    code, _, said = desk.run()
    assert code == 3, said
    assert desk.service.requests == dict.fromkeys(DATASETS, 1)
