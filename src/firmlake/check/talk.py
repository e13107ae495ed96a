"""A conversation with the service: requests within a budget, with all answers kept and refusals returned as answers."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

import msgspec

from firmlake.api import requests
from firmlake.api.answers import Element, Paging, read_answer, repaired
from firmlake.api.client import Access, Client
from firmlake.api.connection import Timing
from firmlake.api.exchange import Answer, read_credits
from firmlake.api.judge import REFUSALS, check_credits, read_message, tells_hurry
from firmlake.api.requests import Request
from firmlake.check.finding import Finding
from firmlake.core.company import Company
from firmlake.core.errors import FirmlakeError, RequestFailedError, Stopped, UnavailableError, UnusableAnswerError
from firmlake.core.example import Example, in_lower_case, read_example
from firmlake.core.settings import ApiSettings, Settings, change_settings
from firmlake.core.text import count_of

FORBIDDEN = 403
LOWER = "{country_lower}"
"""What an example has that writes the codes of countries in lower case."""
_TRIES = 3
_TRIES_OF_TRIAL = 2
"""The answer to a trial may never arrive, and each try may last until the timeout."""
_USED = re.compile(r"used|usage|consum|spent")
_CHARGED = re.compile(rf"charg|cost|deduct|{_USED.pattern}")
_REMAINING = re.compile(r"credit.*(remain|left|balance|available)|(remain|left|balance|available).*credit")
_decode = msgspec.json.Decoder(float_hook=Decimal).decode


def read_json(body: bytes) -> Any:
    """Read a body as JSON as runs do, with exact decimals and without a byte order mark; None if it is not JSON."""
    body = body.removeprefix(b"\xef\xbb\xbf")
    for text in (body, repaired(body.decode("utf-8", "replace").encode())):
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _decode(text)
    return None


def elements_of(answer: Answer) -> list[Element]:
    """Read the elements of an answer as runs do; none if it is no answer about companies or cannot be read."""
    if answer.is_success and answer.request.companies:
        with contextlib.suppress(UnusableAnswerError):
            return read_answer(answer.request.endpoint, answer.body)
    return []


def is_refusal(answer: Answer) -> bool:
    """Return whether the service refuses the form of a request, by its status or in words of status 200."""
    is_told = answer.is_success and not elements_of(answer) and bool(read_message(answer))
    return answer.status in REFUSALS or is_told


def is_accepted(answer: Answer) -> bool:
    """Return whether the service accepts a request, also if its answer cannot be read."""
    return answer.is_success and not is_refusal(answer)


def is_lost(answer: Answer) -> bool:
    """Return whether an answer was cut or came too late, which happens when it is too large for the service."""
    return answer.failure in ("broken", "timeout", "body")


def is_crash(answer: Answer) -> bool:
    """Return whether the service failed at a request, as some do at a body that they do not expect.

    A 503 says nothing about the request: the service is overloaded, or its rate limiter says so.
    """
    return is_lost(answer) or ((answer.status or 0) >= 500 and not answer.is_busy)


def is_charge(header: str) -> bool:
    """Return whether the name of a header suggests that it holds the credits charged for a request."""
    return "credit" in header and bool(_CHARGED.search(header))


def is_remainder(header: str) -> bool:
    """Return whether the name of a header suggests that it holds the credits left."""
    return bool(_REMAINING.search(header))


def pagination(answer: Answer) -> dict[str, int]:
    """Read the pagination of the first element of an answer; empty if there is none."""
    first = next(iter(elements_of(answer)), None)
    return {key: count for key in Paging._fields if (count := getattr(first, key, None)) is not None}


class Talk:
    """Asks the service one question at a time.

    Args:
        access: The settings to begin with, the token, and the throttle, which also limits the number of requests.
        credits_max: How many companies may be asked for; the first request for each may cost a credit.
        stop: Set to interrupt.
        on_answer: Called with each answer before anything acts on it.
        timing: The clock and the waits of requests.

    Attributes:
        api: The settings, corrected by the findings so far.
        given: The settings to begin with.
        answers: All answers, in order.
        asked: The companies requested so far.
    """

    def __init__(
        self,
        access: Access,
        credits_max: int,
        stop: threading.Event,
        on_answer: Callable[[Answer], object],
        timing: Timing,
    ) -> None:
        self.api = self.given = access.api
        self.answers: list[Answer] = []
        self.asked: list[Company] = []
        self._access, self._stop = access, stop
        self._on_answer, self._timing = on_answer, timing
        self._credits_max = credits_max
        self._kept = dict[Request, Answer]()
        self._client = self._connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()

    def _connect(self) -> Client:
        return Client(self._access, stop=self._stop, timing=self._timing)

    def adopt(self, finding: Finding) -> Finding:
        """Use the settings of a finding from now on, and return it."""
        self.api = change_settings(Settings(api=self.api), finding.settings).api
        return finding

    def ask(self, request: Request, *, is_trial: bool = False) -> Answer:
        """Send a request and return the answer, which may be a refusal. What was answered before is not sent again.

        If another request is tried after this one is too much for the service (`is_trial`), a lost answer is returned
        too, and it is tried less often.

        Raises:
            Stopped: The request exceeds the budget of companies, no credits are left, or a signal arrived.
            AuthorizationError: Status 401; get a valid token.
            FirmlakeError: There was no answer, only part of one, or a redirect. The message says what to do.
        """
        if request in self._kept:
            return self._kept[request]
        self._spend(request.companies)
        self._stop_if_overcharged()
        heard: list[Answer] = []

        def hear(answer: Answer) -> None:
            heard.append(answer)
            self._on_answer(answer)

        def accept(_: bytes) -> None:
            """Accept any answer but one that says that requests come too fast; the findings judge it."""
            if is_refusal(heard[-1]) and tells_hurry(read_message(heard[-1])):
                raise UnusableAnswerError("Requests come too fast")

        try:
            tries = _TRIES_OF_TRIAL if is_trial else _TRIES
            self._client.send(request, accept, tries=tries, is_patient=False, on_answer=hear)
            check_credits(elements_of(heard[-1]) if request.companies else [])
        except Stopped:
            raise
        except FirmlakeError as error:
            # Some refusals are errors for the client, which sends no more after them, but answers for a check.
            self._client.close()
            self._client = self._connect()
            status = heard[-1].status if heard else None
            is_borne = is_trial and isinstance(error, RequestFailedError | UnavailableError) and is_lost(heard[-1])
            is_told = status is not None and (status >= 400 or (status < 300 and not heard[-1].error))
            if not is_borne and (status == 401 or not is_told):
                raise
        finally:
            self.answers += heard
        if heard[-1].is_success or is_refusal(heard[-1]):
            self._kept[request] = heard[-1]
        return heard[-1]

    def single(self, dataset: str, company: Company, limit: int | None = None, offset: int | None = None) -> Answer:
        """Ask for one company by GET, with a limit that may exceed ours; None leaves both numbers to the service."""
        by_get = msgspec.structs.replace(self.api.requests, **{dataset: get_example(self.api, dataset).text})
        tried = msgspec.structs.replace(self.api, requests=by_get)
        return self.ask(requests.bulk(tried, dataset, [company], limit, offset))

    def bulk(
        self,
        dataset: str,
        companies: list[Company],
        limit: int | None = None,
        offset: int | None = None,
        *,
        size: int = 0,
        **api: Any,
    ) -> Answer:
        """Ask for several companies as runs do: for the first alone if the example names no array of them.

        With `size`, repeat the last one until the body names that many: a trial, as with other examples of requests.
        """
        tried = msgspec.structs.replace(self.api, **api)
        asked = companies[: size or None][: requests.fitting(tried, dataset).companies_per_request]
        request = requests.bulk(tried, dataset, asked, limit, offset, count=size)
        return self.ask(request, is_trial=bool(size) or "requests" in api)

    @property
    def charged(self) -> int:
        """Credits that the service has charged, according to its headers."""
        charges, left = self._credits
        return sum(charges) if charges or not left else max(left) - left[-1]

    @property
    def tells_credits(self) -> bool:
        """Whether any header reports credits charged or left."""
        return any(self._credits)

    @property
    def _credits(self) -> tuple[list[int], list[int]]:
        charged, left = self.api.names.credits_charged_header, self.api.names.credits_remaining_header
        return self.credits_in(charged, is_charge), self.credits_in(left, is_remainder)

    def credits_in(self, usual: str, is_like: Callable[[str], bool] = lambda name: False) -> list[int]:
        """Return the numbers of credits in the header of this name, or else of a similar one, in order of the answers.

        A similar one may say how many were used in all; then these are the numbers by which it rises.
        """
        rows = dict[str, list[int]]()
        for name, text in (each for answer in self.answers for each in answer.headers.items()):
            if (name == usual.lower() or is_like(name)) and (credits := read_credits(text)) is not None:
                rows.setdefault(name, []).append(credits)
        if usual.lower() in rows:
            return rows[usual.lower()]
        name, row = next(iter(rows.items()), ("", []))
        is_total = _USED.search(name) and row == sorted(row)
        return [after - before for before, after in pairwise(row)] if is_total else row

    def _stop_if_overcharged(self) -> None:
        if self.charged > self._credits_max:
            companies = count_of(len(self.asked), "company")
            raise Stopped(
                f"The service charged {self.charged} credits for {companies}, "
                f"more than the {self._credits_max} allowed for this check",
                "It does not charge one credit per company in 30 days: ask it what it charges before a run",
            )

    def _spend(self, companies: tuple[Company, ...]) -> None:
        new = [company for company in dict.fromkeys(companies) if company not in self.asked]
        if len(self.asked) + len(new) > self._credits_max:
            raise Stopped(f"The {self._credits_max} credits of this check are used up", "Allow more with --companies")
        self.asked += new


def example_of(api: ApiSettings, dataset: str) -> Example:
    """Return the example of a request for a dataset."""
    return read_example(dataset, getattr(api.requests, dataset))


def get_example(api: ApiSettings, dataset: str) -> Example:
    """Return the example of a GET for one company, as the specification has it, with the headers and names of ours."""
    ours = example_of(api, dataset)
    if ours.method == "GET":
        return ours
    names = {role: name for role, name in roles_of(ours).items() if role in ("limit", "offset")}
    query = tuple((name, f"{{{role}}}") for role, name in names.items())
    by_get = Example("GET", f"/v1/companies/{{country}}/{{number}}/{dataset}", query, ours.headers, None)
    return in_lower_case(by_get) if LOWER in ours.text else by_get


def roles_of(example: Example) -> dict[str, str]:
    """Return the keys and parameters of an example by what they stand for."""
    found: dict[str, str] = {}

    def look(part: Any) -> None:
        for key, value in part.items() if isinstance(part, dict) else ():
            if role := role_of(value):
                found.setdefault(role, key)
            look(value)
        for each in part if isinstance(part, list) else ():
            look(each)

    look(dict(example.query))
    look(example.body)
    return found


def role_of(value: Any) -> str | None:
    """Return what a value in an example stands for."""
    if isinstance(value, list):
        return "companies"
    text = value.replace("\0", "{") if isinstance(value, str) else ""
    roles = {"{number": "company_number", "{country": "country", "{limit": "limit", "{offset": "offset"}
    return next((role for mark, role in roles.items() if mark in text), None)
