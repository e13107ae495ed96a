"""Clock, sleep and randomness as one value, so that tests replace them and never wait."""

from __future__ import annotations

import random as random_module
import time
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from firmlake.core.work import utc_now as utc


class Timing(NamedTuple):
    """The sources of time and randomness of a client.

    Attributes:
        clock: Returns monotonic seconds.
        sleep: Waits for a number of seconds; None waits on the client's `stop` event.
        random: Returns a number from 0 to 1.
        utc_now: Returns the current time in UTC.
    """

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] | None = None
    random: Callable[[], float] = random_module.random
    utc_now: Callable[[], datetime] = utc


REAL = Timing()
