"""The run of a check: answers land at once, so that every credit is known even if the check is killed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from types import TracebackType
from typing import Self

import msgspec

from firmlake.api.exchange import Answer
from firmlake.core.folders import Folders
from firmlake.core.settings import Settings
from firmlake.enrich.plan import Planned
from firmlake.enrich.run import start_or_resume
from firmlake.landing.run import Run, freeze_again, remove_run
from firmlake.landing.segments import Header, SegmentWriter, answered
from firmlake.privacy.persons import answer_filter
from firmlake.tables.index import landed_facts

__all__ = ["Journal"]


class Journal:
    """Lands the answers about companies in a run, which starts with the first successful answer.

    Use it as a context manager: on exit, a run that has paid for nothing is removed.

    Args:
        settings: The settings of the run.
        plan: Makes the plan of the run.
        now: The clock, UTC.
    """

    def __init__(self, settings: Settings, plan: Callable[[], Planned], now: Callable[[], datetime]) -> None:
        self._settings, self._plan, self._now = settings, plan, now
        self._clean = answer_filter(settings.privacy, Folders.of(settings), settings.contract)
        self._answers: list[Answer] = []
        self._writer: SegmentWriter | None = None
        self._run: Run | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._close()
        if self._run and self._run.outcome() is None:
            facts = landed_facts(self._run)
            if facts.paid.is_empty() and not facts.charges["credits"].sum():
                remove_run(self._run)

    def land(self, answer: Answer) -> None:
        """Land an answer. Failed answers wait for the first successful one and land with it."""
        if not answer.request.companies:
            return
        self._answers.append(answer)
        if self._run:
            self._write(answer)
        elif answer.is_success:
            self._begin()

    def settle(self, settings: Settings, plan: Callable[[], Planned]) -> Run:
        """Make the run read its answers with the settings that fit the service, and return the run.

        If these settings ask for other companies or another language, a new run takes over the answers.

        Args:
            settings: The settings that fit. At least one answer was successful.
            plan: Makes the plan of the run by these settings.
        """
        assert self._run
        unfinished = plan().unfinished
        if unfinished and unfinished.run_id == self._run.run_id:
            plan_now = msgspec.structs.replace(self._run.plan, names=settings.api.names, contract=settings.contract)
            self._run = freeze_again(self._run, plan_now, {})
        else:
            self._close()
            remove_run(self._run)  # before planning, which would otherwise count its companies as paid for already
            self._settings, self._plan = settings, plan
            self._begin()
        self._close()
        return self._run

    def _begin(self) -> None:
        self._run = run = start_or_resume(self._settings, self._plan(), self._now())
        self._writer = SegmentWriter(run.folders.landing(run.run_id, run.plan.shard_count))
        for answer in self._answers:
            self._write(answer)

    def _write(self, answer: Answer) -> None:
        assert self._run
        assert self._writer
        self._writer.append(_header(self._run, answer), self._clean(answer.body))

    def _close(self) -> None:
        if self._writer:
            self._writer.close()
        self._writer = None


def _header(run: Run, answer: Answer) -> Header:
    """Make the header of an answer to a check: it may have cost a credit, but answers no target of the run."""
    base = Header(
        kind="probe", request_id="", run_id=run.run_id, shard=run.plan.shard_count, dataset=answer.request.endpoint,
        companies=answer.request.companies, language=run.plan.language, fetched_at=answer.fetched_at,
    )  # fmt: skip
    return msgspec.structs.replace(answered(base, answer), kind="probe")
