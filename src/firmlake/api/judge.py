"""Classify an answer: usable, worth a retry, refused for good, or the end of the run."""

from __future__ import annotations

from collections.abc import Callable

from firmlake.api.contract import DATASETS
from firmlake.api.exchange import Answer
from firmlake.api.refusal import MESSAGE_LENGTH_MAX, read_message
from firmlake.api.retry import FailureKind, TryAgainError
from firmlake.api.throttle.hints import read_wait
from firmlake.core.errors import (
    AuthorizationError,
    EndpointPausedError,
    FirmlakeError,
    ForbiddenError,
    OutOfCreditsError,
    PausedByServiceError,
    RequestRefusedError,
    ServiceError,
    UnavailableError,
    UnusableAnswerError,
)
from firmlake.core.text import one_line

__all__ = ["NO_SUCH_PLACE", "REFUSALS", "judge"]

Check = Callable[[bytes], object]

_PASSING = (408, 425)
"""4xx statuses that do not blame the request: too slow, too early."""

_ENDS: dict[int, tuple[type[FirmlakeError], str, str]] = {
    401: (AuthorizationError, "The service does not accept the token", "Get a valid token"),
    402: (OutOfCreditsError, "The service's credits are used up", "Add credits and run again to continue"),
    403: (
        ForbiddenError,
        "The token may not use {path}",
        "Get a token that may use it",
    ),
}
NO_SUCH_PLACE = (404, 405, 410)
"""Statuses of a path that does not exist at the service."""
REFUSALS = (400, 413, 422)
"""Statuses of a request whose form or size the service does not accept."""
_NO_SUCH_PLACE = "Correct api.base_url, to which /v1/... is appended; `firmlake check` tests it and each endpoint"
_KINDS: dict[str, FailureKind] = {"unreachable": "unreachable", "body": "unusable"}
"""Kinds of failures by `Answer.failure`; all others are `failed`."""


def judge(answer: Answer, check: Check | None, wait_max_seconds: float) -> None:
    """Return if the answer is usable, and raise otherwise.

    Args:
        answer: An answer of any status.
        check: Raises UnusableAnswerError for a useless body; None accepts any body of status 200.
        wait_max_seconds: Longest wait that the service may ask for.

    Raises:
        TryAgainError: A retry may succeed.
        RequestRefusedError: The service refuses this request; do not repeat it.
        OutOfCreditsError: Status 402.
        PausedByServiceError: The service asks for a wait longer than `wait_max_seconds`; an EndpointPausedError if it
            does so with status 403.
        AuthorizationError: Status 401.
        ForbiddenError: Status 403 without `Retry-After`.
        UnavailableError: The service has no such endpoint (status 404, 405 or 410 without a message).
        ServiceError: A redirect or an untrusted certificate; every other request would fail too.
    """
    status = answer.status
    if status is None or (answer.error and status < 300):
        raise _broken(answer)
    if status == 200 or (check and answer.is_success):
        return _check(answer, check)
    message = read_message(answer)
    said = f"{status}: {message}" if message else str(status)
    if answer.is_throttled or status in _PASSING or status >= 500:
        raise _passing(answer, f"status {said}", wait_max_seconds)
    if status in _ENDS:
        error, what, next_step = _ENDS[status]
        if status == 403 and answer.request.endpoint in DATASETS:
            next_step += ", or leave out the dataset (run.datasets) or the companies that are forbidden"
        ended = error(f"{what.format(path=answer.request.path)} ({said})", next_step)
        if isinstance(ended, ForbiddenError):
            ended.said = said
        raise ended
    if status < 300:
        raise TryAgainError("unusable", answer, f"status {said}")
    if status < 400:
        raise _redirected(answer)
    if status in NO_SUCH_PLACE and not message:
        raise UnavailableError(f"There is no {answer.request.path} at the service ({said})", _NO_SUCH_PLACE)
    refused = RequestRefusedError(f"The service refuses {answer.request.path} ({said})")
    refused.answer, refused.said = answer, message
    raise refused


def _broken(answer: Answer) -> Exception:
    if answer.failure == "untrusted":
        return ServiceError(
            f"The service is {answer.error}", "Set SSL_CERT_FILE to a file with the certificate of its authority"
        )
    return TryAgainError(_KINDS.get(answer.failure, "failed"), answer, answer.error)


def _redirected(answer: Answer) -> ServiceError:
    target = answer.headers.get("location", "")
    step = "Set api.base_url to the final address, because the token is never sent to the target of a redirect"
    if target.endswith(answer.request.path + "/"):
        step = "Set api.trailing_slash = true: the service wants a slash at the end of its paths"
    return ServiceError(f"The service redirects to {target or 'nowhere'} ({answer.status})", step)


def _passing(answer: Answer, said: str, wait_max_seconds: float) -> Exception:
    is_hint = answer.is_throttled or "retry-after" in answer.headers
    wait_seconds = read_wait(answer.headers, answer.fetched_at) if is_hint else None
    if wait_seconds is not None and wait_seconds > wait_max_seconds:
        paused = EndpointPausedError if answer.status == 403 else PausedByServiceError
        return paused(
            f"The service asks for a pause of {wait_seconds / 60:.0f} minutes ({said})",
            "Run again after that, or raise api.retry_wait_max_seconds",
        )
    return TryAgainError("throttled" if answer.is_throttled else "failed", answer, said, wait_seconds)


def _check(answer: Answer, check: Check | None) -> None:
    if check is None:
        return
    try:
        check(answer.body)
    except UnusableAnswerError as error:
        said = "" if answer.status == 200 else f"status {answer.status}, and "
        again = TryAgainError("unusable", answer, said + one_line(error.message, MESSAGE_LENGTH_MAX))
        again.code = error.code
        raise again from None
