"""CPU seconds by stage."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Stages"]


class Stages:
    """CPU seconds by stage."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def clock(self, stage: str, of: str = "", clock: Callable[[], float] = time.process_time) -> Iterator[None]:
        """Count what is computed meanwhile for a stage, and no longer for the one it is part of."""
        began = clock()
        try:
            yield
        finally:
            spent = clock() - began
            self.seconds[stage] += spent
            if of:
                self.seconds[of] -= spent

    def wrapped(
        self, function: Callable[..., Any], stage: str, of: str = "", clock: Callable[[], float] = time.process_time
    ) -> Callable[..., Any]:
        """Return a function whose time is counted."""

        def counted(*arguments: Any, **named: Any) -> Any:
            with self.clock(stage, of, clock):
                return function(*arguments, **named)

        return counted

    def iterated(
        self,
        function: Callable[..., Iterator[Any]],
        stage: str,
        of: str = "",
        clock: Callable[[], float] = time.process_time,
    ) -> Callable[..., Iterator[Any]]:
        """Return a generator function whose time is counted, but not that of what is done with each value."""
        advance = self.wrapped(next, stage, of, clock)

        def counted(*arguments: Any, **named: Any) -> Iterator[Any]:
            values = function(*arguments, **named)
            while (value := advance(values, None)) is not None:
                yield value

        return counted
