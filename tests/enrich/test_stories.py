"""A dataset, a country or a company that is not to be had ends no run: it is named, kept, probed again, and paid once.

Each cause is told alike by whoever is asked, and its advice works when it is followed.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any, NamedTuple

import pytest

import firmlake_sandbox
from other_service import start_other_service
from support import DATASETS, lose_patience, query, slow

from .desk import COUNT, Desk

OF_COUNTRY = 10
STATUS = {403: "forbidden", 500: "unavailable", "html": "unavailable", 404: "unavailable", 400: "unavailable"}
FINE = ("reported", OF_COUNTRY)
BARRED = ("forbidden", OF_COUNTRY)


def sample(*countries):
    """Give companies of countries, in turn."""
    numbers = firmlake_sandbox.sample_numbers(200)
    of_country = [[one for one in numbers if one[0] == country][:OF_COUNTRY] for country in countries]
    return [one for row in zip(*of_country, strict=True) for one in row]


@pytest.fixture
def desk(tmp_path, monkeypatch):
    lose_patience(monkeypatch)
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
    broken: dict[str, int | str] | None = None
    headers: dict[str, str] | None = None
    lines: list[tuple[str, str]] | None = None
    options: tuple[str, ...] = ()
    redrive: bool = False


def of_first(count: int, others: int) -> dict[str, int]:
    """Requests of the first dataset, and of each other one."""
    return {**dict.fromkeys(DATASETS, others), "financials": count}


DUTCH, FRENCH = sample("NL"), [one for one in firmlake_sandbox.sample_numbers(200) if one[0] == "FR"]
BUDGET = ("--max-credits", str(OF_COUNTRY))
PLAN = "The token may not ask about companies in FR (403: Not in your plan)"
ALL = {(dataset, "reported") for dataset in DATASETS}
ALLOWED = (("BE", *FINE), ("NL", *FINE))
STORIES = {
    # The refused page, a company of each country, another French one, and the page without these. In the other datasets
    # and later, one French company tells that the country is still forbidden, or no longer.
    "every dataset": [
        Step(
            3, of_first(6, 2), (*ALLOWED, ("FR", *BARRED)), f"are forbidden for {OF_COUNTRY} companies ({PLAN})",
            forbidden={"FR"},
        ),
        Step(3, 1, said=PLAN),
        Step(0, 2, (*ALLOWED, ("FR", *FINE)), forbidden=set()),
    ],
    "one dataset": [
        Step(
            3, {"financials": 1, "lookalikes": 6, "relationships": 3},
            (*ALLOWED, ("FR", *BARRED, "lookalikes"), ("FR", *FINE, "financials", "relationships")),
            "et a token that may ask about them", forbidden={"FR"}, forbidden_in={"lookalikes"},
        ),
        Step(3, {"lookalikes": 1}),
        Step(0, {"lookalikes": 2}, (("FR", *FINE),), forbidden=set()),
    ],
    # The forbidden dataset, the unavailable one and the forbidden country are each found and probed apart.
    "each dataset in its own way": [
        Step(
            3, None,
            (("BE", *BARRED, "financials"), ("NL", "unavailable", OF_COUNTRY, "lookalikes"),
             ("BE", *FINE, "relationships"), ("FR", *BARRED, "financials", "relationships")),
            f"financials is forbidden for {COUNT} companies", forbidden={"FR"}, forbidden_in={"relationships"},
            broken={"financials": 403, "lookalikes": 500},
        ),
        Step(3, None, said=f"lookalikes is unavailable for {COUNT} companies"),
        Step(0, None, (*ALLOWED, ("FR", *FINE)), broken={}, forbidden=set(), redrive=True),
    ],
    "two of three countries": [
        Step(3, of_first(7, 3), (("NL", *FINE), ("FR", *BARRED), ("BE", *BARRED)), forbidden={"FR", "BE"}),
        Step(3, 2),
        Step(3, 3, (("FR", *FINE),), forbidden={"BE"}),
    ],
    "every country is a matter of the token": [
        Step(5, of_first(4, 3), forbidden={"FR", "BE", "NL"}),
        Step(5, of_first(4, 3)),
        Step(0, forbidden=set()),
    ],
    "a list of one forbidden country is too": [Step(5, of_first(3, 1), forbidden={"FR"}, lines=sample("FR"))],
    "companies of a forbidden country that join a list blame nobody": [
        Step(0, forbidden={"FR"}, lines=sample("BE", "NL")),
        Step(3, of_first(3, 1), (("FR", *BARRED),), lines=sample("BE", "NL", "FR")),
        Step(
            3, of_first(3, 1), said=f"are forbidden for 20 companies ({PLAN}",
            lines=sample("BE", "NL") + FRENCH[: 2 * OF_COUNTRY],
        ),
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
    "a forbidden dataset is named as such": [
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
        Step(3, 1 + 3),
        Step(3, 1 + 3, (("NL", "forbidden", 1),), forbidden={"FR", "".join(DUTCH[3])}),
        Step(3, None, (("NL", *FINE),), forbidden={"FR"}),
    ],
    "a dataset that wants a long pause with 403 leaves the others": [
        Step(3, 1, broken={"lookalikes": 403}, headers={"Retry-After": "7200"}),
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


def of_dataset(dataset, broken):
    """One that is not to be had: the others are published, and few requests show each time whether it is still so."""
    others = tuple(other for other in DATASETS if other != dataset)
    of_country = [((country, *FINE, *others), (country, STATUS[broken], OF_COUNTRY, dataset)) for country in COUNTRIES]
    return [
        Step(3, None, sum(of_country, ()), f"{dataset} is {STATUS[broken]} for {COUNT} companies",
             broken={dataset: broken}),
        Step(3, {dataset: 3} if broken == 403 else None),
        Step(0, None, tuple((country, *FINE) for country in COUNTRIES), broken={}, redrive=True),
    ]  # fmt: skip


COUNTRIES = ("BE", "FR", "NL")
STORIES |= {
    f"{dataset} answers {broken}": of_dataset(dataset, broken)
    for broken, dataset in product(STATUS, DATASETS)
    if (broken, dataset) != (400, "financials")  # where the first request of all is refused, the settings do not fit
}
# One way of being forbidden and one of being unavailable at once; `-m slow` tries every pair.
_USUAL = ("each dataset in its own way", "a list of one forbidden country is too")


@pytest.mark.parametrize("name", [*_USUAL, *slow(*(name for name in STORIES if name not in _USUAL))])
@pytest.mark.slow
def test_a_country_that_is_forbidden_costs_only_its_companies_and_nothing_is_paid_twice(desk, name):
    for step in STORIES[name]:
        service = desk.service
        if step.forbidden is not None:
            service.forbidden, service.forbidden_in = step.forbidden, step.forbidden_in or set(DATASETS)
        service.broken = service.broken if step.broken is None else step.broken
        service.headers = service.headers if step.headers is None else step.headers
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
        assert max(Counter(desk.service.charged).values(), default=1) == 1


@pytest.mark.slow
def test_a_company_that_answers_leave_out_is_unknown_once_others_are_answered_until_somebody_asks_for_it_alone(desk):
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
    desk.service.answer = answer
    assert desk.call("company", "BE", stranger)[0] == 0
    assert desk.statuses() == ALL


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


@pytest.mark.slow
@pytest.mark.parametrize("broken", [403, *slow(500)])
def test_old_rows_stay_when_a_dataset_is_no_longer_to_be_had(desk, broken):
    assert desk.run()[0] == 0
    rows = query(desk.folders, "FROM lookalikes ORDER BY ALL")
    desk.service.broken["lookalikes"] = broken
    assert desk.run("--refresh")[0] == 3
    assert query(desk.folders, "FROM lookalikes ORDER BY ALL") == rows
    assert ("lookalikes", STATUS[broken]) in desk.statuses()
    counts = query(desk.folders, "SELECT count(fetched_at), sum(record_count) FROM company_state")
    assert counts == [(3 * COUNT, 3 * COUNT)], "what is held stays described"


# What every dataset answers with -> exit code, requests until the run ends, and what it says of each dataset.
NOTHING_TO_HAVE = [
    (403, 5, {"financials": 3, "lookalikes": 1, "relationships": 1}, ["/v1/companies/{} (403: Not for you)"]),
    *slow(
        (404, 1, dict.fromkeys(DATASETS, 9), ["/v1/companies/financials (404", "base_url"]),
        (410, 1, dict.fromkeys(DATASETS, 9), ["/v1/companies/financials (410", "base_url"]),
        (500, 1, None, ["/v1/companies/{}"]),
        ("hang", 1, {"financials": 3, "lookalikes": 1, "relationships": 1}, ["was not answered in 3 tries"]),
    ),
]


@pytest.mark.parametrize(("broken", "code", "requests", "words"), NOTHING_TO_HAVE)
def test_where_no_dataset_is_to_be_had_the_run_ends_soon_and_buys_nothing(desk, broken, code, requests, words):
    """A token that may do nothing, settings that do not fit, or a service that is down."""
    desk.write(COUNT)
    desk.service.broken = dict.fromkeys(DATASETS, broken)
    ended, _, said = desk.run("--set", "api.read_timeout_seconds=0.2")
    assert (ended, desk.service.charged) == (code, []), said
    assert requests == desk.service.requests if requests else desk.service.requests.total() < 40
    assert all(word.format(dataset) in said for dataset in DATASETS for word in words)
    assert desk.status()["unfinished"] == [] or broken not in (404, 410), "there is nothing to go on with"
    desk.service.ended.set()
    desk.service.broken.clear()
    if code == 1:
        assert desk.run()[0] == 0
        all_is_well(desk)


@pytest.mark.slow
def test_a_company_that_always_fails_does_not_keep_its_dataset_away(desk):
    """One company alone says nothing about its dataset."""
    desk.write(1)
    [(country, number)] = firmlake_sandbox.sample_numbers(1)
    desk.service.poison = {country + number.lstrip("0")}
    assert desk.run()[0] == 3
    assert {status for _, status in desk.statuses()} == {"failed"}
    desk.write(COUNT)
    assert desk.run()[0] == 3
    found = query(desk.folders, "SELECT count(*) FROM company_state WHERE status IN ('reported', 'empty')")
    assert found == [(3 * (COUNT - 1),)]


# --- each cause: whoever asks hears the same, and the advice works when it is followed --------------------------------


def all_is_well(desk):
    found = desk.statuses()
    assert found == ALL, found
    assert desk.status()["next_step"] == "Nothing to do"
    assert len(desk.service.charged) == COUNT


COUNTRY, NUMBER = sample("BE")[0]
ONE = {COUNTRY + NUMBER, COUNTRY + NUMBER.lstrip("0")}
REDRIVE = ("redrive",)
LEAST = ("--refresh", "--set", "run.vanished_records_min=5")
LOST = "financials records no longer have healthIndicator"
# What is wrong with the service, the options of a run -> exit code, what it says, the way out, and the command of it.
CAUSES = {
    "a company failed": ({"poison": ONE}, (), 3, "1 company failed", "`firmlake redrive` asks again", REDRIVE),
    "a record was rejected": (
        {"reject": ONE}, (), 3, "1 company has records that do not fit", "`firmlake redrive` asks again", REDRIVE,
    ),
    "credits ran out": ({"allowed_credits": 0}, (), 4, "credits are used up", "Add credits and run again", ()),
    "a budget of credits": ({}, ("--max-credits", "0"), 4, "leaves out 30 companies", "run.max_credits higher", ()),
    "a part of a budget": ({}, ("--max-credits", "10"), 4, "leaves out 20 companies", "list.csv again", ()),
    "a budget of requests": ({}, ("--max-requests", "1"), 4, "run.max_requests = 1 is used up", "to continue", ()),
    "a pause": (
        {"headers": {"Retry-After": "7200"}, "broken": dict.fromkeys(DATASETS, 429)}, (), 4, "a pause of 120 minutes",
        "Run again after that", (),
    ),
    "the token": (
        {"broken": dict.fromkeys(DATASETS, 401)}, (), 5, "does not accept the token", "Get a valid token", (),
    ),
    "a field vanished": ({"lost": {"healthIndicator"}}, LEAST, 6, LOST, "list.csv again once the service sends", ()),
    # The other way out publishes the same answers without a request.
    "a field vanished for good": (
        {"lost": {"healthIndicator"}}, LEAST, 6, LOST, "run.vanished_share_max=1 publishes run",
        ("--set", "run.vanished_share_max=1"),
    ),
    "nothing is said of a company": (
        {"unsaid": ONE}, (), 3, "", "ask the service what an element without data, message and name means", REDRIVE,
    ),
}  # fmt: skip
_BY_DEFAULT = ("a budget of credits",)


@pytest.mark.parametrize("cause", [*_BY_DEFAULT, *slow(*(name for name in CAUSES if name not in _BY_DEFAULT))])
@pytest.mark.slow
def test_whoever_asks_hears_the_same_cause_and_the_advice_works(desk, cause):
    wrong, options, code, text, advice, way_out = CAUSES[cause]
    if "lost" in wrong:
        assert desk.run()[0] == 0
    rows = query(desk.folders, "FROM financials ORDER BY ALL") if "lost" in wrong else []
    usual = {name: getattr(desk.service, name) for name in wrong}
    for name, value in wrong.items():
        setattr(desk.service, name, value)
    ended, _, said = desk.run(*options)
    assert ended == code, said
    status = desk.status()
    assert text in said, said
    assert advice in said, said
    assert advice in status["next_step"]
    if code == 3:
        reasons = query(desk.folders, "SELECT DISTINCT reason FROM dead_letters")
        assert {(reason,) for _, reason, _ in status["parked"]} == set(reasons) or cause == "a record was rejected"
    if code == 6:
        assert status["refused"][0][1] == "list.csv"
        assert query(desk.folders, "FROM financials ORDER BY ALL") == rows
    publishes_what_landed = bool(way_out) and way_out != REDRIVE
    for name, value in usual.items():
        setattr(desk.service, name, value)
    before = desk.service.requests.total()
    refresh = options[:1] if code == 6 and not way_out else ()
    ended, _, said = desk.call("redrive") if way_out == REDRIVE else desk.run(*way_out, *refresh)
    assert ended == 0, said
    assert not publishes_what_landed or desk.service.requests.total() == before
    all_is_well(desk)


@pytest.mark.slow
def test_an_unfinished_step_outward_names_the_list_and_the_option(desk):
    with_steps = ["--expand", "lookalikes", "--depth", "1"]
    code, _, said = desk.run(*with_steps, "--max-credits", str(COUNT))
    assert (code, "leaves out 1 company" in said) == (4, True), said
    advice = "run list.csv again with --expand lookalikes --depth 1"
    assert advice in said
    assert advice in desk.status()["next_step"]
    assert desk.run(*with_steps)[0] == 0
    assert desk.status()["next_step"] == "Nothing to do"
