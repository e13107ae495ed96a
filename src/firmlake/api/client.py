"""The client for all endpoints, which repeats a request until the answer is usable or there is a reason to give up.

It decides whether and when a failed request is tried again, and slows down where an endpoint fails on every request.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import tenacity

from firmlake.api.authorization import Token
from firmlake.api.connection import REAL, Connection, Timing
from firmlake.api.exchange import Answer
from firmlake.api.judge import Check, FailureKind, TryAgainError, is_out_of_credits, judge, tells_hurry
from firmlake.api.requests import Request
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


T = TypeVar("T")
Sleep = Callable[[float], None]
OnAnswer = Callable[[Answer], object]

_UNUSABLE_TRIES = 3
"""Give up after this many unusable answers, because a further try rarely helps."""
_BUSY_TRIES = 8
"""Tries while the service answers 503, as some rate limiters do: the waits between them exceed their usual windows."""
_THROTTLED_MAX_SECONDS = 900.0
"""Longest time that one request is repeated after 429s."""
_FIRST_WAIT_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 30.0

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
        self._last_busy: Request | None = None
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

    def is_failing(self, endpoint: str) -> bool:
        """Return whether an endpoint has failed on every request lately, so that the circuit breaker is open."""
        return endpoint in self._breakers and self._breakers[endpoint].is_open

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
        is_pause = (answer.is_throttled or self._is_too_fast(answer)) and not is_out_of_credits(answer, self._api)
        self._throttle.observe(grant, answer, is_pause=is_pause)
        return answer

    def _is_too_fast(self, answer: Answer) -> bool:
        """Return whether different requests were answered 503 in a row, as by a rate limiter; one alone is chance."""
        before, self._last_busy = self._last_busy, answer.request if answer.is_busy else None
        return answer.is_busy and before not in (None, answer.request)

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
            later = "run again later, with a lower api.requests_per_minute if nobody else uses the token"
            unclear = f"If that is about credits or a quota, add some; otherwise {later}"
            return (EndpointPausedError if is_endpoint else PausedByServiceError)(
                f"{path if is_endpoint else 'The service'} has answered nothing but {answer.status} for "
                f"{_THROTTLED_MAX_SECONDS / 60:.0f} minutes ({reason})",
                later.capitalize() if tells_hurry(reason) else unclear,
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


class Tries:
    """The tries of one request.

    Waits use full jitter (up to 1, 2, 4 ... seconds), or last as long as the service asked for if that is longer. A 429
    does not count as a try, and a 503 has more tries than other failures. Once the service has been reached, a lost
    connection does not count either (`bears_outage`): the circuit breaker limits an outage. `sleep` raises when the run
    is interrupted; `tell` gets the reason for each wait.
    """

    def __init__(
        self,
        most: int,
        wait_max_seconds: float,
        timing: Timing,
        sleep: Sleep,
        bears_outage: Callable[[], bool],
        tell: Callable[[str], object],
    ) -> None:
        self._most, self._wait_max, self._timing = most, wait_max_seconds, timing
        self._sleep, self._bears_outage, self._tell = sleep, bears_outage, tell
        self._counts: Counter[FailureKind] = Counter()
        self._began = timing.clock()

    def carry_out(self, work: Callable[[], T]) -> T:
        """Call a function, one try, until it returns or no tries are left, which raises the last TryAgainError.

        Tenacity is used only if the first try fails. Most requests succeed at once, and tenacity would cost each of
        them 0.15 ms and leave a cycle of objects to the garbage collector.
        """
        try:
            return work()
        except TryAgainError as error:
            failed = [error]

        def next_try() -> T:
            if failed:
                raise failed.pop()
            return work()

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(TryAgainError),
            stop=self._gives_up,
            wait=self._seconds_to_wait,
            sleep=self._sleep,
            before_sleep=self._tell_why,
            reraise=True,
        )
        return retrying(next_try)

    def _counts_as_try(self, kind: FailureKind) -> bool:
        return kind in ("failed", "unusable") or (kind == "unreachable" and not self._bears_outage())

    def _used(self) -> int:
        return self._counts.total() - self._counts["throttled"] - self._counts["busy"]

    def _gives_up(self, state: tenacity.RetryCallState) -> bool:
        kind = _error(state).kind
        self._counts[kind] += 1
        if kind == "throttled":
            return self._timing.clock() - self._began + state.upcoming_sleep > _THROTTLED_MAX_SECONDS
        if kind == "busy":
            return self._counts["busy"] >= min(4 * self._most, _BUSY_TRIES)
        is_over = self._used() >= self._most or self._counts["unusable"] >= _UNUSABLE_TRIES
        return is_over and self._counts_as_try(kind)

    def _seconds_to_wait(self, state: tenacity.RetryCallState) -> float:
        ceiling = min(_FIRST_WAIT_SECONDS * 2.0 ** min(state.attempt_number - 1, 30), _LONGEST_WAIT_SECONDS)
        error, share = _error(state), self._timing.random()
        share = (1 + share) / 2 if error.kind == "busy" else share
        return max(min(share * ceiling, self._wait_max), error.wait_seconds or 0.0)

    def _tell_why(self, state: tenacity.RetryCallState) -> None:
        error = _error(state)
        again = f"try {self._used() + 1} of {self._most}"
        which = again if self._counts_as_try(error.kind) else f"again in {state.upcoming_sleep:.0f} s"
        self._tell(f"{error.reason}, {which}")


def _error(state: tenacity.RetryCallState) -> TryAgainError:
    error = state.outcome and state.outcome.exception()
    assert isinstance(error, TryAgainError)
    return error


class CircuitBreaker:
    """Slows down and finally stops requests to an endpoint that fails on every request.

    While the breaker is closed, all requests go out. After `failures_max` failures in a row, from any thread, it opens:
    all threads wait, and after each pause one request goes out. Any answer other than a failure closes the breaker.
    After `patience_seconds` it gives up. A random number from 0 to 1 spreads the pauses.
    """

    failures_max = 8  # in a row: more than `api.tries`, so that one bad request cannot open it
    pause_seconds = 1.0  # the first one; each further one is twice as long
    pause_max_seconds = 30.0
    patience_seconds = 300.0

    def __init__(self, path: str, clock: Callable[[], float], random: Callable[[], float]) -> None:
        self._path, self._clock, self._random = path, clock, random
        self._lock = threading.Lock()
        self._failures = 0
        self._pause = self.pause_seconds
        self._opened_at: float | None = None
        self._next_at = 0.0
        self.last_failure = ""

    @property
    def is_open(self) -> bool:
        """Whether the breaker is open: the endpoint currently fails on every request."""
        return self._opened_at is not None

    def enter(self, sleep: Sleep) -> None:
        """Wait, by a function that takes seconds, until a request may go out.

        If the endpoint has failed for `patience_seconds` (UnavailableError), run again later.
        """
        while seconds := self._seconds_to_wait():
            sleep(seconds)

    def succeeded(self) -> None:
        """Record an answer, including a refusal; this closes the breaker."""
        with self._lock:
            self._failures, self._pause, self._opened_at = 0, self.pause_seconds, None

    def failed(self, what: str) -> None:
        """Record a failure: the service gave no usable answer."""
        with self._lock:
            self._failures += 1
            self.last_failure = what
            if self._failures >= self.failures_max and self._opened_at is None:
                self._opened_at = self._clock()
                self._pause_from(self._opened_at)

    def _seconds_to_wait(self) -> float:
        """Return the seconds after which to ask again; 0 for the right to send a request."""
        with self._lock:
            if self._opened_at is None:
                return 0.0
            now = self._clock()
            if now - self._opened_at >= self.patience_seconds:
                minutes = f"{self.patience_seconds / 60:g} minutes"
                raise UnavailableError(
                    f"{self._path} has failed on every request for {minutes}: {self.last_failure}",
                    "Landed answers are kept; run again when the service works",
                )
            if now < self._next_at:
                return self._next_at - now
            self._pause_from(now)
            return 0.0

    def _pause_from(self, now: float) -> None:
        self._next_at = now + self._pause * (0.5 + self._random() / 2)
        self._pause = min(2 * self._pause, self.pause_max_seconds)
