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
        self.api, self._answers = api, answers
        self.asked: list[tuple[str, int | None]] = []

    def ask(self, request: Any) -> Answer:
        return self._answer(request, 200, "")

    def single(
        self, dataset: str, company: Any, limit: int | None = None, offset: int | None = None, **api: bool
    ) -> Answer:
        self.asked.append((dataset, limit))
        return self._answer(requests.single(self.api, dataset, company, limit, offset), *self._answers(dataset, limit))

    def bulk(self, dataset: str, companies: Any) -> Answer:
        return self._answer(requests.bulk(self.api, dataset, companies), 401, "no more")

    def _answer(self, request: Any, status: int, message: str) -> Answer:
        return Answer(request, 1, status, "", {}, json.dumps({"error": {"message": message}}).encode(), NOON, 1, 0)


def findings(talk: Talk) -> dict[str, Finding]:
    return {one.assumption: one for one in ask_questions(talk, [ACME], None)}  # type: ignore[arg-type]


def test_the_first_request_for_pages_states_a_limit_as_every_request_of_a_run_does() -> None:
    """A service may require it."""
    talk = Talk(lambda dataset, limit: (200, "") if limit or dataset != "financials" else (400, "limit is required"))
    assert findings(talk)["endpoints of financials"].verdict == "as_assumed"


def test_a_service_that_does_not_know_our_name_for_the_limit_is_asked_without_it() -> None:
    talk = Talk(lambda dataset, limit: (400, "unknown parameter 'limit'") if limit else (200, ""))
    assert findings(talk)["endpoints of financials"].verdict == "as_assumed"


def test_lists_that_cannot_be_read_are_not_as_assumed() -> None:
    found = findings(Talk(lambda dataset, limit: (200, "")))["lists"]
    assert found.verdict == "covered"
    assert "not an overview of lists" in found.seen


def test_a_refused_endpoint_is_described_in_the_words_of_the_service() -> None:
    found = findings(Talk(lambda dataset, limit: (400, "no year")))["endpoints of lookalikes"]
    assert (found.seen, found.verdict) == ("GET 400: refused (400: no year)", "needs_you")
    assert found.next_step.startswith("Ask the service to allow or repair lookalikes")


def test_where_nothing_is_found_the_words_of_the_service_are_quoted() -> None:
    """They show whether it knows none of the companies, or not the path."""
    found = findings(Talk(lambda dataset, limit: (404, "no such route")))["spelling of company numbers"]
    assert found.seen.endswith("(404: no such route)")
    assert "api.base_url" in found.next_step


def test_where_only_get_fails_a_run_may_work_all_the_same() -> None:
    """Runs ask by POST, which a check does not try before it knows a company."""
    found = findings(Talk(lambda dataset, limit: (405, "")))["endpoints of lookalikes"]
    assert (found.seen, found.verdict) == ("GET 405: fails", "needs_you")
    assert "`firmlake run LIST --sample 5`" in found.next_step


@pytest.mark.parametrize(
    ("ours", "said", "setting"),
    [
        ("Accept-Language", "header 'X-Language' must be one of NL, FR", "api.names.language_header to X-Language"),
        ("Accept-Language", "the X-Lang header is required", "api.names.language_header to X-Lang,"),
        ("X-Language", "header 'X-Language' must be one of NL, FR", "api.language to a language"),
    ],
)
def test_where_the_service_names_a_header_for_the_language_so_does_the_next_step(
    ours: str, said: str, setting: str
) -> None:
    api = msgspec.structs.replace(API, names=msgspec.structs.replace(API.names, language_header=ours))
    found = findings(Talk(lambda dataset, limit: (400, said), api))["endpoints of lookalikes"]
    assert said in found.seen
    assert setting in found.next_step
