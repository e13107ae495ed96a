"""A conversation with the service: every request within a budget, every answer kept, a refusal as good as an answer."""

from __future__ import annotations

import re
import threading
from decimal import Decimal
from types import TracebackType
from typing import Any, Self

import msgspec

from firmlake.api import requests
from firmlake.api.authorization import Token
from firmlake.api.client import Client
from firmlake.api.exchange import Answer
from firmlake.api.requests import Request
from firmlake.api.throttle.throttle import Throttle
from firmlake.core.company import Company
from firmlake.core.errors import FirmlakeError, Stopped
from firmlake.core.settings import ApiSettings

__all__ = ["Talk", "is_charge", "is_refusal", "pagination", "read_json"]

_REFUSALS = (400, 413, 422)
_TRIES = 2
_CHARGED = re.compile(r"charg|used|usage|cost|consum|spent|deduct")
_decode = msgspec.json.Decoder(float_hook=Decimal).decode


def read_json(body: bytes) -> Any:
    """Read a body as JSON with exact decimals, a byte order mark before it ignored; None where it is no JSON."""
    try:
        return _decode(body.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def is_refusal(answer: Answer) -> bool:
    """Tell whether the service says that it wants this request otherwise."""
    return answer.status in _REFUSALS


def is_charge(header: str) -> bool:
    """Tell whether a header's name says that it tells the credits a request cost."""
    return "credit" in header and bool(_CHARGED.search(header))


def pagination(answer: Answer) -> dict[str, int]:
    """Read the pagination of the first element of an answer; empty where there is none."""
    content = read_json(answer.body) if answer.status == 200 else None
    element = content[0] if isinstance(content, list) and content else content
    page = element.get("pagination") if isinstance(element, dict) else None
    return {key: n for key, n in page.items() if type(n) is int} if isinstance(page, dict) else {}


class Talk:
    """Asks the service one thing after the other.

    Args:
        api: The settings as they are; `api` is replaced as more is found out.
        token: Sent to the service.
        throttle: When a request may be sent, and how many in all.
        credits_max: Companies that may be asked for: the first request for each may cost a credit.
        stop: Set to interrupt.

    Attributes:
        api: The settings as far as they are known to be right.
        answers: All that was answered, in order.
        asked: Companies that were asked for.
    """

    def __init__(
        self, api: ApiSettings, token: Token, throttle: Throttle, credits_max: int, stop: threading.Event
    ) -> None:
        self.api = api
        self.answers: list[Answer] = []
        self.asked: list[Company] = []
        self._token, self._throttle, self._stop = token, throttle, stop
        self._credits_max = credits_max
        self._clients: dict[bytes, Client] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for client in self._clients.values():
            client.close()

    def ask(self, request: Request, api: ApiSettings | None = None) -> Answer:
        """Send a request and give whatever was answered, a refusal too.

        Args:
            request: What to ask.
            api: Language and header names; None takes those known by now.

        Raises:
            Stopped: A company more than the budget allows, no credits left, or a signal.
            AuthorizationError: 401.
            FirmlakeError: No answer at all, or a redirect.
        """
        self._spend(request.companies)
        self._stop_if_overcharged()
        key = msgspec.json.encode(api or self.api)
        if key not in self._clients:
            self._clients[key] = Client(api or self.api, self._token, self._throttle, stop=self._stop)
        heard: list[Answer] = []
        try:
            self._clients[key].send(request, tries=_TRIES, is_patient=False, on_answer=heard.append)
        except Stopped:
            raise
        except FirmlakeError:
            # The client takes some refusals for the end of all; to us they are what we wanted to know.
            self._clients.pop(key).close()
            status = heard[-1].status if heard else None
            if status is None or status == 401 or 300 <= status < 400:
                raise
        finally:
            self.answers += heard
        return heard[-1]

    def single(
        self, dataset: str, company: Company, limit: int | None = None, offset: int | None = None, **api: Any
    ) -> Answer:
        """Ask for one company by GET.

        Args:
            dataset: Which of its datasets.
            company: Which company.
            limit: Records, however many; None leaves it to the service.
            offset: Records to skip.
            **api: Settings to try in place of those known.
        """
        tried = msgspec.structs.replace(self.api, **api)
        return self.ask(requests.single(_lifted(tried), dataset, company, limit, offset), tried)

    def bulk(
        self,
        dataset: str,
        companies: list[Company],
        limit: int | None = None,
        offset: int | None = None,
        *,
        copies: int = 1,
        **api: Any,
    ) -> Answer:
        """Ask for several companies by POST, where `copies` says so each several times, which costs no more."""
        tried = msgspec.structs.replace(self.api, **api)
        request = requests.bulk(_lifted(tried), dataset, companies, limit, offset)
        if copies > 1:
            body = msgspec.json.decode(request.body)
            body[tried.names.companies] *= copies
            request = msgspec.structs.replace(request, body=msgspec.json.encode(body))
        return self.ask(request, tried)

    @property
    def charged(self) -> int:
        """Credits that the service has charged, as far as its headers tell."""
        named = self.api.names.credits_charged_header.lower()
        return sum(
            int(text)
            for answer in self.answers
            for header, text in answer.headers.items()
            if text.isdecimal() and (header == named or is_charge(header))
        )

    def _stop_if_overcharged(self) -> None:
        if self.charged > self._credits_max:
            raise Stopped(
                f"The service charged {self.charged} credits for {len(self.asked)} companies, more than the "
                f"{self._credits_max} of this check",
                "It charges otherwise than one credit for a company in 30 days: settle that before a run",
            )

    def _spend(self, companies: tuple[Company, ...]) -> None:
        new = [company for company in dict.fromkeys(companies) if company not in self.asked]
        if len(self.asked) + len(new) > self._credits_max:
            raise Stopped(f"The {self._credits_max} credits of this check are used up", "Allow more with --companies")
        self.asked += new


def _lifted(api: ApiSettings) -> ApiSettings:
    """Allow requests beyond the limits we assume, to see where those of the service are."""
    return msgspec.structs.replace(api, page_limit_max=10**6, records_per_request=0, companies_per_request=10**4)
