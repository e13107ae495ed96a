"""Fetching from the embedded service: complete, named where it cannot be, and never more requests than needed."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict

import pytest
from polars.testing import assert_frame_equal

import firmlake_sandbox
from firmlake.core.company import normal_form
from firmlake.core.errors import AuthorizationError, OutOfCreditsError, RequestRefusedError, ServiceError, Stopped
from firmlake.core.settings import PrivacySettings
from firmlake.landing.progress import load_progress, read_landed
from firmlake.privacy.tombstones import Subject, add_tombstones, write_register
from firmlake.tables.flatten import flatten_shard
from other_service import start_other_service
from support import DATASETS, NOON, make_run, slow

from .conftest import failed, held, name_of, requests, statuses

COMPANIES = [normal_form(*pair) for pair in firmlake_sandbox.sample_numbers(300)]
POISON = COMPANIES[137]
FEW = 2 * math.log2(100) + 2
"""Requests it may take to name one company in a hundred."""


@pytest.mark.parametrize(
    ("service", "api"),
    [
        ({}, {"companies_per_request": 7}),
        ({}, {"threads": 1, "companies_per_request": 25, "records_per_request": 25}),
        ({"page_limit_max": 3, "companies_per_request": 9}, {"page_limit_max": 3, "companies_per_request": 9}),
        ({"records_per_request": 0}, {"records_per_request": 0}),
        ({"leading_zero": True}, {"keep_leading_zero": True}),
        ({"page_limit_default": 1}, {"keep_leading_zero": True}),
    ],
    ids=["small chunks", "one by one", "small pages", "no cap", "leading zero", "other default"],
)
def test_every_record_is_there_by_settings_alone(sandbox, folders, fetch, service, api):
    _, expected = find_undisturbed(sandbox, folders, fetch, 40, DATASETS)
    sandbox.set_options(**service)
    run = make_run(folders, COMPANIES[:40])
    fetch(run, **api)
    found = held(run)
    if service.get("leading_zero"):  # records of other companies then have it too
        found, expected = (
            {key: (status, len(raws)) for key, (status, raws) in one.items()} for one in (found, expected)
        )
    assert found == expected
    assert max(len(raws) for _, raws in held(run).values()) > 5, "somebody has more than a first page"


def test_each_shard_has_a_folder_and_what_has_landed_there_is_not_asked_for_again(sandbox, folders, fetch):
    sandbox.set_faults([POISONS["refused"] | {"companies": [name_of(COMPANIES[7])]}])
    run = make_run(folders, COMPANIES[:30], ["lookalikes"], shard_companies=10)
    results = fetch(run)
    assert [result.counts.total() for result in results] == [10, 10, 10]
    assert failed(run) == {(COMPANIES[7], "lookalikes")}
    for shard in (1, 2, 3):
        assert {landed.header.shard for landed in read_landed(run, shard)} == {shard}
    before, files = requests(sandbox), sorted(folders.data.rglob("shard=*/*.zst"))
    assert sum(result.counts["pending"] for result in fetch(run)) == 0
    assert (requests(sandbox), sorted(folders.data.rglob("shard=*/*.zst"))) == (before, files)


@pytest.mark.parametrize("stop_after", [2, *slow(0, 1, 5, 9)])
def test_a_run_that_was_stopped_goes_on_where_it_was(sandbox, folders, fetch, stop_after):
    """No record is asked for twice; only what was half known by then is packed less well."""
    whole = make_run(folders, COMPANIES, run_id="20260105T120000Z-0009")
    fetch(whole)
    undisturbed = requests(sandbox)
    sent = []

    def stop():
        if len(sent) >= stop_after:
            raise Stopped("enough")
        sent.append(1)

    run = make_run(folders, COMPANIES)
    with pytest.raises(Stopped):
        fetch(run, before_each=stop)
    assert statuses(run)["pending"] > 0
    fetch(run)
    assert requests(sandbox) <= 2 * undisturbed + 2
    assert held(run) == held(whole)
    asked = Counter(
        (company, landed.header.dataset, landed.header.offset)
        for landed in read_landed(run, 1)
        for company in landed.header.companies
    )
    assert set(asked.values()) == {1}


@pytest.mark.parametrize("count", [1, 2, 150])
def test_an_answer_that_is_erased_as_it_lands_is_not_asked_for_without_end(sandbox, folders, fetch, count):
    """A run that was restored from a backup may ask for a company that was forgotten since."""
    forgotten = COMPANIES[0]
    write_register(folders, add_tombstones(PrivacySettings(), folders, [Subject("company", "", forgotten)], NOON)[0])
    run, sent = make_run(folders, COMPANIES[:count]), itertools.count()

    def stop():
        assert next(sent) < 40

    fetch(run, before_each=stop)
    of_company = {status for (company, _), (status, _) in held(run).items() if company == forgotten}
    assert of_company == {"not_found" if count == 2 else "failed"}
    assert statuses(run)["pending"] == 0


@pytest.mark.parametrize("status", [500, 422])
def test_companies_that_fail_again_are_no_outage_however_many_they_are(sandbox, folders, fetch, status):
    companies = COMPANIES[:12]
    before = [(company, "lookalikes") for company in companies]
    run = make_run(folders, companies, ["lookalikes"], failed_before=before)
    sandbox.set_faults([{"kind": "status", "status": status}])
    fetch(run)
    assert statuses(run) == {"failed": len(companies)}
    assert requests(sandbox) <= 3 * len(companies)


def test_known_totals_take_no_more_requests(sandbox, folders, fetch):
    first = make_run(folders, COMPANIES, ["financials"])
    fetch(first)
    before = requests(sandbox)
    expected = {key: len(records) for key, (_, records) in held(first).items() if records}
    sandbox.set_world(week=4)
    again = make_run(folders, COMPANIES, ["financials"], run_id="20260205T120000Z-0002", expected=expected)
    fetch(again)
    sandbox.set_world(week=0)
    assert requests(sandbox) - before <= before + 1
    assert statuses(again)["pending"] == 0


@pytest.mark.parametrize("is_resumed", [*slow(False), True], ids=["at once", "resumed"])
@pytest.mark.slow
def test_what_is_staged_from_memory_is_what_has_landed(sandbox, folders, fetch, is_resumed):
    """All tables, in all their rows and in the same order, also of what was odd."""
    sandbox.set_faults(
        [
            {"kind": "status", "status": 500, "times": 2},
            {"kind": "elements", "anomaly": "foreign", "times": 4},
            {"kind": "drift", "field": "place", "change": "unknown", "count": 3, "times": 4},
            {"kind": "drift", "field": "revenue", "change": "text", "count": 3, "times": 4},
            {"kind": "wrong_body", "body": "html", "times": 2},
            POISONS["refused"] | {"companies": [name_of(POISON)]},
        ]
    )
    run, left, staged = make_run(folders, COMPANIES, shard_companies=150), [5], {}

    def stop():
        left[0] -= 1
        if is_resumed and left[0] < 0:
            raise Stopped("enough")

    if is_resumed:
        with pytest.raises(Stopped):
            fetch(run, before_each=stop)
    for shard, fetched in enumerate(fetch(run), 1):
        tables = staged[shard] = dict(flatten_shard(run, shard, fetched))
        again = dict(flatten_shard(run, shard))
        assert list(tables) == list(again)
        for name, frame in again.items():
            assert_frame_equal(tables[name], frame)
    found = {name: sum(tables[name].height for tables in staged.values()) for name in staged[1]}
    assert found["dead_letters"] == len(DATASETS)
    assert min(found["rejects"], found["drift"]) > 0, "something odd came"


# --- no request more than needed -------------------------------------------------------------------------------------


def test_a_wrong_token_costs_one_request(sandbox, folders, fetch):
    run = make_run(folders, COMPANIES)
    with pytest.raises(AuthorizationError):
        fetch(run, token="wrong", threads=8)
    assert requests(sandbox) == 1
    assert statuses(run) == {"pending": 900}


@pytest.mark.parametrize(("count", "refused"), [(100, 1), (300, 3)])
def test_a_page_that_is_too_large_is_answered_in_halves_and_a_second_one_stops_the_run(
    sandbox, folders, fetch, count, refused
):
    """The settings do not fit, and a run does not learn: `firmlake check` does."""
    sandbox.set_options(companies_per_request=50)
    run = make_run(folders, COMPANIES[:count], ["lookalikes"])
    if refused == 1:
        fetch(run)
    else:
        said = r"400: .*for the second time in a row, both halves of 100 companies in one request for lookalikes"
        with pytest.raises(ServiceError, match=said) as stopped:
            fetch(run, threads=1)
        assert stopped.value.next_step.startswith("Run `firmlake check LIST --write FILE`")
        fetch(run, companies_per_request=50)
    landed = [each.header for each in read_landed(run, 1)]
    assert [header.status for header in landed].count(400) == refused
    assert statuses(run)["pending"] == 0
    assert failed(run) == set(), "nobody is blamed"
    assert sandbox.ledger(summary=True)["summary"]["companies_charged_again"] == 0


def test_a_page_of_that_size_that_is_answered_makes_up_for_one_that_was_refused(folders, fetch):
    """A refusal by chance says nothing about the settings, however many come in a long run."""
    with start_other_service() as service:
        answer = service.answer
        by_chance = (400, {"message": "No."})
        service.answer = lambda *asked: by_chance if service.requests.total() in (2, 6) else answer(*asked)
        run = make_run(folders, COMPANIES[:120], ["lookalikes"])
        fetch(run, base_url=service.base_url, threads=1, companies_per_request=20)
    assert statuses(run) == {"answered": 120}


def test_a_first_contact_that_is_to_look_closer_learns_of_the_first_refusal(sandbox, folders, fetch):
    sandbox.set_options(companies_per_request=50)
    run = make_run(folders, COMPANIES, ["lookalikes"])
    with pytest.raises(RequestRefusedError, match="400"):
        fetch(run, looks_closer=True)
    assert requests(sandbox) == 1


def test_a_service_that_goes_down_after_a_first_refusal_is_down(folders, fetch):
    """The refusal was said to be the reason, with settings to correct."""
    with start_other_service() as service:
        service.answer = lambda dataset, asked: (413 if service.requests.total() == 1 else 504, {})
        run = make_run(folders, COMPANIES[:8], ["financials"])
        with pytest.raises(ServiceError, match="504") as down:
            fetch(run, base_url=service.base_url, tries=1)
        assert "api." not in down.value.next_step


def test_settings_that_do_not_fit_cost_few_requests(sandbox, folders, fetch):
    """Everybody is refused, companies that are asked for alone too."""
    sandbox.set_faults([{"kind": "status", "status": 400}])
    run = make_run(folders, COMPANIES)
    with pytest.raises(RequestRefusedError, match="400"):
        fetch(run, threads=8)
    assert requests(sandbox) == 11
    assert failed(run) == set(), "nobody is blamed"


# --- companies that spoil a request ----------------------------------------------------------------------------------

_UNDISTURBED = {}


def find_undisturbed(sandbox, folders, fetch, count, datasets):
    """The requests and the answers of a run over so many companies that nothing disturbs; made once."""
    key = count, datasets
    if key not in _UNDISTURBED:
        run = make_run(folders, COMPANIES[:count], datasets, run_id="20260105T120000Z-0000")
        fetch(run)
        _UNDISTURBED[key] = requests(sandbox), held(run)
        sandbox.reset()
    return _UNDISTURBED[key]


POISONS = {
    "refused": {"kind": "status", "status": 422, "message": "no such register"},
    "breaks": {"kind": "status", "status": 500},
    "html": {"kind": "wrong_body", "body": "html"},
    "cut": {"kind": "wrong_body", "body": "cut"},
    "reset": {"kind": "reset"},
}


@pytest.mark.parametrize(
    ("poison", "places"),
    [
        *((kind, (137,)) for kind in POISONS),
        ("refused", (0,)),
        ("refused", (0, 1, 50, 75)),
        ("breaks", tuple(range(185, 199))),
        *slow(*(("refused", places) for places in [(99,), (0, 50), (20, 40, 60, 80)])),
        *slow(*(("breaks", places) for places in [(101, 102), (100, 199), (137, 163, 164)])),
    ],
)
def test_companies_that_spoil_every_request_are_named_in_few_and_harm_nobody(sandbox, folders, fetch, poison, places):
    """In the very first request too, and where so many break the service one after the other that it seems down."""
    names = {COMPANIES[place] for place in places}
    undisturbed, expected = find_undisturbed(sandbox, folders, fetch, 200, ("lookalikes",))
    sandbox.set_faults([POISONS[poison] | {"companies": list(map(name_of, names))}])
    run = make_run(folders, COMPANIES[:200], ["lookalikes"])
    fetch(run)
    keys = {(company, "lookalikes") for company in names}
    assert failed(run) == keys
    assert held(run) | dict.fromkeys(keys) == expected | dict.fromkeys(keys)
    assert all(track.reason for _, _, track in load_progress(run, 1).tracks() if track.status == "failed")
    assert requests(sandbox) - undisturbed <= 5 + len(places) * (FEW + 2)


@pytest.mark.parametrize("poison", ["breaks", "html", "reset"])
def test_a_company_that_is_alone_and_spoils_its_request_is_given_up(sandbox, folders, fetch, poison):
    """Nothing shows whether it is the company or the service; the run ends all the same."""
    sandbox.set_faults([POISONS[poison] | {"companies": [name_of(POISON)]}])
    run = make_run(folders, [POISON], ["lookalikes"])
    fetch(run)
    assert (failed(run), requests(sandbox)) == ({(POISON, "lookalikes")}, 3)


@pytest.mark.parametrize("poison", ["refused", "breaks"])
def test_a_run_stopped_while_it_looked_for_the_reason_goes_on(sandbox, folders, fetch, poison):
    """What is left is spoilt in its first request, which must not be taken for wrong settings."""
    sandbox.set_faults([POISONS[poison] | {"companies": [name_of(POISON)]}])
    run = make_run(folders, COMPANIES[:200], ["lookalikes"])
    sent = []

    def stop():
        if len(sent) == 3:
            raise Stopped("enough")
        sent.append(1)

    with pytest.raises(Stopped):
        fetch(run, before_each=stop, threads=1)
    fetch(run)
    assert failed(run) == {(POISON, "lookalikes")}
    assert statuses(run)["pending"] == 0


@pytest.mark.parametrize("poison", ["refused", "breaks"])
def test_who_failed_in_an_earlier_run_does_not_trip_the_next(sandbox, folders, fetch, poison):
    sandbox.set_faults([POISONS[poison] | {"companies": [name_of(POISON)]}])
    failed_before = [(POISON, "lookalikes"), (COMPANIES[5], "lookalikes")]
    for number, companies in enumerate([[POISON], COMPANIES[:200], [COMPANIES[5], POISON]]):
        run = make_run(
            folders, companies, ["lookalikes"], run_id=f"20260105T120000Z-000{number}", failed_before=failed_before
        )
        fetch(run)
        assert failed(run) == {(POISON, "lookalikes")}
        assert statuses(run)["pending"] == 0
        asked_together = [
            landed.header.companies for landed in read_landed(run, 1) if tuple(POISON) in landed.header.companies
        ]
        assert [len(each) for each in asked_together if len(each) > 1] in ([], [2]), "halved, not sent again"


# --- answers that are wrong for a while ------------------------------------------------------------------------------

WRONG = [
    *({"kind": "elements", "anomaly": one, "count": 5} for one in ("missing", "doubled", "contradictory", "message")),
    *({"kind": "elements", "anomaly": one} for one in ("foreign", "reordered")),
    {"kind": "wrong_body", "body": "empty_list"},
    {"kind": "truncate"},
    {"kind": "lose"},
    {"kind": "status", "status": 503, "times": 9},
    {"kind": "small_pages", "limit": 2, "is_silent": True, "times": 999},
    {"kind": "totals", "times": 999},
]


@pytest.mark.parametrize("rule", WRONG, ids=lambda rule: rule.get("anomaly", rule.get("body", rule["kind"])))
def test_what_is_wrong_for_a_while_changes_nothing(sandbox, folders, fetch, rule):
    """Where totals never agree between pages, one page holds all."""
    undisturbed, expected = find_undisturbed(sandbox, folders, fetch, 60, DATASETS)
    sandbox.set_faults([{"times": 3} | rule])
    run = make_run(folders, COMPANIES[:60])
    fetch(run, threads=1 if rule["kind"] == "status" else 8)
    assert held(run) == expected
    assert requests(sandbox) <= 5 * undisturbed


# --- credits ---------------------------------------------------------------------------------------------------------


def test_when_credits_run_out_what_is_paid_for_is_still_fetched(sandbox, folders, fetch):
    sandbox.set_options(credits=150)
    run = make_run(folders, COMPANIES)
    with pytest.raises(OutOfCreditsError):
        fetch(run)
    by_company = defaultdict(set)
    for (company, _), (status, _) in held(run).items():
        by_company[name_of(company)].add(status)
    bought = {name for name, found in by_company.items() if "answered" in found}
    assert bought == set(sandbox.ledger()["charges"])
    assert all(by_company[name] == {"answered"} for name in bought), "all datasets of what was bought"
    assert sandbox.ledger(summary=True)["summary"]["companies_charged_again"] == 0
    sandbox.set_options(credits=1000)
    fetch(run)
    assert statuses(run)["pending"] == 0


@pytest.mark.parametrize("dialect", [[], ["credits-untold"]], ids=["told", "untold"])
@pytest.mark.parametrize(("credits", "size"), [(100, 10), (155, 100), (0, 100), (1, 100)])
def test_credits_that_end_are_spent_to_the_last_in_a_dozen_requests_that_are_refused(
    sandbox, folders, fetch, dialect, credits, size
):
    """After the first refusal one request at a time, sized by what is left."""
    sandbox.set_options(credits=credits, dialect=dialect)
    run = make_run(folders, COMPANIES)
    with pytest.raises(OutOfCreditsError):
        fetch(run, companies_per_request=size)
    headers = load_progress(run, 1, targets=run.targets(1)).headers
    assert 1 <= sum(header.status == 402 for header in headers) <= 12
    assert len(sandbox.ledger()["charges"]) == credits


def test_a_bare_403_where_fewer_credits_are_left_than_a_page_costs_is_their_end(folders, fetch):
    with start_other_service() as service:
        answer, service.allowed_credits = service.answer, 120

        def answer_forbidden(dataset, asked):
            status, content = answer(dataset, asked)
            service.headers = {} if status == 402 else {"X-Credits-Remaining": str(120 - len(service.charged))}
            return (403, {"message": "Forbidden"}) if status == 402 else (status, content)

        service.answer = answer_forbidden
        run = make_run(folders, COMPANIES)
        with pytest.raises(OutOfCreditsError, match=r"100 credits \(403: Forbidden\), and has 20 left"):
            fetch(run, base_url=service.base_url)
    assert len(service.charged) == 120
    assert service.requests.total() < 20
    assert statuses(run)["forbidden"] == 0


def by_elements(service, answer, named):
    """A service that answers for as many companies as there are credits; elements say why there is nothing else."""

    def answer_in_part(dataset, asked):
        names = [one["countryCode"] + one["companyNumber"] for one in asked]
        left = service.allowed_credits - len(service.charged)
        new = set([name for name in names if name not in service.charged][max(left, 0) :])
        paid = iter(answer(dataset, [one for one, name in zip(asked, names, strict=True) if name not in new])[1])
        return 200, [
            {**named(one), "message": "insufficient credits"} if name in new else next(paid)
            for one, name in zip(asked, names, strict=True)
        ]

    return answer_in_part


def by_status(_service, answer, status):
    def answer_otherwise(dataset, asked):
        came, content = answer(dataset, asked)
        return (status, {"error": "Insufficient credits"}) if came == 402 else (came, content)

    return answer_otherwise


@pytest.mark.parametrize(
    ("tells", "how"),
    [
        (by_elements, lambda one: {"companyNumber": one["companyNumber"]}),
        (by_elements, lambda one: {"identifier": {"country": one["countryCode"], **one}, "data": None}),
        (by_status, 500),
        *slow((by_status, 429), (by_status, 400)),
    ],
    ids=["elements alone", "elements", "500", "429", "400"],
)
def test_credits_that_end_in_other_words_than_402_give_no_company_up_and_are_spent_first(folders, fetch, tells, how):
    with start_other_service() as service:
        service.allowed_credits = 120
        service.answer = tells(service, service.answer, how)
        run = make_run(folders, COMPANIES)
        with pytest.raises(OutOfCreditsError, match=r"(?i)credits are used up \(.*insufficient credits"):
            fetch(run, base_url=service.base_url)
        assert len(service.charged) == 120
        assert service.requests.total() < 20
        assert statuses(run) == {"answered": 3 * 120, "pending": 3 * 180}
        service.allowed_credits = None if tells is by_status else 999
        fetch(run, base_url=service.base_url)
        assert statuses(run) == {"answered": 3 * 300}


@pytest.mark.parametrize(("told", "is_stopped"), [(("Charged", "Remaining"), False), (("Remaining",), True)])
def test_what_others_spend_from_the_balance_counts_only_if_no_header_tells_charges(folders, fetch, told, is_stopped):
    with start_other_service() as service:
        answer = service.answer

        def answer_while_others_spend(dataset, asked):
            values = {"Charged": len(asked), "Remaining": 10_000 - 1_000 * service.requests[dataset]}
            service.headers = {f"X-Credits-{name}": str(values[name]) for name in told}
            return answer(dataset, asked)

        service.answer = answer_while_others_spend
        run = make_run(folders, COMPANIES, ["lookalikes"])
        if is_stopped:
            with pytest.raises(Stopped, match="more than the 300"):
                fetch(run, {"max_credits": 300}, base_url=service.base_url, threads=1)
        else:
            assert fetch(run, {"max_credits": 300}, base_url=service.base_url)[0].counts["answered"] == 300


def test_a_run_with_a_budget_that_is_charged_too_much_exceeds_it_by_one_request_at_most(folders, fetch):
    with start_other_service() as service:
        service.headers = {"X-Credits-Charged": "200"}
        run = make_run(folders, COMPANIES, ["lookalikes"])
        with pytest.raises(Stopped, match="charged 400 credits, more than the 250"):
            fetch(run, {"max_credits": 250}, base_url=service.base_url, companies_per_request=10)
    assert service.requests.total() == 2
