"""One client for all endpoints: sends a request until there is an answer to use or a reason to give up."""

from __future__ import annotations

import itertools
import random as random_module
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from firmlake.api.authorization import Token
from firmlake.api.breaker import CircuitBreaker, Probe, RetryBudget
from firmlake.api.connection import Connection
from firmlake.api.exchange import Answer
from firmlake.api.judge import Check, judge
from firmlake.api.requests import Request
from firmlake.api.retry import THROTTLED_MAX_SECONDS, TryAgainError, retrying
from firmlake.api.throttle.throttle import Throttle
from firmlake.core.errors import (
    AuthorizationError,
    FirmlakeError,
    ForbiddenError,
    InterruptedRunError,
    PausedByServiceError,
    RequestFailedError,
    RequestRefusedError,
    ServiceError,
    ThrottleStoreError,
    UnavailableError,
)
from firmlake.core.settings import ApiSettings

if TYPE_CHECKING:
    import httpx

__all__ = ["Answer", "Client"]

_CONTINUE = "What was fetched is kept; run again to continue"

OnAnswer = Callable[[Answer], object]


class Client:
    """Talks to the service; `send` may be called from many threads at once.

    Args:
        api: The service and its limits.
        token: Sent to the service and nowhere else.
        throttle: When a request may be sent.
        on_answer: Gets every attempt that ended, with an answer of any status or with none, before anything is
            decided from it. What it raises ends `send`.
        stop: Set to interrupt: waits end at once, an answer under way has 8 s left, nothing new is sent.
        budget: Retries allowed; None makes the usual one.
        make_breaker: Makes the circuit breaker of an endpoint; None makes the usual one.
        transport: For tests; None connects to the service.
        clock: Monotonic seconds.
        sleep: Waits so many seconds; None waits for `stop`.
        random: 0 to 1.
        utc_now: Time of day.
        on_wait: Gets why a request has to wait, from any thread; an empty text when one is answered.

    Raises:
        SettingsError: `api.base_url` cannot be used; nothing has been sent.
    """

    def __init__(
        self,
        api: ApiSettings,
        token: Token,
        throttle: Throttle,
        *,
        on_answer: OnAnswer | None = None,
        stop: threading.Event | None = None,
        budget: RetryBudget | None = None,
        make_breaker: Callable[[], CircuitBreaker] | None = None,
        transport: httpx.BaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
        random: Callable[[], float] = random_module.random,
        utc_now: Callable[[], datetime] = lambda: datetime.now(UTC),
        on_wait: Callable[[str], object] = lambda why: None,
    ) -> None:
        self._api = api
        self._token = token
        self._throttle = throttle
        self._on_answer = on_answer
        self._stop = stop or threading.Event()
        self._sleep = sleep or self._stop.wait
        self._clock = clock
        self._random = random
        self._budget = budget or RetryBudget()
        self._make_breaker = make_breaker or partial(CircuitBreaker, clock, random)
        self._breakers: dict[str, CircuitBreaker] = {}
        self._on_wait = on_wait
        self._has_connected = False
        self._has_answered = False
        self._answered: dict[str, tuple[Request, Check | None]] = {}
        self._end: FirmlakeError | None = None
        self._ends: dict[str, FirmlakeError] = {}
        self._connection = Connection(api, token, self._stop, clock, utc_now, transport)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def send(
        self,
        request: Request,
        check: Callable[[bytes], object] | None = None,
        *,
        tries: int | None = None,
        is_patient: bool = True,
        on_answer: OnAnswer | None = None,
    ) -> Answer:
        """Send a request until it is answered usably.

        Args:
            request: From `firmlake.api.requests`.
            check: Raises UnusableAnswerError for a body of status 200 that says nothing; then it is asked for again,
                up to three times.
            tries: Tries that may fail; None takes `api.tries`. 1 to find out which half of a request fails.
            is_patient: Whether to wait while the endpoint fails on every request or the service cannot be reached; if
                not, the request fails.
            on_answer: For this request, in place of the client's. It also gets the answers to probes: what was
                answered before is asked again to see whether the service is well; their `request` is another.

        Returns:
            The answer, status 200.

        Raises:
            RequestRefusedError: The service will not answer this request (400, 404 ...): leave companies out.
            RequestFailedError: All tries failed: likewise, unless `is_outage`.
            OutOfCreditsError: 402: buy no more.
            PausedByServiceError: It wants a longer pause than the settings allow: run again later.
            ThrottleStoreError: Nobody knows whether a request may be sent: likewise.
            InterruptedRunError: `stop` was set.
            AuthorizationError: The token is refused; all further requests end like this one without being sent.
            ForbiddenError: The token may not use the endpoint; all further requests to it end like this one.
            UnavailableError: The endpoint does not exist or fails on everything; likewise.
            ServiceError: The service cannot be reached or redirects: run again later.
        """
        self._budget.earn()
        attempts = itertools.count(1)
        on_answer = on_answer or self._on_answer
        breaker, wait = self._breaker_of(request), partial(self._wait, request)
        failed_probe_count = breaker.failed_probe_count
        policy = retrying(
            tries or self._api.tries,
            self._api.retry_wait_max_seconds,
            self._budget,
            has_connected=lambda: self._has_connected and is_patient,
            clock=self._clock,
            sleep=wait,
            random=self._random,
            tell=self._on_wait,
        )
        try:
            return policy(self._try, request, check, attempts, is_patient, on_answer)
        except TryAgainError as error:
            if probe := self._probe(request, attempts, on_answer):
                breaker.enter(wait, probe)  # the verdict: is it the service, or this request
            failed = self._given_up(error)
            if isinstance(failed, RequestFailedError):
                failed.is_outage |= breaker.is_open or breaker.failed_probe_count > failed_probe_count
            self._note_end(request, failed)
            raise failed from None
        except FirmlakeError as error:
            self._note_end(request, error)
            raise

    def _note_end(self, request: Request, error: FirmlakeError) -> None:
        """Keep what makes further requests pointless: to the same endpoint, or to the service."""
        if isinstance(error, RequestRefusedError | RequestFailedError):
            return
        if isinstance(error, ForbiddenError | UnavailableError):
            self._ends[request.endpoint] = error
        elif isinstance(error, AuthorizationError | PausedByServiceError | ServiceError | ThrottleStoreError):
            self._end = error

    def _breaker_of(self, request: Request) -> CircuitBreaker:
        breaker = self._breakers.get(request.endpoint)
        if breaker is None:
            breaker = self._breakers.setdefault(request.endpoint, self._make_breaker())
            breaker.subject = request.path
        return breaker

    def _try(
        self,
        request: Request,
        check: Check | None,
        attempts: Iterator[int],
        is_patient: bool,
        on_answer: OnAnswer | None,
    ) -> Answer:
        breaker = self._breaker_of(request)
        probe = self._probe(request, attempts, on_answer)
        if not (is_patient or probe) and breaker.is_open:
            failed = RequestFailedError(f"{request.path} was not sent: it fails on every request")
            failed.is_outage = True
            raise failed
        breaker.enter(partial(self._pause, breaker, request), probe)
        version = self._token.version
        answer = self._ask(request, next(attempts), on_answer)
        if answer.status == 401 and self._token.reread() != version:
            answer = self._ask(request, next(attempts), on_answer)
        try:
            judge(answer, check, self._api.retry_wait_max_seconds)
        except TryAgainError as error:
            if error.kind != "throttled":
                breaker.failed(error.reason)
            raise
        except Exception:
            breaker.succeeded()
            raise
        breaker.succeeded()
        self._on_wait("")
        self._answered[request.endpoint] = request, check
        return answer

    def _probe(self, request: Request, attempts: Iterator[int], on_answer: OnAnswer | None) -> Probe | None:
        """Make a probe of what this endpoint answered last; its companies are paid for, so it is free."""
        if request.endpoint not in self._answered:
            return None
        known, check = self._answered[request.endpoint]

        def probe() -> str:
            try:
                judge(self._ask(known, next(attempts), on_answer), check, self._api.retry_wait_max_seconds)
            except TryAgainError as error:
                return "" if error.kind == "throttled" else error.reason
            return ""

        return probe

    def _ask(self, request: Request, attempt: int, on_answer: OnAnswer | None) -> Answer:
        """Send once, when it is our turn, and hand on what came of it before anybody looks at it."""
        wait = partial(self._wait, request)
        grant = self._throttle.acquire(wait, self._on_wait)
        self._stop_if_ended(request)
        answer = self._connection.exchange(request, attempt)
        self._has_connected |= not answer.error.startswith("unreachable")
        self._has_answered |= answer.status is not None
        if on_answer is not None:
            on_answer(answer)
        self._throttle.observe(grant, answer)
        return answer

    def _pause(self, breaker: CircuitBreaker, request: Request, seconds: float) -> None:
        """Wait while an endpoint fails on every request."""
        self._on_wait(f"{request.path} fails on every request ({breaker.last_failure}), again in {seconds:.0f} s")
        self._wait(request, seconds)

    def _wait(self, request: Request, seconds: float) -> None:
        self._stop_if_ended(request)
        self._sleep(seconds)
        self._stop_if_ended(request)

    def _stop_if_ended(self, request: Request) -> None:
        if self._stop.is_set():
            raise InterruptedRunError("The run was interrupted", _CONTINUE)
        end = self._end or self._ends.get(request.endpoint)
        if end is not None:
            raise type(end)(end.message, end.next_step)

    def _given_up(self, error: TryAgainError) -> FirmlakeError:
        answer, reason = error.answer, error.reason
        if self._stop.is_set():
            return InterruptedRunError("The run was interrupted", _CONTINUE)
        if error.kind == "unreachable" and not self._has_connected:
            return ServiceError(f"{self._connection.host} is {reason}", "Check api.base_url and the network")
        if error.kind == "throttled":
            return PausedByServiceError(
                f"The service has answered nothing but 429 for {THROTTLED_MAX_SECONDS / 60:.0f} minutes",
                "Run again later, with a lower api.requests_per_minute if nobody else uses the key",
            )
        if answer.error.startswith("timeout") and not self._has_answered:
            tries = "1 try" if answer.attempt == 1 else f"{answer.attempt} tries"
            return UnavailableError(
                f"{answer.request.path} was not answered in {tries}: {reason}",
                "Check api.base_url and whether the service is well; api.read_timeout_seconds is how long is waited",
            )
        budget = "; the retry budget is used up" if error.is_out_of_budget else ""
        times = "once" if answer.attempt == 1 else f"{answer.attempt} times"
        failed = RequestFailedError(f"{answer.request.path} failed {times}: {reason}{budget}")
        failed.answer, failed.attempts, failed.is_outage = answer, answer.attempt, error.kind == "unreachable"
        return failed
