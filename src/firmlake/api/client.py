"""The client for all endpoints, which repeats a request until the answer is usable or there is a reason to give up."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from firmlake.api.authorization import Token
from firmlake.api.connection import REAL, Connection, Timing
from firmlake.api.exchange import Answer
from firmlake.api.judge import Check, TryAgainError, judge
from firmlake.api.requests import Request
from firmlake.api.retry import THROTTLED_MAX_SECONDS, CircuitBreaker, Tries
from firmlake.api.throttle.throttle import Throttle
from firmlake.core.errors import (
    RUN_AGAIN,
    AuthorizationError,
    EndpointPausedError,
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
from firmlake.core.text import count_of

if TYPE_CHECKING:
    import httpx


OnAnswer = Callable[[Answer], object]

_ENDS_REQUEST = (RequestRefusedError, RequestFailedError, ForbiddenError)
_ENDS_ENDPOINT = (EndpointPausedError, UnavailableError)
_ENDS_SERVICE = (AuthorizationError, PausedByServiceError, ServiceError, ThrottleStoreError)
_DIFFERS = "Run `firmlake check` to see how the answers differ from our assumptions"
_UNREAD = (
    "Ask the operator of the service or of a proxy in front of it; api.wire_bytes_max and api.body_bytes_max limit the "
    "size"
)


class Access(NamedTuple):
    """What a client needs to use the service. The token is sent to the service and nowhere else."""

    api: ApiSettings
    token: Token
    throttle: Throttle


class Client:
    """A client of the service; many threads may call `send` at once.

    Args:
        access: The service's settings, the token and the throttle.
        on_answer: Called with every attempt, answered or not, before the client acts on it. An exception that it
            raises ends `send`.
        stop: Set this event to interrupt: waits end at once, requests in flight have 8 s left, and no request is sent.
        transport: A transport for tests; None connects to the service.
        timing: Where time and chance come from.
        on_wait: Called from any thread with the reason why a request waits, and with an empty text when a request is
            answered.
    """

    def __init__(
        self,
        access: Access,
        *,
        on_answer: OnAnswer = lambda answer: None,
        stop: threading.Event | None = None,
        transport: httpx.BaseTransport | None = None,
        timing: Timing = REAL,
        on_wait: Callable[[str], object] = lambda why: None,
    ) -> None:
        self._api, self._token, self._throttle = access
        self._on_answer = on_answer
        self._stop = stop or threading.Event()
        self._timing = timing
        self._sleep = timing.sleep or self._stop.wait
        self._breakers: dict[str, CircuitBreaker] = {}
        self._on_wait = on_wait
        self._has_connected = False
        self._has_answered = False
        self._end: FirmlakeError | None = None
        self._ends: dict[str, FirmlakeError] = {}
        self._connection = Connection(self._api, self._token, self._stop, timing, transport)

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
        check: Check | None = None,
        *,
        tries: int | None = None,
        is_patient: bool = True,
        on_answer: OnAnswer | None = None,
    ) -> Answer:
        """Send a request, repeating it until the answer is usable.

        Args:
            request: A request from `firmlake.api.requests`.
            check: Raises UnusableAnswerError if the body of a successful answer is useless. The request is then sent
                again, up to three times in all.
            tries: How often to try before the request counts as failed; None takes `api.tries`.
            is_patient: Whether to wait while the endpoint fails on every request or the service cannot be reached;
                False fails the request instead.
            on_answer: Replaces the client's `on_answer` for this request.

        Returns:
            The answer, with a successful status.

        Raises:
            RequestRefusedError: The service refuses this request (400, 404 ...). Leave companies out.
            RequestFailedError: All tries failed. Leave companies out, or try them later if `is_outage` is set.
            OutOfCreditsError: Status 402. Request no further paid companies.
            PausedByServiceError: The service asks for a longer pause than the settings allow. Run again later. After an
                EndpointPausedError, only further requests to that endpoint raise the same error.
            ThrottleStoreError: The store that counts requests is unreachable. Run again later.
            InterruptedRunError: `stop` was set.
            AuthorizationError: The token is refused. Further requests raise the same error without being sent.
            ForbiddenError: The token may not use the endpoint, or not for all companies of this request.
            UnavailableError: The endpoint does not exist or always fails. Further requests to it raise the same error.
            ServiceError: The service cannot be reached, or it redirects. The message says what to do.
        """
        wait = partial(self._wait, request.endpoint)
        all_tries = Tries(
            tries or self._api.tries,
            self._api.retry_wait_max_seconds,
            self._timing,
            wait,
            lambda: self._has_connected and is_patient,
            self._on_wait,
        )
        ask = partial(self._ask, wait, itertools.count(1), on_answer or self._on_answer)
        try:
            return all_tries.carry_out(lambda: self._try(request, check, ask, is_patient))
        except TryAgainError as error:
            self._stop_if_interrupted()
            failed = self._give_up(error)
            self._note_end(request, failed)
            raise failed from None
        except FirmlakeError as error:
            self._note_end(request, error)
            raise

    def _note_end(self, request: Request, error: FirmlakeError) -> None:
        """Remember errors that make further requests pointless, to one endpoint or to the whole service."""
        if isinstance(error, _ENDS_ENDPOINT):
            self._ends[request.endpoint] = error
        elif isinstance(error, _ENDS_SERVICE) and not isinstance(error, _ENDS_REQUEST):
            self._end = error

    def _breaker_of(self, request: Request) -> CircuitBreaker:
        made = CircuitBreaker(request.path, self._timing.clock, self._timing.random)
        return self._breakers.setdefault(request.endpoint, made)

    def _try(self, request: Request, check: Check | None, ask: Callable[[Request], Answer], is_patient: bool) -> Answer:
        breaker = self._breaker_of(request)
        if breaker.is_open and not is_patient:
            failed = RequestFailedError(f"{request.path} was not sent: it fails on every request")
            failed.is_outage = True
            raise failed
        breaker.enter(partial(self._pause, breaker, request))
        version = self._token.version
        answer = ask(request)
        may_have_expired = answer.status in (401, 403) and not answer.is_throttled
        if may_have_expired and self._token.reread() != version:
            answer = ask(request)
        try:
            judge(answer, check, self._api)
        except TryAgainError as error:
            if error.kind != "throttled":
                breaker.failed(error.reason)
            raise
        except Exception:
            breaker.succeeded()
            raise
        breaker.succeeded()
        self._on_wait("")
        return answer

    def _ask(
        self, wait: Callable[[float], None], attempts: Iterator[int], on_answer: OnAnswer, request: Request
    ) -> Answer:
        """Wait for the throttle, send once, and pass the answer to `on_answer` before anything acts on it."""
        grant = self._throttle.acquire(wait, self._on_wait)
        self._stop_if_ended(request.endpoint)
        answer = self._connection.exchange(request, next(attempts))
        self._has_connected |= answer.failure != "unreachable"
        self._has_answered |= answer.status is not None
        on_answer(answer)
        self._throttle.observe(grant, answer)
        return answer

    def _pause(self, breaker: CircuitBreaker, request: Request, seconds: float) -> None:
        """Wait while an endpoint fails on every request."""
        self._on_wait(f"{request.path} fails on every request ({breaker.last_failure}), next try in {seconds:.0f} s")
        self._wait(request.endpoint, seconds)

    def _wait(self, endpoint: str, seconds: float) -> None:
        """Wait. This takes no request, because tenacity keeps its arguments alive until the next garbage collection."""
        self._stop_if_ended(endpoint)
        self._sleep(seconds)
        self._stop_if_ended(endpoint)

    def _stop_if_ended(self, endpoint: str) -> None:
        self._stop_if_interrupted()
        end = self._end or self._ends.get(endpoint)
        if end is not None:
            raise type(end)(end.message, end.next_step)

    def _stop_if_interrupted(self) -> None:
        if self._stop.is_set():
            raise InterruptedRunError("The run was interrupted", RUN_AGAIN)

    def _give_up(self, error: TryAgainError) -> FirmlakeError:
        """Return the error for a request whose last try failed so."""
        answer, reason, path = error.answer, error.reason, error.answer.request.path
        if error.kind == "unreachable" and not self._has_connected:
            return ServiceError(f"{self._connection.host} is {reason}", "Check api.base_url and the network")
        if error.kind == "throttled":
            is_endpoint = answer.status == 403
            return (EndpointPausedError if is_endpoint else PausedByServiceError)(
                f"{path if is_endpoint else 'The service'} has answered nothing but {answer.status} for "
                f"{THROTTLED_MAX_SECONDS / 60:.0f} minutes",
                "Run again later, with a lower api.requests_per_minute if nobody else uses the token",
            )
        if answer.failure == "timeout" and not self._has_answered:
            return UnavailableError(
                f"{path} was not answered in {count_of(answer.attempt, 'try')}: {reason}",
                "Check api.base_url and whether the service works; api.read_timeout_seconds sets how long to wait",
            )
        times = "once" if answer.attempt == 1 else f"{answer.attempt} times"
        next_step = (_UNREAD if answer.error else _DIFFERS) if error.kind == "unusable" else ""
        failed = RequestFailedError(f"{path} failed {times}: {reason}", next_step)
        failed.code = error.code or failed.code
        failed.answer, failed.attempts = answer, answer.attempt
        failed.is_outage = error.kind == "unreachable" or self._breaker_of(answer.request).is_open
        return failed
