"""Classify an answer: usable, worth a retry, refused for good, or the end of the run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from firmlake.api.answers import NOT_FOUND, Element, says_unknown
from firmlake.api.contract import DATASETS
from firmlake.api.exchange import Answer, read_credits
from firmlake.api.throttle.window import read_allowance, read_wait
from firmlake.core.errors import (
    AuthorizationError,
    EndpointPausedError,
    ForbiddenError,
    OutOfCreditsError,
    PausedByServiceError,
    RequestRefusedError,
    ServiceError,
    UnavailableError,
    UnusableAnswerError,
)
from firmlake.core.settings import ApiSettings
from firmlake.core.text import one_line

Check = Callable[[bytes], object]
FailureKind = Literal["failed", "unusable", "unreachable", "throttled", "busy"]

_PASSING = (408, 425)
"""4xx statuses that do not blame the request: too slow, too early."""

_HURRIED = re.compile(
    r"rate.?limit|too (?:many requests|frequent|fast)|request frequency|throttl|per (?:second|minute|hour|request)",
    re.IGNORECASE,
)
"""Words for requests that come too fast, or ask for too much, in messages of any status."""
_CREDITS = (
    r"\bcredits\b|\bcrédits\b|tegoed|\bcredit (?:balance|limit)|(?:insufficient|enough|out of) credit|"
    r"insufficient (?:account )?balance|solde insuffisant|"
    r"(?:monthly|daily|plan|subscription|usage) (?:\w+ )?(?:limit|allowance|quota)"
)
_SPENDABLE = {True: re.compile(_CREDITS, re.IGNORECASE), False: re.compile(rf"{_CREDITS}|\bquota", re.IGNORECASE)}
"""Words for credits, by whether the service names a time; a quota that comes back so soon is one of requests."""
_WANTING = re.compile(
    r"exhaust|exceed|insufficient|not enough|\bno\b|used up|out of|run out|ran out|deplet|limit|reached|"
    r"onvoldoende|opgebruikt|overschreden|insuffisant|épuisé|dépassé",
    re.IGNORECASE,
)
NO_SUCH_PLACE = (404, 405, 410)
"""Statuses of a path that does not exist at the service."""
REFUSALS = (400, 413, 422)
"""Statuses of a request whose form or size the service does not accept."""
_NO_SUCH_PLACE = "Correct api.base_url, to which /v1/... is appended; `firmlake check` tests it and each endpoint"
_KINDS: dict[str, FailureKind] = {"unreachable": "unreachable", "body": "unusable"}
"""Kinds of failures by `Answer.failure`; all others are `failed`."""


class TryAgainError(Exception):
    """A try failed, and a retry may succeed.

    Attributes:
        kind: `failed` (5xx, truncated, timeout) or `unusable` (a 200 answer of no use); `unreachable` (no connection)
            or `throttled` (429, or 403 with `Retry-After`), which are never the request's fault; `busy` (503), which
            rarely is.
        wait_seconds: The wait that the service asked for; None if it named none.
        code: The code of the reason (`core.errors.Reason`), if it is known better than that the request failed.
    """

    code = ""

    def __init__(self, kind: FailureKind, answer: Answer, reason: str, wait_seconds: float | None = None) -> None:
        super().__init__(reason)
        self.kind: FailureKind = kind
        self.answer = answer
        self.reason = reason
        self.wait_seconds = wait_seconds


def judge(answer: Answer, check: Check | None, api: ApiSettings) -> None:
    """Return if the answer is usable, and raise otherwise.

    Without a `check`, any body of a successful status is usable.

    Raises:
        TryAgainError: A retry may succeed.
        RequestRefusedError: The service refuses this request, or fails in the words for an unknown company; do not
            repeat it.
        OutOfCreditsError: Status 402, or the service or its headers tell in another way that too few credits are left.
        PausedByServiceError: The service asks for a wait longer than `api.retry_wait_max_seconds`; an
            EndpointPausedError if it does so with status 403.
        AuthorizationError: Status 401.
        ForbiddenError: Status 403 without `Retry-After`.
        UnavailableError: The service has no such endpoint (status 404, 405 or 410 without a message).
        ServiceError: A redirect or an untrusted certificate; every other request would fail too.
    """
    status = answer.status
    if status is None or (answer.error and status < 300):
        raise _broken(answer)
    is_nothing = status == 204 and _names_one(answer)
    if status == 200 or (check and answer.is_success and not is_nothing):
        return _check(answer, check)
    message = read_message(answer)
    said = describe_answer(answer)
    if status == 402 or is_out_of_credits(answer, api):
        raise _spent(said)
    is_unknown = status >= 500 and any(says_unknown(api.names, each, message) for each in answer.request.companies)
    if answer.is_throttled or status in _PASSING or (status >= 500 and not is_unknown):
        raise _passing(answer, f"status {said}", api.retry_wait_max_seconds)
    if status == 403 and _HURRIED.search(message):
        raise TryAgainError("throttled", answer, f"status {said}")
    if status == 401:
        raise AuthorizationError(f"The service does not accept the token ({said})", "Get a valid token")
    if status == 403:
        raise _forbidden(answer, said)
    if status < 300 and not is_nothing:
        raise TryAgainError("unusable", answer, f"status {said}")
    if 300 <= status < 400:
        raise _redirected(answer)
    path = urlsplit(api.base_url).path.rstrip("/") + answer.request.path
    if status in NO_SUCH_PLACE and not message:
        raise UnavailableError(f"There is no {path} at the service ({said})", _NO_SUCH_PLACE)
    refused = RequestRefusedError(f"The service refuses {path} ({said})")
    refused.answer, refused.said = answer, message
    raise refused


def check_credits(elements: Iterable[Element]) -> None:
    """Check that no element of an answer tells that the credits are used up.

    Raises:
        OutOfCreditsError: One does. The others may hold records.
    """
    for element in elements:
        if element.records is None and tells_spent(element.message or ""):
            raise _spent(element.message or "")


def tells_spent(message: str, *, has_time: bool = False) -> bool:
    """Return whether a message says that the credits are used up; `has_time`, that the service says when to ask again.

    Example:
        >>> tells_spent("Monthly quota exceeded"), tells_spent("Quota of 60 requests per minute exceeded")
        (True, False)
    """
    is_told = _SPENDABLE[has_time].search(message) and _WANTING.search(message)
    return bool(is_told) and not _HURRIED.search(message)


def tells_hurry(message: str) -> bool:
    """Return whether a message says that requests come too fast, and so nothing about credits."""
    return bool(_HURRIED.search(message))


def is_out_of_credits(answer: Answer, api: ApiSettings) -> bool:
    """Return whether a service that does not use status 402 refuses a request for want of credits.

    Its message or its headers say so.
    """
    headers, at, message = answer.headers, answer.fetched_at, read_message(answer)
    wait = None if read_allowance(headers, at).remaining else read_wait(headers, at)
    if wait is not None:
        return wait <= api.retry_wait_max_seconds and tells_spent(message, has_time=True)
    left = read_credits(headers.get(api.names.credits_remaining_header.lower(), ""))
    is_short = answer.status in (403, 429) and left is not None and left < len(answer.request.companies)
    return is_short or tells_spent(message)


def _spent(said: str) -> OutOfCreditsError:
    return OutOfCreditsError(f"The service's credits are used up ({said})", "Add credits and run again to continue")


def _forbidden(answer: Answer, said: str) -> ForbiddenError:
    step = "Get a token that may use it"
    if answer.request.endpoint in DATASETS:
        step += ", or leave out the dataset (run.datasets) or the companies that are forbidden"
    forbidden = ForbiddenError(f"The token may not use {answer.request.path} ({said})", step)
    forbidden.said = said
    return forbidden


def _broken(answer: Answer) -> Exception:
    if answer.failure == "untrusted":
        return ServiceError(
            f"The service is {answer.error}", "Set SSL_CERT_FILE to a file with the certificate of its authority"
        )
    return TryAgainError(_KINDS.get(answer.failure, "failed"), answer, answer.error)


def _redirected(answer: Answer) -> Exception:
    said = f"redirects to {answer.headers.get('location') or 'nowhere'} ({answer.status})"
    if answer.wants_slash:
        return TryAgainError("failed", answer, said)
    step = "Set api.base_url to the final address, because the token is never sent to the target of a redirect"
    return ServiceError(f"The service {said}", step)


def _passing(answer: Answer, said: str, wait_max_seconds: float) -> Exception:
    is_hint = answer.is_throttled or "retry-after" in answer.headers
    wait_seconds = read_wait(answer.headers, answer.fetched_at) if is_hint else None
    if wait_seconds is not None and wait_seconds > wait_max_seconds:
        paused = EndpointPausedError if answer.status == 403 else PausedByServiceError
        return paused(
            f"The service asks for a pause of {wait_seconds / 60:.0f} minutes ({said})",
            "Run again after that, or raise api.retry_wait_max_seconds",
        )
    kind: FailureKind = "throttled" if answer.is_throttled else "busy" if answer.is_busy else "failed"
    return TryAgainError(kind, answer, said, wait_seconds)


def _check(answer: Answer, check: Check | None) -> None:
    if check is None:
        return
    try:
        check(answer.body)
    except UnusableAnswerError as error:
        told = f"{answer.status}: {(message := read_message(answer))}"  # some services refuse with status 200
        if _HURRIED.search(message):
            raise TryAgainError("throttled", answer, f"status {told}") from None
        if tells_spent(message):
            raise _spent(told) from None
        said = "" if answer.status == 200 else f"status {answer.status}, and "
        again = TryAgainError("unusable", answer, said + one_line(error.message, MESSAGE_LENGTH_MAX))
        again.code = error.code
        raise again from None


MESSAGE_LENGTH_MAX = 200
MESSAGE_KEYS = ("message", "errors", "error", "detail", "msg", "reason", "title")
"""Keys of error messages, the most specific first. The first is in docs/service_gaps.md, "whole-request errors";
frameworks and gateways use the others."""
_BY_FIELD = (400, 422)
"""Statuses for which some frameworks send only a map from fields to sentences."""

_TAG = re.compile(r"<(style|script)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_PATHS = ("loc", "path", "field", "property", "instancePath", "pointer", "source", "param", "parameter")
_MAPS = ("errors", "fieldErrors", "violations", "fields")
_NO_FIELD = re.compile("messages?|msg|errors?|.*_errors|details?|reasons?|title|description|hints?|violations|fields")
"""Keys that hold sentences or the errors of fields, but are not fields themselves."""


def read_lines(body: bytes) -> list[str]:
    """Flatten the body of a refusal of any shape to lines of text.

    Example:
        >>> read_lines(b'{"detail": [{"loc": ["body", "limit"], "msg": "Field required"}]}')
        ['body.limit Field required']
        >>> read_lines(b'{"companies": [{"country": ["This field is required."]}]}')
        ['companies.country: This field is required.']
        >>> read_lines(b'{"type": "/problems/request", "title": "Request refused", "detail": "companies is required"}')
        ['companies is required']
        >>> read_lines(b'{"error": "Bad Request", "path": "/v1/companies"}')
        ['Bad Request']
    """
    try:
        content = msgspec.json.decode(body.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = _TAG.sub(" ", body[:20_000].decode("utf-8", "replace"))
        return [line for line in (" ".join(line.split()) for line in text.splitlines()) if line]
    if isinstance(content, dict) and (content.get("detail") or content.get("errors")):
        content = {key: value for key, value in content.items() if key not in _OF_TYPE}
    return list(_flatten(content))


_OF_TYPE = ("type", "title")
"""Members of a problem document (RFC 9457) that are the same for all problems of a type, so they name no field."""


def read_message(answer: Answer) -> str:
    """Return the service's error message as one printable line; empty if there is none.

    A bare 404, or a 204, to a GET for one company is about the company, which its path names.
    """
    is_about_company = answer.status in NOT_FOUND and _names_one(answer)
    return _read_message(answer) or ("Not Found" if is_about_company else "")


def describe_answer(answer: Answer) -> str:
    """Return the status and the words of an answer in one line, also those that `read_message` does not vouch for."""
    if answer.error and (answer.status or 0) < 300:
        return answer.error
    message = answer.body[:60].decode("utf-8", "replace") if answer.is_success else read_message(answer)
    lines = [message] if message or (answer.status or 0) >= 500 else read_lines(answer.body)
    text = one_line("; ".join(dict.fromkeys(lines)), MESSAGE_LENGTH_MAX)
    return f"{answer.status}: {text}" if text else str(answer.status)


def _names_one(answer: Answer) -> bool:
    """Return whether a request asks by GET for one company."""
    return answer.request.method == "GET" and bool(answer.request.companies)


def _read_message(answer: Answer) -> str:
    try:
        content = msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        is_text = answer.headers.get("content-type", "").startswith("text/plain")
        return one_line(answer.body.decode(errors="replace"), MESSAGE_LENGTH_MAX) if is_text else ""
    said = _choose(content)
    if said is None and answer.status in _BY_FIELD:
        said = content
    lines = list(_flatten(said))
    return one_line("; ".join(dict.fromkeys(lines)), MESSAGE_LENGTH_MAX)


def _choose(content: Any) -> Any:
    """Return the part of a body that says what is wrong; None if no key says so."""
    if not isinstance(content, dict):
        return None
    key = next((key for key in MESSAGE_KEYS if isinstance(content.get(key), str | list | dict) and content[key]), None)
    if key is None:
        return None
    inner = _choose(content[key])
    return {key: content[key]} if inner is None else inner


def _flatten(value: Any, place: str = "", depth: int = 0) -> Iterator[str]:
    """Yield the texts in decoded JSON, each after `place`: the fields that lead to it, joined by points."""
    if depth > 8:
        return
    if isinstance(value, str):
        yield " ".join(value.split())
    elif isinstance(value, list):
        for inner in value:
            yield from _flatten(inner, place, depth + 1)
    elif isinstance(value, dict):
        named = next((text for key in _PATHS if (text := _path(value.get(key)))), "")
        for key, inner in value.items():
            if key in _PATHS and (_path(inner) or _is_address(inner)):
                continue
            field = place if _NO_FIELD.fullmatch(key) else f"{place}.{key}".removeprefix(".")
            prefix = f"{named} " if named else f"{field}: " if field != place and _are_texts(inner) else ""
            for text in _flatten(_by_field(inner) if key in _MAPS else inner, field, depth + 1):
                yield prefix + text


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(inner, str) for inner in value)


def _by_field(value: Any) -> Any:
    """Return a map from field to sentences with a list of sentences for each field."""
    if not isinstance(value, dict):
        return value
    return {key: [inner] if isinstance(inner, str) else inner for key, inner in value.items()}


def _is_address(value: Any) -> bool:
    """Return whether a value is the path of the request, which some frameworks repeat, and not that of a field."""
    return isinstance(value, str) and bool(re.match(r"/(?:[\w.-]+/)*v[0-9]+/", value))


def _path(value: Any) -> str:
    if _is_address(value):
        return ""
    if isinstance(value, list) and value and all(isinstance(part, str | int) for part in value):
        return ".".join(map(str, value))
    if isinstance(value, str) and re.fullmatch(r"[/$]?[\w./\[\]$-]+", value):
        return value.strip("/$.").replace("/", ".")
    return ""
