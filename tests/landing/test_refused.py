"""A country whose companies are all refused, though not because of the token, costs few requests."""

from __future__ import annotations

import pytest

import firmlake_sandbox
from firmlake.core.company import normal_form
from other_service import start_other_service
from support import make_run

from .conftest import statuses

COMPANIES = [normal_form(*pair) for pair in firmlake_sandbox.sample_numbers(500)]
BELGIAN = [company for company in COMPANIES if company.country == "BE"]
OTHERS = [company for company in COMPANIES if company.country != "BE"]


@pytest.fixture
def service():
    """A service that wants ten digits of a Belgian number, and accepts nine of some."""
    with start_other_service() as service:
        answer, service.known = service.answer, set()

        def answer_ten_digits(dataset, asked):
            short = {one["companyNumber"] for one in asked if one["countryCode"] == "BE"} - service.known
            return (422, {"message": f"{min(short)}: not ten digits"}) if short else answer(dataset, asked)

        service.answer = answer_ten_digits
        yield service


def reasons(shards):
    return [track.reason for shard in shards for _, _, track in shard.tracks() if track.status == "failed"]


def test_after_fifty_refusals_and_no_answer_no_other_company_of_the_country_is_asked_for(service, folders, fetch):
    assert len(BELGIAN) > 150
    run = make_run(folders, [*OTHERS, *BELGIAN], ["lookalikes"])
    progress = fetch(run, base_url=service.base_url)
    assert statuses(run) == {"answered": len(OTHERS), "failed": len(BELGIAN)}
    assert service.requests["lookalikes"] < 150, "each would cost two requests"
    told = reasons(progress)
    assert sum(reason.code == "country_refused" for reason in told) >= len(BELGIAN) - 50 - 8, "eight may be under way"
    assert all("not ten digits" in reason.text for reason in told)


def test_an_answer_shows_that_the_others_are_refused_for_themselves(service, folders, fetch):
    service.known = {company.company_number.removeprefix("0") for company in BELGIAN[:150:3]}
    run = make_run(folders, [*OTHERS[:50], *BELGIAN[:150]], ["lookalikes"])
    progress = fetch(run, base_url=service.base_url)
    assert statuses(run) == {"answered": 100, "failed": 100}
    assert not any(reason.code == "country_refused" for reason in reasons(progress))
