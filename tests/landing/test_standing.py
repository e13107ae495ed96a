"""What a run knows about its datasets, and how it ends without any."""

from __future__ import annotations

import pytest

from firmlake.core.errors import (
    AuthorizationError,
    EndpointPausedError,
    FirmlakeError,
    ForbiddenError,
    PausedByServiceError,
    ServiceError,
    UnavailableError,
)
from firmlake.core.settings import ApiSettings
from firmlake.landing.standing import Standing
from support import make_run

FORBIDDEN, PAUSED, DOWN = ForbiddenError("no", "Pay"), EndpointPausedError("later", "Wait"), UnavailableError("down")


@pytest.mark.parametrize(
    ("ends", "error", "step"),
    [
        ([FORBIDDEN, FORBIDDEN], AuthorizationError, "Pay"),
        ([PAUSED, PAUSED], PausedByServiceError, "Wait"),
        ([FORBIDDEN, PAUSED], PausedByServiceError, "Wait"),
        ([DOWN, PAUSED], PausedByServiceError, "Wait"),
        ([FORBIDDEN, DOWN], ServiceError, "Pay"),
    ],
)
def test_a_run_without_any_dataset_stops_if_one_of_them_will_be_answered_later(folders, ends, error, step):
    """So that it publishes what it has; nobody has to act."""
    standing = Standing(make_run(folders, datasets=["financials", "lookalikes"]), ApiSettings(), lambda: None)
    standing.end("financials", ends[0])
    standing.check()
    standing.end("lookalikes", ends[1])
    with pytest.raises(FirmlakeError) as caught:
        standing.check()
    assert (type(caught.value), caught.value.next_step) == (error, step)
