"""A 403 narrowed to those it is about: no request is repeated in vain, and no run repeats them for ever."""

from __future__ import annotations

import msgspec
import pytest

import firmlake_sandbox
from firmlake.core.company import Company, normal_form
from firmlake.core.errors import (
    AuthorizationError,
    EndpointPausedError,
    FirmlakeError,
    ForbiddenError,
    PausedByServiceError,
    RequestRefusedError,
    ServiceError,
    UnavailableError,
)
from firmlake.core.settings import ApiSettings
from firmlake.landing.run import REDRIVE, Run
from firmlake.landing.service_status import ServiceStatus
from lake import Lake
from other_service import start_other_service
from support import make_run

from .conftest import statuses

COMPANIES = [normal_form(*pair) for pair in firmlake_sandbox.sample_numbers(500)]
BELGIAN, DUTCH, FRENCH = ([one for one in COMPANIES if one.country == country] for country in ("BE", "NL", "FR"))
ENOUGH = 150


@pytest.fixture
def service():
    """A service that rejects the token after many requests, so that a run without end fails."""
    with start_other_service() as service:
        answer, service.named = service.answer, []

        def answer_a_while(dataset, asked):
            service.named.append((dataset, [normal_form(one["countryCode"], one["companyNumber"]) for one in asked]))
            return answer(dataset, asked) if len(service.named) < ENOUGH else (401, {"message": "Enough"})

        service.answer = answer_a_while
        yield service


def test_companies_beside_one_that_the_token_lost_are_given_up_in_the_end(service, folders, fetch):
    """It was answered, so nothing of it is pending; but pages that name it are refused, and others empty."""
    answer = service.answer

    def answer_the_french(dataset, asked):
        status, elements = answer(dataset, asked)
        service.forbidden.add("FR")
        return status, elements if status != 200 else [one for one in elements if one["identifier"]["country"] == "FR"]

    service.answer = answer_the_french
    run = make_run(folders, [*FRENCH[:3], *BELGIAN[:2]], ["lookalikes"])
    fetch(run, base_url=service.base_url, tries=1)
    assert statuses(run) == {"answered": 3, "failed": 2}
    assert len(service.named) < 20


def test_a_token_that_may_not_ask_about_the_only_company_is_to_blame(service, folders, fetch):
    service.forbidden = {"NL"}
    with pytest.raises(AuthorizationError):
        fetch(make_run(folders, DUTCH[:1], ["lookalikes"]), base_url=service.base_url)
    assert len(service.named) == 1


def test_a_token_may_be_allowed_to_ask_about_companies_that_a_run_leaves_out(service, folders, fetch):
    """A budget leaves some for later, and a redrive asks only for those that failed."""
    service.forbidden = {"NL"}
    limited = make_run(folders, DUTCH[:2], ["lookalikes"], waiting=BELGIAN[:1])
    again = make_run(folders, DUTCH[:2], ["lookalikes"], run_id="20260106T120000Z-0002")
    again = Run(folders, msgspec.structs.replace(again.plan, list_name=REDRIVE))
    for run in (limited, again):
        fetch(run, base_url=service.base_url)
        assert statuses(run)["forbidden"] == 2


@pytest.mark.slow
def test_a_country_that_the_token_may_not_ask_about_costs_a_request_for_each_dataset_in_later_runs(service, tmp_path):
    """A first run asks for all countries together, then for two companies alone; with another token all are fetched."""
    service.forbidden = {"FR"}
    lake = Lake(tmp_path, service, 80)

    def run():
        service.named.clear()
        code = lake.run("--refresh").code
        return code, sum(any(company.country == "FR" for company in companies) for _, companies in service.named)

    assert run() == (3, 3 + 1 + 1)
    assert run() == (3, 3)
    service.forbidden.clear()
    assert run()[0] == 0
    assert {status for (status,) in lake.query("SELECT status FROM company_state")} == {"reported"}


@pytest.mark.parametrize("answered", [slice(0), slice(0, None, 3), slice(30, None)], ids=["none", "some", "later ones"])
def test_companies_whose_spelling_is_refused_cost_few_requests_unless_some_are_answered(folders, fetch, answered):
    """The service wants ten digits of a Belgian number. Those that begin with 1 have them, which hides nothing.

    Where the first of the list are refused for a reason of their own, no other one is lost.
    """
    others = [one for one in COMPANIES if one.company_number[0] != "0"][:100]
    short = [one for one in BELGIAN if one.company_number[0] == "0"][:90]
    known = {one.company_number.removeprefix("0") for one in short[answered]}
    with start_other_service() as service:
        answer = service.answer

        def answer_ten_digits(dataset, asked):
            refused = {one["companyNumber"] for one in asked if len(one["companyNumber"]) < 10} - known
            refused &= {one["companyNumber"] for one in asked if one["countryCode"] == "BE"}
            return (422, {"message": f"{min(refused)}: not ten digits"}) if refused else answer(dataset, asked)

        service.answer = answer_ten_digits
        run = make_run(folders, [*others, *short], ["lookalikes"])
        shards = fetch(run, base_url=service.base_url)
    assert statuses(run) == {"answered": 100 + len(known), "failed": 90 - len(known)}
    reasons = [track.reason for shard in shards for _, _, track in shard.tracks() if track.status == "failed"]
    assert all("not ten digits" in reason.text for reason in reasons)
    count = sum(reason.code == "country_refused" for reason in reasons)
    if known:
        assert count == 0
    else:
        assert count >= 90 - 20 - 8, "eight may be under way"
        assert service.requests["lookalikes"] < 80, "each would cost two requests"


@pytest.mark.parametrize(("country", "length", "is_refused"), [("BE", 10, True), ("NL", 8, False), ("FR", 9, False)])
def test_only_belgian_numbers_have_a_zero_that_the_service_may_want_otherwise(folders, country, length, is_refused):
    """Dutch and French ones that begin with zero are refused for a reason of their own, while others are answered."""
    others, zeros = ([Company(country, f"{first}{n}".ljust(length, "7")) for n in range(30)] for first in "10")
    status = ServiceStatus(make_run(folders, [*others, *zeros]), ApiSettings(), lambda: None, looks_closer=False)
    status.answered("lookalikes", others)
    for company in zeros[:25]:
        status.refuse("lookalikes", company, RequestRefusedError("no"))
    assert (status.refusal("lookalikes", zeros[-1]) is not None) == is_refused


FORBIDDEN, PAUSED, DOWN = ForbiddenError("no", "Pay"), EndpointPausedError("later", "Wait"), UnavailableError("down")


@pytest.mark.parametrize(
    ("ends", "error", "step"),
    [
        ([FORBIDDEN, FORBIDDEN], AuthorizationError, "Pay"),
        ([PAUSED, PAUSED], PausedByServiceError, "Wait"),
        ([FORBIDDEN, PAUSED], PausedByServiceError, "Wait"),
        ([DOWN, PAUSED], PausedByServiceError, "Wait"),
        ([FORBIDDEN, DOWN], ServiceError, "Pay"),
    ],
)
def test_a_run_without_any_dataset_stops_if_one_of_them_will_be_answered_later(folders, ends, error, step):
    """So that it publishes what it has; nobody has to act."""
    run = make_run(folders, datasets=["financials", "lookalikes"])
    status = ServiceStatus(run, ApiSettings(), lambda: None, looks_closer=False)
    status.end("financials", ends[0])
    status.check()
    status.end("lookalikes", ends[1])
    with pytest.raises(FirmlakeError) as caught:
        status.check()
    assert (type(caught.value), caught.value.next_step) == (error, step)
