"""From a plan to a report: what run, redrive and demo have in common, and the steps outward."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from firmlake.cli.call import Call, graceful, now, stop
from firmlake.core.errors import EXIT_DONE, EXIT_SOME_FAILED, EXIT_STOPPED
from firmlake.core.log import log
from firmlake.core.settings import Settings

if TYPE_CHECKING:
    import polars as pl

    from firmlake.core.run import Outcome, Run
    from firmlake.enrich.plan import Planned
    from firmlake.report.summary import RunSummary

__all__ = ["Ended", "enrich", "expand", "report"]

_EXIT_OF_OUTCOME = {"done": EXIT_DONE, "some_failed": EXIT_SOME_FAILED, "stopped": EXIT_STOPPED}
_ENDINGS = {
    "some_failed": "Published, but {reason}. {ask_again}.",
    "stopped": "Published what there is, but stopped: {reason}. Run again to go on where it stopped.",
}


class Ended(NamedTuple):
    """A run that was published.

    Attributes:
        companies: Whom it was over: country, company_number.
        outcome: How it ended; None where there was nobody to ask.
    """

    companies: pl.DataFrame
    outcome: Outcome | None = None
    summary: RunSummary | None = None
    failed: tuple[Any, ...] = ()


def enrich(call: Call, settings: Settings, plan: Callable[[], Planned], what: str) -> Ended:
    """Carry out a plan: fetch, stage, publish.

    Args:
        call: The command.
        settings: Its settings.
        plan: Makes the plan, under the lock.
        what: For whoever finds the data folder locked.
    """
    from firmlake.api import service
    from firmlake.core.lock import lock
    from firmlake.core.run import Folders
    from firmlake.enrich import plan as planning
    from firmlake.enrich import stages as pipeline
    from firmlake.terminal.progress import Counter, show_progress

    service.check_access(settings)
    with lock(Folders(Path(settings.paths.data)), f"firmlake run {what}"):
        planned = plan()
        if planned.companies.companies.is_empty():
            return Ended(planned.companies.companies)
        _say_plan(call, planned)
        frozen = planning.freeze(settings, planned, now())
        log("planned", run=frozen.run_id, list=frozen.plan.list_name, companies=frozen.plan.target_count)
        companies, request_count = planned.companies.companies, sum(planned.estimate.request_counts.values())
        del planned  # the targets of a million companies are on disk now, and 400 MB in memory
        stopped = ""
        if frozen.plan.shard_count and not frozen.is_fetched:
            counter = Counter(request_count, settings.api.names)
            with (
                service.connect(settings, stop) as client,
                show_progress(counter),
                pipeline.fetching(settings, frozen, client, counter.count) as fetcher,
                graceful(),
            ):
                stopped = pipeline.fetch(fetcher, frozen)
            call.say(f"Fetched: {counter.summary()}")
        manifest = pipeline.stage(frozen)
        outcome = pipeline.finish(settings, frozen, manifest, stopped, now())
        log("fetched", run=frozen.run_id, outcome=outcome.outcome, reason=outcome.reason)
        made = pipeline.publish_run(settings, frozen, manifest, outcome, now())
        log("published", run=frozen.run_id, warehouse=made)
    return _summarise(companies, frozen, outcome)


def expand(call: Call, settings: Settings, first: Ended) -> int:
    """Go outward step by step, until a budget or the companies end; show each step, and give the worst exit code."""
    import polars as pl

    from firmlake.enrich import plan as planning

    ended, known = [first], first.companies.select("country", "company_number")
    codes = [_show(call, first)]
    for step in range(1, settings.run.depth + 1):
        last = ended[-1]
        if last.summary is None or last.outcome is None or last.outcome.outcome == "stopped":
            break
        settings = planning.spend(settings, last.summary.expected_credit_count, last.summary.request_count)
        plan = partial(planning.plan_outward, settings, last.companies, known, step, now())
        call.say(f"\nStep {step} of {settings.run.depth}, {settings.run.expand}:")
        ended.append(enrich(call, settings, plan, f"--expand {settings.run.expand}"))
        known = pl.concat([known, ended[-1].companies.select("country", "company_number")])
        codes.append(_show(call, ended[-1]))
    call.answer({"runs": [each.summary for each in ended if each.summary]}, lambda: None)
    return max(codes)


def _say_plan(call: Call, planned: Planned) -> None:
    from firmlake.terminal.runs import describe_list, describe_plan

    for line in (*describe_list(planned.companies), *describe_plan(planned)):
        call.say(line)


def _summarise(companies: pl.DataFrame, frozen: Run, outcome: Outcome) -> Ended:
    from firmlake.report.summary import failures, summarise
    from firmlake.warehouse.generations import LINK, open_warehouse

    with open_warehouse(frozen.folders) as connection:
        summary = summarise(connection, frozen.run_id, frozen.folders.warehouse / LINK)
        failed = tuple(failures(connection, frozen.run_id, 10))
    return Ended(companies, outcome, summary, failed)


def report(call: Call, ended: Ended) -> int:
    """Show what a run came to, and give its exit code."""
    call.answer(ended.summary or {"target_count": 0}, lambda: None)
    return _show(call, ended)


def _show(call: Call, ended: Ended) -> int:
    """Show a person what a run came to, say what is left to do, and give the exit code."""
    from firmlake.enrich.stages import ASK_AGAIN
    from firmlake.terminal.runs import show_summary

    if ended.summary is None or ended.outcome is None:
        call.show(lambda: click.echo("There is nobody to ask"))
        return EXIT_DONE
    call.show(partial(show_summary, ended.summary, ended.failed))
    if ended.outcome.outcome != "done":
        ending = _ENDINGS[ended.outcome.outcome].format(reason=ended.outcome.reason, ask_again=ASK_AGAIN)
        call.say(f"firmlake: {ending}")
    return _EXIT_OF_OUTCOME[ended.outcome.outcome]
