"""What `check` says of companies that do not exist."""

from __future__ import annotations

import json
from typing import Any

from firmlake.api import requests
from firmlake.api.exchange import Answer
from firmlake.check.wording import find_not_found
from firmlake.core.company import Company
from firmlake.core.settings import ApiSettings
from support import ACME, BOLT, NOON, found, lookalike


class Talk:
    """Stands for a service: a function gives the content of an answer for the companies asked for."""

    def __init__(self, answer: Any) -> None:
        self.api, self._answer = ApiSettings(), answer

    def bulk(self, dataset: str, companies: list[Company]) -> Answer:
        body = json.dumps(self._answer(companies)).encode()
        return Answer(requests.bulk(self.api, dataset, companies), 1, 200, "", {}, body, NOON, 1, 0)


def verdict(answer: Any) -> str:
    return find_not_found(Talk(answer), "lookalikes", ACME, BOLT).verdict  # type: ignore[arg-type]


def test_a_service_that_leaves_out_unknown_companies_is_covered() -> None:
    assert verdict(lambda asked: [found(ACME, "lookalikes", lookalike())] if ACME in asked else []) == "covered"


def test_a_service_that_answers_nothing_where_one_is_unknown_is_not() -> None:
    """Runs give such companies up, and ask again each time."""
    assert verdict(lambda asked: []) == "needs_you"
