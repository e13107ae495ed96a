"""What `Client.send` raises, named for the caller's next move.

Stopped                       the run ends, and the next one continues it
├── OutOfCreditsError         buy no more companies; those inside their window are still free
├── PausedByServiceError      run again at the time it names
├── ThrottleStoreError        see to the store, then run again
└── InterruptedRunError       somebody asked us to stop
AuthorizationError            get a valid token (401) or one that may do this (403)
ServiceError                  the service as a whole cannot be used (not reached, redirects, fails on everything)
├── RequestRefusedError       this request is refused for ever: find out which of its companies is the reason
├── RequestFailedError        this request failed although repeated: likewise, unless `is_outage`
└── UnusableAnswerError       raised by a caller's check: the answer says nothing; it is asked for again
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmlake import errors
from firmlake.errors import UnusableAnswerError

if TYPE_CHECKING:
    from firmlake.api.exchange import Answer

__all__ = [
    "InterruptedRunError",
    "OutOfCreditsError",
    "PausedByServiceError",
    "RequestFailedError",
    "RequestRefusedError",
    "ThrottleStoreError",
    "UnusableAnswerError",
]


class OutOfCreditsError(errors.Stopped):
    """The service answered 402."""


class PausedByServiceError(errors.Stopped):
    """The service wants us to wait longer than `api.retry_wait_max_seconds`."""


class ThrottleStoreError(errors.Stopped):
    """Whoever keeps count of the allowance is away, so that nobody knows whether a request may be sent."""


class InterruptedRunError(errors.Stopped):
    """SIGINT or SIGTERM arrived; its exit code is the signal's, which the command knows."""


class RequestRefusedError(errors.RequestRefusedError):
    """The service refuses this request and would refuse it again.

    Attributes:
        answer: The refusal; None after unpickling.
    """

    answer: Answer | None = None


class RequestFailedError(errors.RequestFailedError):
    """The service failed on this request although it was repeated as the settings allow.

    Attributes:
        answer: The last one; None after unpickling.
        attempts: How often it was sent.
        is_outage: The service failed on other requests too at that time, so that this one need not be the reason.
    """

    answer: Answer | None = None
    attempts: int = 0
    is_outage: bool = False
