"""What `check` asks first, and what it says of endpoints that are not answered."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from firmlake.api import requests
from firmlake.api.exchange import Answer
from firmlake.check.finding import Finding
from firmlake.check.questions import ask_questions
from firmlake.core.settings import ApiSettings
from support import ACME, NOON

API = ApiSettings(base_url="http://127.0.0.1:1")


class Talk:
    """Stands for a service: a function gives status and message for dataset and limit."""

    def __init__(self, answers: Any, api: ApiSettings = API) -> None:
        self.api = self.given = api
        self._answers, self.answers = answers, list[Answer]()
        self.asked: list[tuple[str, int | None]] = []

    charged, tells_credits = 0, False

    def ask(self, request: Any) -> Answer:
        return self._answer(request, 200, "")

    def single(
        self, dataset: str, company: Any, limit: int | None = None, offset: int | None = None, **api: bool
    ) -> Answer:
        self.asked.append((dataset, limit))
        return self._answer(requests.bulk(self.api, dataset, [company], limit, offset), *self._answers(dataset, limit))

    def bulk(self, dataset: str, companies: Any, *page: int, **api: Any) -> Answer:
        return self._answer(requests.bulk(self.api, dataset, companies[:1]), 200, "")

    def _answer(self, request: Any, status: int, message: str) -> Answer:
        identifier = {"country": ACME.country, "companyNumber": ACME.company_number}
        known = [{"identifier": identifier, "data": []}]
        body = known if status == 200 else {"error": {"message": message}}
        return Answer(request, 1, status, "", {}, json.dumps(body).encode(), NOON, 1, 0)


def finding(row: str, talk: Talk) -> Finding:
    return next(one for one in ask_questions(talk, [ACME], None) if one.assumption == row)  # type: ignore[arg-type]


def test_the_first_request_for_pages_states_a_limit_as_every_request_of_a_run_does() -> None:
    """A service may require it."""
    talk = Talk(lambda dataset, limit: (200, "") if limit or dataset != "financials" else (400, "limit is required"))
    assert finding("endpoints of financials", talk).verdict == "as_assumed"


def test_a_service_that_does_not_know_our_name_for_the_limit_is_asked_without_it() -> None:
    talk = Talk(lambda dataset, limit: (400, "unknown parameter 'limit'") if limit else (200, ""))
    assert finding("endpoints of financials", talk).verdict == "as_assumed"


def test_lists_that_cannot_be_read_are_not_as_assumed() -> None:
    found = finding("lists", Talk(lambda dataset, limit: (200, "")))
    assert found.verdict == "covered"
    assert "not an overview of lists" in found.seen


def test_a_refused_endpoint_is_described_in_the_words_of_the_service() -> None:
    found = finding("endpoints of lookalikes", Talk(lambda dataset, limit: (400, "no year")))
    assert (found.seen, found.verdict) == ("GET 400: refused (400: no year)", "needs_you")
    assert found.next_step.startswith("Ask the service to allow or repair lookalikes")


def test_where_nothing_is_found_the_words_of_the_service_are_quoted() -> None:
    """They show whether it knows none of the companies, or not the path."""
    found = finding("spelling of company numbers", Talk(lambda dataset, limit: (404, "no such route")))
    assert found.seen.endswith("(404: no such route)")
    assert "api.base_url" in found.next_step


def test_where_every_request_is_refused_a_person_must_write_what_the_service_asks_for() -> None:
    """A run over the list would only be refused too."""
    found = finding("bulk body", Talk(lambda dataset, limit: (400, "header X-Client is required")))
    assert found.verdict == "needs_you"
    assert found.seen.endswith("is refused (400: header X-Client is required)")
    assert "api.requests" in found.next_step


def test_where_answers_name_no_company_a_person_must_look_before_the_list_is_bought() -> None:
    class Nameless(Talk):
        def _answer(self, request: Any, status: int, message: str) -> Answer:
            body = [{"identifier": {"companyNumber": ACME.company_number}, "data": []}]
            return Answer(request, 1, status, "", {}, json.dumps(body).encode(), NOON, 1, 0)

    found = finding("spelling of company numbers", Nameless(lambda dataset, limit: (200, "")))
    assert found.verdict == "needs_you"
    assert "is no company number of the specification" in found.seen


def test_where_only_get_fails_a_run_may_work_all_the_same() -> None:
    """Runs ask by POST, which a check does not try before it knows a company."""
    found = finding("endpoints of lookalikes", Talk(lambda dataset, limit: (405, "")))
    assert (found.seen, found.verdict) == ("GET 405: fails", "needs_you")
    assert "`firmlake run LIST --sample 5`" in found.next_step


@pytest.mark.parametrize(
    ("ours", "said", "setting"),
    [
        ("Accept-Language", "header 'X-Language' must be one of NL, FR", "accepts in X-Language, and"),
        ("Accept-Language", "the X-Lang header is required", "accepts in X-Lang, and"),
        ("X-Language", "header 'X-Language' must be one of NL, FR", "api.language to a language"),
    ],
)
def test_where_the_service_names_a_header_for_the_language_so_does_the_next_step(
    ours: str, said: str, setting: str
) -> None:
    text = API.requests.financials.replace("Accept-Language", ours)
    api = msgspec.structs.replace(API, requests=msgspec.structs.replace(API.requests, financials=text))
    found = finding("endpoints of lookalikes", Talk(lambda dataset, limit: (400, said), api))
    assert said in found.seen
    assert setting in found.next_step
