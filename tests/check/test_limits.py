"""What `check` says of the limits of one request, from a service that is no more than a function."""

from __future__ import annotations

import json
from typing import Any

import pytest

from firmlake.api import requests
from firmlake.api.exchange import Answer
from firmlake.check.limits import find_companies_cap, find_page_cap, find_records_cap
from firmlake.core.errors import RequestFailedError, ServiceError, UnavailableError
from firmlake.core.settings import ApiSettings
from support import ACME, NOON, found, period

API = ApiSettings()
LOST = {
    "cut before a byte": (None, "broken: the answer is truncated or not HTTP", RequestFailedError),
    "cut within": (200, "broken: the answer is truncated or not HTTP", RequestFailedError),
    "late": (None, "timeout: no answer within 60 s", UnavailableError),
    "too long": (200, "body: has more than 9 bytes", RequestFailedError),
}


class Talk:
    """Stands for a service that sends only small answers."""

    def __init__(self, most: int, status: int | None, error: str, failure: type[ServiceError]) -> None:
        self.api, self.answers, self.asked = API, [], []
        self._most, self._lost, self._failure = most, (status, error), failure

    def single(self, dataset: str, company: Any, limit: int, offset: int) -> Answer:
        element = {**found(ACME, "financials", period()), "pagination": {"limit": limit, "offset": 0, "total": 900}}
        return self._answer(limit, json.dumps(element).encode())

    def bulk(self, dataset: str, companies: Any, *, size: int) -> Answer:
        return self._answer(size, b"[]")

    def _answer(self, size: int, body: bytes) -> Answer:
        self.asked.append(size)
        status, error = (200, "") if size <= self._most else self._lost
        request = requests.bulk(API, "lookalikes", [ACME])
        failure = error.partition(":")[0]
        received = body if not error else b"[99, "
        self.answers.append(Answer(request, 1, status, error, {}, received, NOON, 1, 0, failure))  # type: ignore[arg-type]
        if error:
            raise self._failure("it failed", "")
        return self.answers[-1]


@pytest.mark.parametrize("how", LOST)
def test_where_large_answers_do_not_arrive_half_as_many_companies_are_asked_for_until_they_do(how: str) -> None:
    talk = Talk(20, *LOST[how])
    finding = find_companies_cap(talk, "lookalikes", [ACME])  # type: ignore[arg-type]
    assert talk.asked == [100, 50, 25, 12]
    assert (finding.verdict, finding.settings) == ("covered", {"api.companies_per_request": 12})
    assert finding.seen == f"12, larger answers do not arrive ({LOST[how][1]})"
    assert talk.api.companies_per_request == 12


def test_the_largest_page_that_arrives_is_found_by_halving() -> None:
    talk = Talk(130, *LOST["late"])
    finding = find_page_cap(talk, ACME)  # type: ignore[arg-type]
    assert (talk.asked, finding.settings) == ([500, 250, 125], {"api.page_limit_max": 125})


def test_a_cut_answer_of_status_200_is_no_success() -> None:
    request = requests.bulk(API, "lookalikes", [ACME])
    assert Answer(request, 1, 200, "", {}, b"[]", NOON, 1, 0).is_success
    assert not Answer(request, 1, 200, LOST["cut within"][1], {}, b"[", NOON, 1, 0).is_success


def test_a_service_that_sends_not_even_one_company_needs_a_person() -> None:
    finding = find_companies_cap(Talk(0, *LOST["late"]), "lookalikes", [ACME])  # type: ignore[arg-type]
    assert (finding.verdict, finding.settings) == ("needs_you", {})
    assert "timeout: no answer within 60 s" in finding.seen


def test_a_service_that_cannot_be_reached_any_more_ends_the_check() -> None:
    """Half as many companies would not help."""
    talk = Talk(20, None, "unreachable: no connection", RequestFailedError)
    with pytest.raises(RequestFailedError):
        find_companies_cap(talk, "lookalikes", [ACME])  # type: ignore[arg-type]


@pytest.mark.parametrize(("cut", "found"), [(40, 40), (700, 0)])
def test_a_service_that_cuts_answers_is_asked_for_no_more_records_than_it_sends(cut: int, found: int) -> None:
    """One company, named several times, then comes with different numbers of records."""

    class Cutting:
        api = ApiSettings(page_limit_max=100)

        def bulk(self, dataset: str, companies: Any, limit: int, offset: int, *, size: int) -> Answer:
            room = cut
            elements = []
            for _ in range(size):
                records = [{}] * min(6, limit, room)
                room -= len(records)
                elements.append({"identifier": {"country": "BE", "companyNumber": 403227515}, "data": records})
            request = requests.bulk(API, dataset, [ACME])
            return Answer(request, 1, 200, "", {}, json.dumps(elements).encode(), NOON, 1, 0)

    finding = find_records_cap(Cutting(), ACME, [ACME])  # type: ignore[arg-type]
    # A request for 100 companies needs room for 100 records.
    fewer = {"api.companies_per_request": found} if found else {}
    assert finding.settings == {"api.records_per_request": found, **fewer}
    assert ("answers are cut to 40 records" in finding.seen) == bool(found)


def test_a_company_that_may_be_charged_twice_is_named_once_in_every_request_about_records() -> None:
    class Cautious:
        api, sizes = ApiSettings(page_limit_max=100), set[int]()

        def bulk(self, dataset: str, companies: Any, limit: int, offset: int, *, size: int) -> Answer:
            self.sizes.add(size)
            request = requests.bulk(API, dataset, [ACME])
            return Answer(request, 1, 200 if limit <= 60 else 400, "", {}, b"[]", NOON, 1, 0)

    finding = find_records_cap(Cautious(), ACME, [])  # type: ignore[arg-type]
    assert (finding.settings["api.records_per_request"], Cautious.sizes) == (60, {1})
