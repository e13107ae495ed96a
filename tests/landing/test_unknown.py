"""Companies that a service does not know, where it says so other than by an element: remembered only with proof."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import msgspec
import pytest

import firmlake_sandbox
from firmlake.api.service import stamp_service
from firmlake.core.company import Company, normal_form
from firmlake.core.errors import RequestRefusedError, ServiceError
from firmlake.core.settings import ApiSettings, NameSettings, Settings
from firmlake.landing.run import Run
from firmlake.tables.flatten import flatten_shard
from lake import Lake
from other_service import start_other_service
from support import DATASETS, make_run, slow

from .conftest import held, name_of, requests, statuses

KNOWN = [normal_form(*pair) for pair in firmlake_sandbox.sample_numbers(300)]
STRANGERS = [Company("BE", number) for number in ("0999002109", "0999003988", "0999004978")]
NAMED = NameSettings(not_found_message="Unknown company {country}{number}")
MIXED = [*KNOWN[:30], *STRANGERS, *KNOWN[30:60]]


@pytest.mark.parametrize("dialect", ["not-found-omitted", "not-found-refused"])
def test_unknown_companies_are_told_from_failed_ones_and_others_lose_nothing(sandbox, folders, fetch, dialect):
    sandbox.set_options(dialect=[])
    plain = make_run(folders, MIXED)
    fetch(plain)
    expected, asked = held(plain), requests(sandbox)
    sandbox.set_options(dialect=[dialect])
    run = make_run(folders, MIXED, run_id="20260105T120000Z-0002")
    fetch(run)
    assert held(run) == expected
    unknown = [dataset for (_, dataset), (status, *_) in held(run).items() if status == "not_found"]
    assert {expected[company, dataset][0] for company in STRANGERS for dataset in DATASETS} == {"not_found"}
    tables = dict(flatten_shard(run, 1))
    assert tables["dead_letters"].is_empty()
    assert tables["company_state"].filter(status="not_found")["fetched_at"].null_count() == 0, "it is fresh"
    if dialect == "not-found-omitted":
        assert requests(sandbox) - 2 * asked == 2 * len(DATASETS)
        drift = tables["drift"].filter(kind="left_out")
        assert dict(drift.select("dataset", "record_count").rows()) == Counter(unknown)


@pytest.mark.parametrize("is_resumed", [False, True])
def test_a_shard_of_unknown_companies_has_its_witness_in_an_earlier_one(sandbox, folders, fetch, is_resumed):
    """Left alone, their answers are empty arrays: the run ended after five minutes, and again whenever it resumed."""
    sandbox.set_options(dialect=["not-found-omitted"])
    run = make_run(folders, [*KNOWN[:3], *STRANGERS], shard_companies=3)
    if is_resumed:
        fetch(Run(folders, msgspec.structs.replace(run.plan, shard_count=1)))
    fetch(run)
    assert {held(run)[company, dataset][0] for company in STRANGERS for dataset in DATASETS} == {"not_found"}
    assert {held(run)[company, dataset][0] for company in KNOWN[:3] for dataset in DATASETS} <= {"answered"}
    assert requests(sandbox) <= 25


def test_a_run_goes_on_for_unknown_companies_after_its_budget_ended(sandbox, tmp_path):
    """The companies that it has paid for are free: one of them is the witness, though only other datasets want it."""
    sandbox.set_options(dialect=["not-found-omitted"])
    lake = Lake(tmp_path, sandbox, 8, run__datasets="lookalikes,relationships")
    lake.list.write_text(lake.list.read_text() + "".join(f"{one.country},{one.company_number}\n" for one in STRANGERS))
    assert lake.run("--set", "run.max_requests=1").code == 4
    run = lake.run()
    assert run.code == 0, run.err
    counts = "SELECT dataset, count(*) FROM company_state WHERE status = 'not_found' GROUP BY ALL ORDER BY ALL"
    assert lake.query(counts) == [("lookalikes", 3), ("relationships", 3)]
    assert run.content["credit_count"] == 0


class Scene(NamedTuple):
    """What a service leaves out, and what a run makes of that.

    Attributes:
        companies: The companies of the run.
        dialect: How the service treats unknown companies.
        lost: Companies that a fault leaves out of its answers.
        expected: Companies with periods in an earlier run.
        is_known: Whether earlier runs were answered.
        status: What becomes of the lost companies, or of those of the run if none is lost; an error ends the run.
        most: The most requests.
    """

    companies: list[Company]
    dialect: str
    lost: list[Company]
    expected: list[Company]
    is_known: bool
    status: Any
    most: int = 999


SCENES = {
    "known by an earlier run or by another dataset": Scene(
        KNOWN[:60], "", [KNOWN[3], KNOWN[5]], [KNOWN[3]], False, "failed"
    ),
    "alone, and named in a refusal": Scene(STRANGERS, "not-found-refused", [], [], False, "not_found"),
    "few and alone": Scene(STRANGERS, "not-found-omitted", [], [], False, "failed", 20),
    "few, and left out by a fault": Scene(KNOWN[:3], "", KNOWN[:3], [], True, "failed", 20),
    "all, though an earlier run knew one": Scene(KNOWN[:60], "", KNOWN[:60], KNOWN[:1], True, ServiceError),
    "where elements tell of unknown ones": Scene(MIXED, "", KNOWN[:9], [], False, "failed"),
    "together with known ones": Scene(KNOWN[:60], "not-found-omitted", KNOWN[10:30], KNOWN[:20], False, "failed"),
    "so many that they fill requests": Scene(KNOWN, "not-found-omitted", KNOWN[50:280], [], False, "not_found", 25),
}


MANY = "so many that they fill requests"


@pytest.mark.parametrize("scene", [*(one for one in SCENES if one != MANY), *slow(MANY)])
def test_companies_that_answers_leave_out_are_unknown_only_with_proof(sandbox, folders, fetch, scene):
    """An hour of trouble at the service must not make companies unknown for a month."""
    one = SCENES[scene]
    sandbox.set_options(dialect=[one.dialect] if one.dialect else [])
    fault = {"kind": "elements", "anomaly": "missing", "companies": list(map(name_of, one.lost))}
    fault |= {"endpoint": "financials.bulk"} if scene.startswith("known by") else {}
    sandbox.set_faults([fault] if one.lost else [])
    if one.is_known:
        stamp_service(Settings(api=ApiSettings(base_url=sandbox.base_url)), folders)
    datasets = ["lookalikes", "financials"] if scene.startswith("known by") else ["financials"]
    expected = {(company, "financials"): 4 for company in one.expected}
    run = make_run(folders, one.companies, datasets, expected=expected)
    if not isinstance(one.status, str):
        with pytest.raises(one.status):
            fetch(run)
        assert "not_found" not in statuses(run)
        return
    fetch(run)
    assert {held(run)[company, "financials"][0] for company in one.lost or one.companies} == {one.status}
    assert requests(sandbox) <= one.most
    if scene.startswith("few"):
        assert set(dict(flatten_shard(run, 1))["dead_letters"]["reason_code"]) == {"empty_answer"}


@pytest.mark.parametrize("message", ["Not Found", "No handler for POST /v1/companies/lookalikes", ""])
def test_a_404_of_a_wrong_address_makes_no_company_unknown(sandbox, folders, fetch, message):
    sandbox.set_options(dialect=[])
    sandbox.set_faults([{"kind": "status", "status": 404, "message": message}])
    run = make_run(folders, KNOWN[:60])
    with pytest.raises((RequestRefusedError, ServiceError)):
        fetch(run)
    assert "not_found" not in statuses(run)


@pytest.mark.parametrize("code", [422, 500])
@pytest.mark.parametrize(
    ("message", "status"), [("company not found", "not_found"), ("{name} may not be asked for", "failed")]
)
def test_other_refusals_make_a_company_unknown_only_in_the_words_for_that(folders, fetch, message, status, code):
    """Such a refusal may name a company for any reason."""
    with start_other_service() as service:
        stranger, answer = name_of(KNOWN[4]).replace("BE0", "BE"), service.answer

        def answer_strictly(dataset, asked):
            names = [one["countryCode"] + one["companyNumber"] for one in asked]
            refusal = code, {"message": message.format(name=stranger)}
            return refusal if stranger in names else answer(dataset, asked)

        service.answer = answer_strictly
        run = make_run(folders, KNOWN[:12], ["lookalikes"])
        fetch(run, base_url=service.base_url)
    assert statuses(run) == {"answered": 11, status: 1}


@pytest.mark.parametrize("names_it", [True, False])
@pytest.mark.parametrize("odd", ["", "lookalikes"])
def test_a_company_for_which_whole_requests_are_refused_is_looked_for_once(folders, fetch, odd, names_it):
    """The other datasets ask for a few such companies alone, and for all others together.

    If one of them knows such a company, it is asked for all of them.
    """
    unknown, failing = [name_of(company).replace("BE0", "BE") for company in KNOWN[5:120:7]], {"relationships": "once"}
    with start_other_service() as service:
        answer = service.answer

        def answer_strictly(dataset, asked):
            names = [one["countryCode"] + one["companyNumber"] for one in asked]
            refused = [name for name in unknown if name in names and dataset != odd]
            if len(names) == 1 and failing.pop(dataset, ""):
                return 503, {"message": "Service Unavailable"}
            said = f"Unknown company {refused[0]}" if refused and names_it else "company not found"
            return (422, {"message": said}) if refused else answer(dataset, asked)

        service.answer = answer_strictly
        run = make_run(folders, KNOWN[:120], ["financials", "lookalikes", "relationships"])
        run = Run(folders, msgspec.structs.replace(run.plan, names=NAMED))
        fetch(run, base_url=service.base_url, names=NAMED)
    count = len(unknown)
    assert statuses(run, "relationships") == {"answered": 120 - count, "not_found": count}
    assert statuses(run, "lookalikes")["not_found"] == (0 if odd else count)
    of_others = {"lookalikes": 2 + (count if odd else 3), "relationships": 2 + 3 + 1}
    assert {name: service.requests[name] for name in of_others} == of_others
    assert service.requests["financials"] < (2 + count + 1 if names_it else 170)


def test_a_refusal_that_repeats_the_request_names_nobody(folders, fetch):
    """Each of its companies would be asked for alone."""
    with start_other_service() as service:
        stranger, answer = name_of(KNOWN[70]).replace("BE0", "BE"), service.answer

        def answer_strictly(dataset, asked):
            names = [one["countryCode"] + one["companyNumber"] for one in asked]
            return (422, {"message": f"Cannot process {asked}"}) if stranger in names else answer(dataset, asked)

        service.answer = answer_strictly
        run = make_run(folders, KNOWN[:100], ["lookalikes"])
        fetch(run, base_url=service.base_url)
    assert statuses(run) == {"answered": 99, "failed": 1}
    assert service.requests["lookalikes"] <= 1 + 2 * 7


def test_a_company_for_which_answers_stay_empty_even_beside_an_answered_one_is_given_up(folders, fetch):
    """Such requests were halved and joined by turns, without an end."""
    with start_other_service() as service:
        silent = [name_of(company).replace("BE0", "BE") for company in KNOWN[3:5]]
        answer = service.answer

        def answer_some(dataset, asked):
            if service.requests[dataset] > 50:
                return 401, {}
            names = [one["countryCode"] + one["companyNumber"] for one in asked]
            return (200, []) if set(silent) & set(names) else answer(dataset, asked)

        service.answer = answer_some
        run = make_run(folders, KNOWN[:12], ["lookalikes"])
        fetch(run, base_url=service.base_url)
        assert statuses(run) == {"answered": 10, "failed": 2}


# --- answers about others --------------------------------------------------------------------------------------------


@pytest.fixture
def misread():
    """A service whose answers name known companies otherwise; an unknown one as it was asked for."""
    with start_other_service() as service:
        answer, unknown, service.name = service.answer, KNOWN[7].company_number.lstrip("0"), lambda number: number

        def answer_otherwise(dataset, asked):
            status, elements = answer(dataset, asked)
            for element in elements:
                number = element["identifier"]["companyNumber"]
                if number.lstrip("0") == unknown:
                    element.update(data=None, message="Company not found")
                    continue
                country, number = service.name((element["identifier"]["country"], number))
                element["identifier"].update(country=country, companyNumber=number)
            return status, elements

        service.answer = answer_otherwise
        yield service


def read_in_vain(name):
    return name[0] + "L", name[1].zfill(12)


@pytest.mark.parametrize("count", [45, 7, 2], ids=["one is unknown", "none is known", "two"])
def test_a_run_ends_early_if_answers_tell_only_of_others(folders, fetch, misread, count):
    """Every further request would be paid, and all companies fail."""
    misread.name = read_in_vain
    run = make_run(folders, KNOWN[:count])
    said = rf"none of the {count} companies requested: '...? \d{{12}}'.*`firmlake check LIST` to see"
    with pytest.raises(ServiceError, match=said):
        fetch(run, base_url=misread.base_url)
    assert misread.requests.total() == 2
    assert statuses(run).keys() <= {"pending", "not_found"}
    works = []
    with pytest.raises(ServiceError):
        fetch(run, base_url=misread.base_url, on_works=lambda: works.append(1))
    assert misread.requests.total() <= 4, "a resumed run ends early too"
    assert not works, "the data folder is tied to no service yet"


def test_a_single_odd_company_only_fails_itself(folders, fetch, misread):
    odd = KNOWN[0].company_number.lstrip("0")
    misread.name = lambda name: read_in_vain(name) if name[1].lstrip("0") == odd else name
    run = make_run(folders, KNOWN[:45])
    fetch(run, base_url=misread.base_url)
    assert statuses(run) == {"answered": 129, "failed": 3, "not_found": 3}


def test_odd_companies_that_failed_before_only_fail_themselves(folders, fetch, misread):
    """They are all that `firmlake redrive` asks for."""
    misread.name = read_in_vain
    failed_before = [(company, "lookalikes") for company in KNOWN[:2]]
    run = make_run(folders, KNOWN[:2], ["lookalikes"], failed_before=failed_before)
    fetch(run, base_url=misread.base_url)
    assert statuses(run) == {"failed": 2}


def test_answers_that_tell_only_of_others_stop_a_run_of_a_known_service_too(folders, fetch, misread):
    """No company counts as unknown, and no credit is spent on more such answers."""
    misread.name = lambda name: ("NL", "99999999")
    stamp_service(Settings(api=ApiSettings(base_url=misread.base_url)), folders)
    run = make_run(folders, KNOWN[:5], ["lookalikes"])
    with pytest.raises(ServiceError, match="none of the 5 companies requested: NL 99999999"):
        fetch(run, base_url=misread.base_url)
    assert statuses(run) == {"pending": 5}
