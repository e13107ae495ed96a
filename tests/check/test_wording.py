"""What `check` says of companies that do not exist."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from firmlake.api import requests
from firmlake.api.exchange import Answer
from firmlake.check.limits import find_language, find_not_found
from firmlake.core.company import Company
from firmlake.core.settings import ApiSettings
from support import ACME, BOLT, NOON, found, lookalike


class Talk:
    """Stands for a service: a function gives the content of an answer for the companies asked for."""

    def __init__(self, answer: Any) -> None:
        self.api = self.given = ApiSettings()
        self._answer = answer

    def bulk(self, dataset: str, companies: list[Company]) -> Answer:
        body = json.dumps(self._answer(companies)).encode()
        return Answer(requests.bulk(self.api, dataset, companies), 1, 200, "", {}, body, NOON, 1, 0)


def verdict(answer: Any) -> str:
    return find_not_found(Talk(answer), "lookalikes", ACME, BOLT).verdict  # type: ignore[arg-type]


def test_a_service_that_leaves_out_unknown_companies_is_covered() -> None:
    assert verdict(lambda asked: [found(ACME, "lookalikes", lookalike())] if ACME in asked else []) == "covered"


def test_a_service_that_leaves_them_out_and_refuses_a_request_for_one_alone_is_covered_too() -> None:
    """Runs ask for such companies beside a known one."""

    class Strict(Talk):
        def bulk(self, dataset: str, companies: list[Company]) -> Answer:
            told = super().bulk(dataset, companies)
            refused = {"status": 404, "body": b'{"detail": "No companies found"}'}
            return told if ACME in companies else msgspec.structs.replace(told, **refused)

    talk = Strict(lambda asked: [found(ACME, "lookalikes", lookalike())])
    finding = find_not_found(talk, "lookalikes", ACME, BOLT)  # type: ignore[arg-type]
    assert finding.verdict == "covered"
    assert "alone in a request: 404: No companies found" in finding.seen


def test_a_language_is_not_seen_in_another_order_of_the_elements() -> None:
    class Shuffling(Talk):
        def bulk(self, dataset: str, companies: list[Company], **api: Any) -> Answer:
            companies.reverse()
            return super().bulk(dataset, companies)

    def elements(asked: list[Company]) -> Any:
        return [found(company, "lookalikes") for company in asked]

    finding = find_language(Shuffling(elements), "lookalikes", [ACME, BOLT])  # type: ignore[arg-type]
    assert (finding.verdict, finding.settings) == ("not_observed", {})


def test_a_service_that_answers_nothing_where_one_is_unknown_is_not() -> None:
    """Runs give such companies up, and ask again each time."""
    assert verdict(lambda asked: []) == "needs_you"
