"""Every exception, ordered by what its reader does next.

    FirmlakeError                    1    something failed; the message says what, `next_step` what to do
    ├── UsageError                   2    correct the command, the settings or the input, and start again
    │   ├── SettingsError                 a setting is wrong; the key is named
    │   └── CompanyListError              an input file cannot be used at all; nothing was requested
    ├── Stopped                      4    the run ends in good order, and the next one continues it
    │   ├── OutOfCreditsError             buy no more companies; those inside their paid window are still free
    │   ├── PausedByServiceError          run again at the time the message names
    │   ├── ThrottleStoreError            bring the store of the allowance back, then run again
    │   └── InterruptedRunError           a signal arrived; the exit code is the signal's
    ├── SomeFailedError              3    what worked is published; look at what failed, then run again
    ├── AuthorizationError           5    get a valid token
    │   └── ForbiddenError                the token may not use one endpoint (403): leave it out, go on with the others
    ├── DriftError                   6    the service's answers no longer have the known shape: look before you publish
    ├── LockHeldError                7    wait for the other run
    ├── DamagedError                 1    a file of ours is not what we wrote; it is named
    └── ServiceError                 1    the service did not give a usable answer
        ├── UnavailableError              one endpoint gives no answer: leave it out, go on with the others
        ├── UnusableAnswerError           an answer of status 200 says nothing: ask again, then ask for fewer companies
        ├── RequestRefusedError           the service will refuse this request for ever (400, 404 ...): do not repeat it
        └── RequestFailedError            the request failed although it was repeated: try its companies again later

A company that fails is data (a dead letter), not an exception: exit code 3 says how a run ended as a whole.
"""

from __future__ import annotations

from typing import Any

from firmlake.core.redaction import redact
from firmlake.core.text import shown

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_SOME_FAILED = 3
EXIT_STOPPED = 4
EXIT_AUTHORIZATION = 5
EXIT_DRIFT = 6
EXIT_LOCKED = 7
EXIT_SIGINT = 130
EXIT_SIGTERM = 143


class FirmlakeError(Exception):
    """Something failed.

    Args:
        message: What happened, naming the file, line, key or company.
        next_step: What the reader can do about it.

    Both may repeat texts from outside, so they hold no secret and nothing that a terminal obeys.
    """

    exit_code = EXIT_FAILED

    def __init__(self, message: str, next_step: str = "") -> None:
        self.message, self.next_step = shown(redact(message)), shown(redact(next_step))
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}. {self.next_step}" if self.next_step else self.message

    def __reduce__(self) -> tuple[type[FirmlakeError], tuple[str, str]]:
        return type(self), (self.message, self.next_step)


class UsageError(FirmlakeError):
    """The command, a setting or the input is wrong."""

    exit_code = EXIT_USAGE


class SettingsError(UsageError):
    """A setting is unknown, of the wrong type, out of range or contradicts another."""


class CompanyListError(UsageError):
    """An input file cannot be used at all."""


class Stopped(FirmlakeError):  # noqa: N818 - it is a state the operator asked for, not a fault
    """A budget or the service's credits ran out; what was fetched is kept and the next run continues."""

    exit_code = EXIT_STOPPED


class OutOfCreditsError(Stopped):
    """The service answered 402: its credits are used up."""


class PausedByServiceError(Stopped):
    """The service asks for a wait longer than `api.retry_wait_max_seconds`."""


class ThrottleStoreError(Stopped):
    """The store that counts the allowance cannot be reached, so no request may be sent."""


class InterruptedRunError(Stopped):
    """SIGINT or SIGTERM arrived; the exit code of the process is that of the signal."""

    exit_code = EXIT_SIGINT


class SomeFailedError(FirmlakeError):
    """What worked is published, but more failed than the settings allow."""

    exit_code = EXIT_SOME_FAILED


class AuthorizationError(FirmlakeError):
    """The service refuses the token (401) or what the token may do (403)."""

    exit_code = EXIT_AUTHORIZATION


class ForbiddenError(AuthorizationError):
    """The service answers 403 at one endpoint; others may be allowed."""


class DriftError(FirmlakeError):
    """The service's answers no longer have the shape the contract states."""

    exit_code = EXIT_DRIFT


class LockHeldError(FirmlakeError):
    """Another process works on the same data folder."""

    exit_code = EXIT_LOCKED


class DamagedError(FirmlakeError):
    """A file does not hold what was written into it."""


class ServiceError(FirmlakeError):
    """The service did not give a usable answer."""


class UnavailableError(ServiceError):
    """One endpoint gives no usable answer, whatever it is asked; others may."""


class UnusableAnswerError(ServiceError):
    """An answer of status 200 whose body is not what was asked for."""


class RequestRefusedError(ServiceError):
    """The service refuses this request and would refuse it again.

    Attributes:
        answer: The refusal, an `api.exchange.Answer`; None after unpickling.
    """

    answer: Any = None


class RequestFailedError(ServiceError):
    """The service failed on this request although it was repeated as the settings allow.

    Attributes:
        answer: The last `api.exchange.Answer`; None after unpickling.
        attempts: How often the request was sent.
        is_outage: Other requests failed at that time too, so this request's companies need not be the reason.
    """

    answer: Any = None
    attempts: int = 0
    is_outage: bool = False
