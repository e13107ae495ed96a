"""Fetch the shards of a run one after the other and stage each at once; end a run that gets no answer for a long time.

Fetching one while staging another would take a tenth more CPU and be no faster: both need the interpreter's lock.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import TypeVar

from firmlake.api import service
from firmlake.api.client import Client
from firmlake.api.exchange import Answer
from firmlake.core.errors import RUN_AGAIN, InterruptedRunError, RequestRefusedError, Stopped
from firmlake.core.process import graceful
from firmlake.core.settings import Settings
from firmlake.core.work import Clock, record_failure
from firmlake.enrich.events import Counter, Fetching, Step, Steps
from firmlake.landing.fetch import Fetcher
from firmlake.landing.progress import Progress, read_landed
from firmlake.landing.run import Run, remove_run
from firmlake.tables.stage import Manifest, stage_shard

T = TypeVar("T")

_SIGNALS_EVERY_SECONDS = 0.2


def fetch_shards(
    settings: Settings, run: Run, expected: int, name: Callable[[str], str], now: Clock, *, looks_closer: bool = False
) -> Steps[tuple[Stopped | None, dict[int, Manifest]]]:
    """Fetch all shards, and stage each shard once it is completely fetched.

    Returns:
        Why fetching stopped early (None if every company is answered or given up), and the staged shards.

    Raises:
        InterruptedRunError: The process got a signal to stop. Run again to resume.
        Stopped: The work stalled. Run again to resume.
        RequestRefusedError: With `looks_closer`, a request was refused.
    """
    stopped: Stopped | None = None
    staged: dict[int, Manifest] = {}
    watch = Watch(settings.run.stuck_after_minutes, run.folders.state, list_name=run.plan.company_list)
    counter: Counter = (yield Fetching(expected, settings.api)) or Counter()

    def count(answer: Answer) -> None:
        watch.note()
        counter.count(answer)

    def wait_because(why: str) -> None:
        watch.note()
        counter.why = why

    with (
        graceful() as stop,
        closing(watch),
        service.connect(settings, stop, wait_because, now) as client,
        _fetching(settings, run, client, count, now, looks_closer) as fetcher,
    ):
        for shard in range(1, run.plan.shard_count + 1):
            try:
                staged[shard] = yield from _fetch_and_stage(fetcher, run, shard, name, stop, watch)
            except Stopped as error:
                if watch.error or isinstance(error, InterruptedRunError):
                    raise
                stopped = stopped or error
            except BaseException:  # a signal too: nothing more may be sent
                stop.set()
                raise
    return stopped, staged


def _fetch_and_stage(
    fetcher: Fetcher, run: Run, shard: int, name: Callable[[str], str], stop: threading.Event, watch: Watch
) -> Steps[Manifest]:
    work = partial(work_watched, partial(fetcher.fetch_shard, shard), stop, watch)
    fetched = yield Step(name(f"fetch shard {shard}"), work, Progress.describe)
    manifest: Manifest = yield Step(name(f"stage shard {shard}"), partial(stage_shard, run, shard, fetched))
    watch.note()
    return manifest


@contextmanager
def _fetching(
    settings: Settings, run: Run, client: Client, on_answer: Callable[[Answer], object], now: Clock, looks_closer: bool
) -> Iterator[Fetcher]:
    """Open the fetcher of a run. Closing it waits for the requests in flight.

    If the service refuses every request because the settings are wrong, the run is removed, because there is nothing to
    resume. Only the first successful answer ties the data folder to the service, so a wrong address does not.
    """
    on_works = partial(service.stamp_service, settings, run.folders)
    fetcher = Fetcher(client, settings, run, on_answer, on_works, now, looks_closer=looks_closer)
    try:
        yield fetcher
    except RequestRefusedError:
        if not any(landed.header.is_success for shard in run.shards() for landed in read_landed(run, shard)):
            remove_run(run)
        raise
    finally:
        fetcher.close()


def work_watched(work: Callable[[], T], stop: threading.Event, watch: Watch) -> T:
    """Work in another thread, so that this one can handle signals and notice that nothing happens any more.

    When this function returns or raises, the work has ended.

    Args:
        work: Called in the caller's context, which tells Prefect the flow run.
        stop: Set to make the work end early.
        watch: Ends work that has stalled.

    Raises:
        Stopped: The work stalled. Run again to resume.
        Exception: What the work raised.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="shard") as pool:
        future = pool.submit(copy_context().run, work)
        try:
            # With a timeout: the SIGINT handler that Polars installs does not wake a thread from an endless wait.
            while not wait([future], _SIGNALS_EVERY_SECONDS).done:
                watch.check(stop)
        except BaseException:  # a signal too: the work must have ended when this raises
            stop.set()
            raise
        try:
            return future.result()
        except InterruptedRunError:
            if watch.error:
                raise watch.error from None
            raise


_GRACE_SECONDS = 60.0
"""Time left for the requests in flight. Then the process is ended, because a hanging thread would keep it alive."""


class Watch:
    """Notices that a run has stalled.

    Args:
        minutes: The longest time without a sign of life; 0 watches nothing.
        state: The folder where the failure is recorded if the process has to be ended.
        clock: Returns monotonic seconds.
        list_name: The company list of the run; empty if it has none.
    """

    def __init__(
        self, minutes: float, state: Path, clock: Callable[[], float] = time.monotonic, list_name: str = ""
    ) -> None:
        self._minutes, self._state, self._list_name, self._clock = minutes, state, list_name, clock
        self._last = clock()
        self.error: Stopped | None = None

    def note(self) -> None:
        """Note a sign of life: an answer, a staged shard, or the start or end of a wait."""
        self._last = self._clock()

    def check(self, stop: threading.Event) -> None:
        """If the run has stalled, ask its threads to stop. If they do not, the process ends a minute later."""
        if self.error or not self._minutes or self._clock() - self._last < 60 * self._minutes:
            return
        self.error = Stopped(
            f"The run stalled: nothing arrived for {self._minutes:g} minutes (run.stuck_after_minutes)",
            RUN_AGAIN,
        )
        stop.set()
        timer = threading.Timer(_GRACE_SECONDS, self._end_process)
        timer.daemon = True
        timer.start()
        self._timer = timer

    def close(self) -> None:
        """Cancel the end of the process, because the threads have stopped."""
        if self.error:
            self._timer.cancel()

    def _end_process(self) -> None:
        assert self.error
        record_failure(self._state, "a run that stalled", self.error, self._list_name)
        sys.stderr.write(f"firmlake: {self.error}\n")
        sys.stderr.flush()
        os._exit(self.error.exit_code)
