"""All exceptions, ordered by what the user does next.

    FirmlakeError                    1    something failed; the message says what, `next_step` what to do
    ├── UsageError                   2    correct the command, the settings or the input, then start again
    │   ├── SettingsError                 a setting is wrong; the key is named
    │   └── CompanyListError              an input file cannot be used at all; nothing was requested
    ├── Stopped                      4    the run stopped cleanly, and the next one resumes it
    │   ├── OutOfCreditsError             add credits; companies inside their paid window are still free
    │   ├── PausedByServiceError          run again at the time the message names
    │   │   └── EndpointPausedError           only one endpoint wants that: continue with the others
    │   ├── ThrottleStoreError            restore the store that counts requests, then run again
    │   └── InterruptedRunError           a signal arrived; the exit code is the signal's
    ├── SomeFailedError              3    the rest is published; look at what failed, then run again
    ├── AuthorizationError           5    get a valid token
    │   └── ForbiddenError                the token may not use an endpoint, or not for some companies (403)
    ├── DriftError                   6    the service's answers changed shape: look at them before you publish
    ├── LockHeldError                7    wait for the other run
    ├── HeldError                    8    a gate holds the generation back: look at it, then release it or run again
    ├── DamagedError                 1    a file written by firmlake has changed since; the message names it
    └── ServiceError                 1    the service did not give a usable answer
        ├── UnavailableError              one endpoint does not answer: leave it out, continue with the others
        ├── UnusableAnswerError           a 200 answer cannot be used: ask again, then ask for fewer companies
        ├── RequestRefusedError           the service refuses this request (400, 404 ...): do not repeat it
        ├── CountryRefusedError           it refuses all companies of a country, one by one: find out why
        └── RequestFailedError            the request failed after all retries: try its companies again later

A company that fails is data (a dead letter), not an exception: exit code 3 says how a run ended as a whole. Why it
failed, or a value was rejected, is a `Reason`: a code for programs, and a sentence that is made here alone. Tables have
both, as `reason_code` and `reason`. No code reads a sentence.
"""

from __future__ import annotations

import errno
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from firmlake.core.text import redact, shown

RUN_AGAIN = "What was fetched is kept; run again to continue"
"""The next step after work that ended early and lost nothing."""

_BY_RUST: Final = re.compile(r"\(os error ([0-9]+)\)")
"""How errors of Polars state their number, which is no attribute of theirs."""
_QUERY: Final = re.compile(r"\?\S*")
"""The query of an address, which may hold a signature."""
_BY_DUCKDB: Final = "Query interrupted"
"""Text of the RuntimeError that DuckDB raises instead of what the handler of a signal raised."""
_NEXT_STEPS: Final = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "Give access, or run as the owner of the data folder"),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "Make room on the disk"),
    errno.EFBIG: "Raise the largest size of a file (`ulimit -f`, or the disk's)",
}
"""What the user does about an error of the system, by its number."""

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_SOME_FAILED = 3
EXIT_STOPPED = 4
EXIT_AUTHORIZATION = 5
EXIT_DRIFT = 6
EXIT_LOCKED = 7
EXIT_HELD = 8
EXIT_SIGHUP = 129
EXIT_SIGINT = 130
EXIT_SIGPIPE = 141
EXIT_SIGTERM = 143
EXITS_OF_SIGNALS = (EXIT_SIGHUP, EXIT_SIGINT, EXIT_SIGTERM)


class FirmlakeError(Exception):
    """The base of all exceptions: what happened (to which file, line, key or company), and what the user can do.

    Secrets and control characters are removed from both texts, because they may quote input from outside.
    """

    exit_code = EXIT_FAILED
    code = "failed"
    """What happened, for programs: a code of `reasons.toml`."""
    run_id = ""
    """The run that failed; see `core.work`."""
    mended_by = ""
    """Work on the data folder that removes the cause; see `core.work`."""
    is_recorded = True
    """Whether the data folder keeps a record of it, beyond the caller who is told; see `core.work`."""

    def __init__(self, message: str, next_step: str = "") -> None:
        self.message, self.next_step = shown(redact(message)), shown(redact(next_step))
        super().__init__(self.message)

    def __str__(self) -> str:
        end = "" if self.message.endswith((".", "?", "!")) else "."
        return f"{self.message}{end} {self.next_step}" if self.next_step else self.message

    def __reduce__(self) -> tuple[type[FirmlakeError], tuple[str, str]]:
        return type(self), (self.message, self.next_step)


class UsageError(FirmlakeError):
    """The command, a setting or the input is wrong."""

    exit_code = EXIT_USAGE


class SettingsError(UsageError):
    """A setting is unknown, of the wrong type, out of range or contradicts another."""


class CompanyListError(UsageError):
    """An input file cannot be used at all."""


class Stopped(FirmlakeError):  # noqa: N818 - a state the operator asked for, not a fault
    """A budget or the service's credits ran out. Fetched answers are kept, and the next run resumes."""

    exit_code = EXIT_STOPPED


class OutOfCreditsError(Stopped):
    """The service answered 402: no credits are left."""

    code = "out_of_credits"


class PausedByServiceError(Stopped):
    """The service asks for a wait longer than `api.retry_wait_max_seconds`, or throttles a request for too long."""

    code = "paused"


class EndpointPausedError(PausedByServiceError):
    """The service asks for such a wait with status 403 at one endpoint; it may answer at others."""


class ThrottleStoreError(Stopped):
    """The store that counts requests cannot be reached, so no request may be sent."""


class InterruptedRunError(Stopped):
    """A signal asked the process to end (`EXITS_OF_SIGNALS`); it exits with the code of that signal."""

    exit_code = EXIT_SIGINT


class SomeFailedError(FirmlakeError):
    """More companies failed than the settings allow; everything else is published."""

    exit_code = EXIT_SOME_FAILED


class AuthorizationError(FirmlakeError):
    """The service rejects the token (401) or does not permit the request with it (403)."""

    exit_code = EXIT_AUTHORIZATION


class ForbiddenError(AuthorizationError):
    """The service answers 403 to a request; the token may be valid for other endpoints or other companies.

    `said` is the status and the service's message, as one line.
    """

    code = "forbidden"
    said: str = ""


class DriftError(FirmlakeError):
    """The service's answers no longer match the contract."""

    exit_code = EXIT_DRIFT


class LockHeldError(FirmlakeError):
    """Another process is working on the same data folder."""

    exit_code = EXIT_LOCKED


class HeldError(FirmlakeError):
    """A gate holds the new generation back; readers see the generation before."""

    exit_code = EXIT_HELD


class DamagedError(FirmlakeError):
    """A file is missing or does not match its checksum. A replay makes what can be made again."""

    mended_by = "firmlake replay"


class ServiceError(FirmlakeError):
    """The service did not give a usable answer."""


class UnavailableError(ServiceError):
    """One endpoint answers no request usably; other endpoints may."""

    code = "unavailable"


class UnusableAnswerError(ServiceError):
    """The answer has status 200, but its body is not what was asked for."""

    code = "unusable_answer"


class RequestRefusedError(ServiceError):
    """The service refuses this request and would refuse it again."""

    code = "request_refused"
    answer: Any = None  # an `api.exchange.Answer`; None after unpickling
    said: str = ""  # the service's message, as one line; empty if it gave none


class CountryRefusedError(ServiceError):
    """The service refuses companies of a country one by one and answers none of them, so no other is requested."""

    code = "country_refused"


class RequestFailedError(ServiceError):
    """The request failed after all retries that the settings allow."""

    code = "request_failed"
    answer: Any = None  # the last `api.exchange.Answer`; None after unpickling
    attempts: int = 0  # how often the request was sent
    is_outage: bool = False  # other requests failed at the same time, so this request's companies may not be the cause


def from_system(error: OSError, path: object = "", before: str = "") -> FirmlakeError:
    """Return the error for a file or folder that the system does not let us read or write.

    `path` is the one that matters, if the system's error does not name it. `before` is a sentence before the next step,
    such as "Nothing was published. ".
    """
    # Without a name it is an open file or stdout; Polars sets no strerror.
    message = f"{path or error.filename or 'Stdout or a file'}: {error.strerror or first_line(error)}"
    step = _NEXT_STEPS.get(_number_of(error) or 0, "Check the disk and the path")
    return FirmlakeError(message, f"{before}{step}, then run again")


@contextmanager
def in_our_words() -> Iterator[None]:
    """Turn an error of the system about a file, or a signal that DuckDB noticed, into one that says what to do next.

    A closed pipe stays what it is: nobody would read the message. After a signal, it is an InterruptedRunError.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, ConnectionError) or not _number_of(error):
            raise
        raise from_system(error) from error
    except RuntimeError as error:
        if str(error) != _BY_DUCKDB:
            raise
        raise InterruptedRunError("Interrupted", RUN_AGAIN) from error


def _number_of(error: OSError) -> int | None:
    found = _BY_RUST.search(str(error))
    return error.errno or (int(found[1]) if found else None)


def first_line(error: BaseException) -> str:
    """Return the first line of an error of a library, since later ones quote data, or its type if it has no text."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


class Translation(NamedTuple):
    """What the user does about some errors of a library."""

    errors: type[Exception] | tuple[type[Exception], ...]
    next_step: str
    message: str = "{where}: {reason}"  # has `{where}`, `{kind}` of the error and `{reason}`, its first line


@contextmanager
def translated(where: str, *translations: Translation, secret: str = "") -> Iterator[None]:
    """Turn errors of a library into one line: where it happened, the reason without queries of addresses, what to do.

    The first translation that fits an error is taken; other errors are not changed. The secret, such as a password, is
    hidden in reasons.
    """
    try:
        yield
    except Exception as error:
        for errors, next_step, message in translations:
            if isinstance(error, errors):
                reason = _QUERY.sub("", first_line(error)).rstrip(".")
                reason = reason.replace(secret, "***") if secret else reason
                told = message.format(where=where, kind=type(error).__name__, reason=reason)
                raise FirmlakeError(told, next_step) from None  # the library's own message may hold a secret
        raise


@contextmanager
def needed(what: str, library: str, extra: str) -> Iterator[None]:
    """Import optional libraries inside; if one is missing, the UsageError says how to install it."""
    try:
        yield
    except ImportError:
        raise UsageError(f"{what} needs {library}", f"`pip install 'firmlake[{extra}]'`") from None


_REASONS = tomllib.loads(Path(__file__).with_name("reasons.toml").read_text("utf-8"))
COMPANY_REASONS: Final[dict[str, str]] = _REASONS["company"]
"""Why there is no usable answer about a company, by code."""
ERROR_REASONS: Final[dict[str, str]] = _REASONS["error"]
"""What `FirmlakeError.code` means, where the reason is an error. The sentence is the message of the error."""
RECORD_REASONS: Final[dict[str, str]] = _REASONS["record"]
"""Why a value or a record of an answer was rejected, by code."""
_SENTENCES = {**COMPANY_REASONS, **RECORD_REASONS}


class Reason(NamedTuple):
    """A code of this module, and the sentence for people."""

    code: str
    text: str

    def __str__(self) -> str:
        return self.text


def make_reason(code: str, **facts: object) -> Reason:
    """Make a reason from its code and the facts that its sentence names.

    Example:
        >>> make_reason("empty_page", total=40)
        Reason(code='empty_page', text='an empty page, but a total of 40')
    """
    return Reason(code, _SENTENCES[code].format(**facts))


def reason_of(error: FirmlakeError) -> Reason:
    """Return the reason that an error gives."""
    return Reason(error.code, error.message)
