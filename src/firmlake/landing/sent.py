"""A page to send, and what came of it."""

from __future__ import annotations

from typing import NamedTuple

from firmlake.api.element import Element
from firmlake.api.judge import NO_SUCH_PLACE
from firmlake.api.unknown import NOT_FOUND, is_about
from firmlake.core.errors import FirmlakeError, RequestFailedError, RequestRefusedError
from firmlake.core.settings import ApiSettings
from firmlake.landing.pages import Page
from firmlake.landing.segments import Header

__all__ = ["TRIES_ALONE", "Ask", "Record", "Sent", "halve"]

TRIES_ALONE = 2
"""Tries for a single company before it is given up: one failure may be the fault of the service."""

Record = tuple[Header, bytes, list[Element] | None]
"""A landed answer, with its elements if they were read."""


class Ask(NamedTuple):
    """A page to send.

    Attributes:
        page: The page.
        tries: How often to try before the request counts as failed.
        is_patient: Whether to wait while the service fails on every request.
    """

    page: Page
    tries: int
    is_patient: bool = True


class Sent(NamedTuple):
    """The result of sending a page: the landed answers, and the final error."""

    ask: Ask
    landed: list[Record]
    error: FirmlakeError | None

    @property
    def is_refused(self) -> bool:
        """Whether the service refused the request and would refuse it again."""
        return isinstance(self.error, RequestRefusedError)

    @property
    def is_spoilt(self) -> bool:
        """Whether the request failed and one of its companies may be the reason."""
        return isinstance(self.error, RequestRefusedError | RequestFailedError)

    @property
    def is_no_such_place(self) -> bool:
        """Whether the request was refused because the endpoint does not exist; other datasets may still be offered."""
        return self.is_refused and self.landed[-1][0].status in NO_SUCH_PLACE

    @property
    def is_empty(self) -> bool:
        """Whether the last answer was an empty array."""
        return bool(self.landed) and self.landed[-1][0].is_success and b"".join(self.landed[-1][1].split()) == b"[]"

    def names_unknown(self, api: ApiSettings) -> bool:
        """Return whether the request was refused because the service does not know its only company.

        A wrong address gets a 404 too, so the message must be the one for unknown companies or name the company.
        """
        error, companies = self.error, self.ask.page.companies
        if not isinstance(error, RequestRefusedError) or self.landed[-1][0].status != NOT_FOUND:
            return False
        return len(companies) == 1 and is_about(api, companies[0], error.said)


def halve(page: Page) -> list[Ask]:
    """Split a page into halves; return none for a page of one company."""
    if len(page.companies) == 1:
        return []
    middle = (len(page.companies) + 1) // 2
    halves = (page.companies[:middle], page.companies[middle:])
    return [Ask(page._replace(companies=half), 1 if len(half) > 1 else TRIES_ALONE) for half in halves]
