"""The commands `run`, `redrive` and `demo`, which fetch, and `plan`, which shows what `run` would do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from firmlake.cli.call import Call, command
from firmlake.cli.company_lists import file_back, file_options
from firmlake.cli.options import on_list
from firmlake.core.clock import utc_now
from firmlake.core.errors import EXIT_DONE, UsageError
from firmlake.core.sample import SAMPLE_SETTINGS, find_sample
from firmlake.core.settings import Settings
from firmlake.terminal.echo import echo

if TYPE_CHECKING:
    from firmlake.enrich.events import Published


_RUN_OPTIONS = (
    click.option("--max-credits", metavar="N", help="Spend at most N credits; 0 fetches only what is free."),
    click.option("--max-requests", metavar="N", help="Send at most N requests, including retries."),
    click.option(
        "--fail-on",
        metavar="any|SHARE",
        help="Exit with code 3 if any company failed (the default), or only if more than this share did, such as 0.02.",
    ),
    click.option("--refresh", is_flag=True, help="Fetch all companies again, even fresh ones."),
    click.option("--no-check", is_flag=True, help="Ask a service that is new to the data folder no questions first."),
)


def _run_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_RUN_OPTIONS):
        function = option(function)
    return function


_LIST_OPTIONS = (
    click.option(
        "--sample",
        metavar="N",
        help="Fetch only the first N companies of LIST that are not held yet, and show what all would cost.",
    ),
    click.option(
        "--expand",
        metavar="lookalikes|parents|children",
        help="Also fetch the companies that are related in this way to those in LIST.",
    ),
    click.option("--depth", metavar="N", help="Number of steps of --expand. Default: 1. All steps share the budgets."),
)


def _list_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_LIST_OPTIONS):
        function = option(function)
    return function


def _run_settings(call: Call, *, refresh: bool, no_check: bool, **options: str | None) -> Settings:
    given = {f"run.{name}": value for name, value in options.items()}
    given |= {"run.refresh_after_days": "0" if refresh else None, "run.check": "false" if no_check else None}
    settings = call.settings(given)
    if options.get("depth") is not None and not settings.run.expand:
        raise UsageError(
            "--depth needs --expand, because it counts the steps of --expand",
            "Add --expand lookalikes, parents or children, or omit --depth",
        )
    return settings


@click.command()
@_run_options
@_list_options
@click.option(
    "--list-name", metavar="NAME", help="Name of the list in the warehouse. Default: the file name without its ending."
)
@file_options
@command
@on_list(keep=True)
def run(call: Call, company_list: Path, out: Path | None, columns: str | None, **options: Any) -> int:
    """Fetch and publish what is missing or stale for the companies of LIST. With --out, write LIST back with figures.

    LIST is CSV, a workbook (XLSX, XLS, XLSB, ODS), Parquet (a file or a folder), NDJSON or plain text, also compressed
    with gzip or ZIP. It can also be - for standard input, an s3:// address, or a DuckDB file. To resume an unfinished
    run, run the same command again: no stored answer is fetched twice. With --expand, each step is a separate run over
    the companies that the previous step found, the nearest first.
    """
    from firmlake.enrich.run import enrich

    settings = _run_settings(call, **options)
    run = partial(enrich, settings, company_list, f"firmlake run {company_list}", file_back=file_back(out, columns))
    return _carry_out(call, settings, run, has_steps=bool(settings.run.expand))


@click.command()
@_run_options
@command
def redrive(call: Call, **options: Any) -> int:
    """Fetch again everything that failed, from any list."""
    from firmlake.core.folders import Folders
    from firmlake.enrich import run as runner

    settings = _run_settings(call, **options)
    Folders.existing(settings)
    return _carry_out(call, settings, partial(runner.redrive, settings, "firmlake redrive"))


@click.command()
@command
def demo(call: Call) -> int:
    """Enrich the sample list on the embedded service. Needs no key and no network."""
    from firmlake.enrich.run import enrich

    settings = call.settings(SAMPLE_SETTINGS)
    return _carry_out(call, settings, partial(enrich, settings, find_sample(), "firmlake demo"))


@click.command()
@_run_options
@_list_options
@command
@on_list(keep=False)
def plan(call: Call, company_list: Path, **options: Any) -> None:
    """Show what `run LIST` would fetch and cost. Sends no request and writes nothing.

    The cost of --expand is shown for the steps whose companies the warehouse already knows.
    """
    from firmlake.enrich import expand
    from firmlake.enrich import plan as planning
    from firmlake.terminal.plan import (
        describe_bill,
        describe_list,
        describe_plan,
        describe_prices,
        plan_content,
        show_refused,
    )

    settings = _run_settings(call, **options)
    expand.check_expand(settings)
    planned = planning.plan(settings, company_list, utc_now(), is_priced=True)
    content = plan_content(planned)
    bill = planning.forecast(settings, planned, utc_now())
    content["bill"] = bill
    steps = expand.plan_steps(settings, planned, utc_now()) if settings.run.expand else []
    unknown, left = expand.open_steps(settings, [planned, *steps]) if settings.run.expand else (range(0), None)
    if steps:
        content["steps"] = list(map(plan_content, steps))
    if unknown:
        content["unknown_steps"] = [{"step": number, "max_credits": left} for number in unknown]

    def show() -> None:
        for line in (*describe_list(planned.companies), *describe_plan(planned)):
            echo(line)
        for line in describe_bill(bill) if bill else ():
            echo(line)
        for line in describe_prices(planned, settings.run.credit_price):
            echo(line)
        for number, step in enumerate(steps, 1):
            echo(f"Step {number}, {settings.run.expand}, as far as the warehouse knows:")
            for line in describe_plan(step):
                echo(f"  {line}")
        for number in unknown:
            before = company_list.name if number == 1 else f"step {number - 1}"
            limit = "no limit of credits" if left is None else f"up to {left:,} credits of the budget"
            echo(f"Step {number}, {settings.run.expand}: not known before {before} is fetched; {limit}")
        show_refused(planned.companies)

    call.answer(content, show)


def _carry_out(
    call: Call, settings: Settings, run: Callable[..., Sequence[Published]], *, has_steps: bool = False
) -> int:
    """Carry out runs and show them; return the exit code of their most serious shortfall.

    With `--json`, stdout has the summary of the run, or with steps those of all. The last line on stderr says
    what was left undone, even after `--out` has named its file.
    """
    import msgspec

    from firmlake.enrich.run import shortfall
    from firmlake.report.summary import summary_of_nothing
    from firmlake.terminal.runs import RunOutput
    from firmlake.warehouse.lists import held_name

    with RunOutput(settings, call.say, call.show) as output:
        published = run(show=output)
    # `list_name` of a summary is the file that was read, `company_list` the name of the list in the warehouse.
    summaries = [{**msgspec.structs.asdict(each.summary), "company_list": held_name(each.run)} for each in published]
    if has_steps:
        content: Any = {"runs": summaries}
    else:
        content = summaries[0] if summaries else {**summary_of_nothing(), "company_list": ""}
    call.answer(content, lambda: None)
    error = shortfall(published)
    if error:
        call.say(f"firmlake: {error}")
    return error.exit_code if error else EXIT_DONE
