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

    Return why fetching stopped early (None if every company is answered or given up), and the staged shards.

    Raises:
        InterruptedRunError: The process got a signal to stop. Run again to resume.
        RequestRefusedError: With `looks_closer`, a request was refused.
    """
    stopped: Stopped | None = None
    staged: dict[int, Manifest] = {}
    watch = Watch(settings.run.stuck_after_minutes, run.folders.state, run.plan.company_list)
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
            except InterruptedRunError:
                raise
            except Stopped as error:
                stopped = stopped or error
            except BaseException:  # a signal too: nothing more may be sent
                stop.set()
                raise
    return stopped, staged


def _fetch_and_stage(
    fetcher: Fetcher, run: Run, shard: int, name: Callable[[str], str], stop: threading.Event, watch: Watch
) -> Steps[Manifest]:
    work = partial(_work_aside, partial(fetcher.fetch_shard, shard), stop)
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


def _work_aside(work: Callable[[], T], stop: threading.Event) -> T:
    """Work in another thread, in the caller's context, which tells Prefect the flow run; this one can handle signals.

    When this function returns or raises, the work has ended; `stop` makes it end early.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="shard") as pool:
        future = pool.submit(copy_context().run, work)
        try:
            # With a timeout: the SIGINT handler that Polars installs does not wake a thread from an endless wait.
            while not wait([future], _SIGNALS_EVERY_SECONDS).done:
                pass
        except BaseException:  # a signal: the work must have ended when this raises
            stop.set()
            raise
        return future.result()


class Watch:
    """Ends the process if a run stalls: each request and wait has a limit, so something hangs that we cannot stop.

    That is after so many minutes without a sign of life; 0 watches nothing. The failure is recorded in the `state`
    folder. What was fetched is kept, as after a kill at any instant, and the next run resumes.
    """

    def __init__(self, minutes: float, state: Path, list_name: str) -> None:
        self._minutes, self._state, self._list_name = minutes, state, list_name
        self._last, self._is_over = time.monotonic(), threading.Event()
        if minutes:
            threading.Thread(target=self._look, name="watch", daemon=True).start()

    def note(self) -> None:
        """Note a sign of life: an answer, a staged shard, or the start or end of a wait."""
        self._last = time.monotonic()

    def close(self) -> None:
        """Stop watching."""
        self._is_over.set()

    def _look(self) -> None:
        while not self._is_over.wait(min(1.0, 15 * self._minutes)):
            if time.monotonic() - self._last > 60 * self._minutes:
                said = f"The run stalled: nothing arrived for {self._minutes:g} minutes (run.stuck_after_minutes)"
                error = Stopped(said, RUN_AGAIN)
                record_failure(self._state, "a run that stalled", error, self._list_name)
                sys.stderr.write(f"firmlake: {error}\n")
                sys.stderr.flush()
                os._exit(error.exit_code)
