"""Send the pages of a run; every answer lands before anything acts on it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext

import msgspec

from firmlake.api import requests
from firmlake.api.answers import read_answer
from firmlake.api.client import Answer, Client
from firmlake.api.element import Element
from firmlake.api.unknown import says_unknown
from firmlake.core.errors import (
    EndpointPausedError,
    ForbiddenError,
    OutOfCreditsError,
    RequestFailedError,
    RequestRefusedError,
    ServiceError,
    UnavailableError,
    UnusableAnswerError,
)
from firmlake.core.log import log
from firmlake.core.settings import ApiSettings
from firmlake.landing.pages import Page
from firmlake.landing.progress import check_answer
from firmlake.landing.segments import Header, answered
from firmlake.landing.sent import Ask, Record, Sent
from firmlake.landing.shard import Shard

__all__ = ["Sender"]

_ABOUT_PAGE = (
    RequestFailedError,
    RequestRefusedError,
    ForbiddenError,
    EndpointPausedError,
    UnavailableError,
    OutOfCreditsError,
)
"""Errors after which other requests may still be answered; any other error ends the run."""


class Sender:
    """Sends the pages of a run, from any thread.

    Args:
        client: Client of the service.
        api: Limits and names of the service.
        on_answer: Called after each answer has landed.
        clean: Removes from an answer what must not land; see `privacy.persons.answer_filter`.
    """

    def __init__(
        self,
        client: Client,
        api: ApiSettings,
        on_answer: Callable[[Answer], object],
        clean: Callable[[bytes], bytes],
    ) -> None:
        self._client = client
        self._api = api
        self._on_answer = on_answer
        self._clean = clean
        self._in_turn = threading.Lock()
        self._has_met_others = False

    def send(self, ask: Ask, shard: Shard) -> Sent:
        """Send one page; every answer lands before anything acts on it."""
        with self._in_turn if shard.account.is_tight else nullcontext():
            return self._send(ask, shard)

    def _send(self, ask: Ask, shard: Shard) -> Sent:
        page, standing, account = ask.page, shard.standing, shard.account
        due = sum(not shard.progress.is_paid(company) for company in page.companies)
        ended = next(filter(None, map(standing.refusal, shard.scopes(page))), account.end or account.refusal(due))
        if ended:
            return Sent(ask, [], ended)
        request = requests.bulk(self._api, page.dataset, page.companies, page.limit, page.offset)
        base = shard.header(page)
        is_apart, is_refresh = shard.is_apart(page), shard.is_refresh(page)
        account.expect(due)
        landed: list[Record] = []

        def land(answer: Answer) -> None:
            header = answered(base, answer)
            if answer.request is not request:
                header = msgspec.structs.replace(header, kind="probe", companies=())
            content = self._clean(answer.body)
            header = shard.writer.append(header, content)
            landed.append((header, content, None))
            account.note(header, due, is_free=is_refresh)
            _log_answer(header)
            self._on_answer(answer)

        def check(body: bytes) -> None:
            if not (standing.is_understood or is_apart):
                self._recognise(page, read_answer(page.dataset, body), shard)
            elements = check_answer(page.dataset, body)
            if landed[-1][1] is body:  # false if the body was cleaned, or if the last answer was to a probe
                landed[-1] = (landed[-1][0], body, elements)

        is_patient = ask.is_patient and not is_apart
        try:
            self._client.send(request, check, tries=ask.tries, is_patient=is_patient, on_answer=land)
        except _ABOUT_PAGE as error:
            return Sent(ask, landed, error)
        return Sent(ask, landed, None)

    def _recognise(self, page: Page, elements: list[Element], shard: Shard) -> None:
        """Check that the first answers are about companies that were requested.

        Raises:
            UnusableAnswerError: The answer is about several other companies instead. Ask again.
            ServiceError: A second answer is, too. Stop: further requests would cost credits for nothing.
        """
        names = shard.run.plan.names
        asked = [(element.company, element) for element in elements if element.company in page.companies]
        others = [element for element in elements if element.company not in page.companies]
        if any(company and not says_unknown(names, company, element.message or "") for company, element in asked):
            shard.standing.is_understood = True
        elif len(others) > 1:
            what = others[0].problem or f"{others[0].company} was not asked for"
            count = len(page.companies)
            message = f"The answer for {page.dataset} covers none of the {count} companies requested: {what}"
            if not self._has_met_others:
                self._has_met_others = True
                raise UnusableAnswerError(message)
            raise ServiceError(
                message, "Run `firmlake check LIST` to see how the service writes the identifiers of companies"
            )


def _log_answer(header: Header) -> None:
    log(
        "landed",
        run=header.run_id,
        shard=header.shard,
        request=header.request_id,
        dataset=header.dataset,
        companies=len(header.companies),
        offset=header.offset,
        attempt=header.attempt,
        status=header.status,
        error=header.error,
        seconds=header.duration_seconds,
    )
