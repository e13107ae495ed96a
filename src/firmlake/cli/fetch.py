"""The commands that fetch: `run`, `redrive`, `demo` and `company`; `plan`, which shows what `run` would do; `check`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
import msgspec

from firmlake.check.finding import needs_you
from firmlake.cli.call import Call, Options, command
from firmlake.cli.company_lists import FileBack, GivenList, file_back, given_list
from firmlake.core.errors import EXIT_DONE, EXIT_FAILED, EXIT_SOME_FAILED, Stopped, UsageError
from firmlake.core.folders import Folders
from firmlake.core.settings import DatasetName, Settings, changed_keys, value_of
from firmlake.core.settings_layers import SAMPLE_SETTINGS, find_sample
from firmlake.core.work import lock, utc_now

if TYPE_CHECKING:
    from firmlake.enrich.events import Published


def run_limits(
    _call: Call,
    *,
    max_credits: str | None = None,
    max_requests: str | None = None,
    fail_on: str | None = None,
    refresh: bool = False,
    no_check: bool = False,
) -> Options:
    """Give the settings of what a run may spend, and when it has failed.

    Args:
        max_credits (N): Spend at most N credits; 0 fetches only what is free.
        max_requests (N): Send at most N requests, including retries.
        fail_on (any|SHARE): Exit with code 3 if any company failed (the default), or only if more than this share did,
            such as 0.02.
        refresh: Fetch all companies again, even fresh ones.
        no_check: Ask a service that is new to the data folder no questions first.
    """
    return {
        "run.max_credits": max_credits,
        "run.max_requests": max_requests,
        "run.fail_on": fail_on,
        "run.refresh_after_days": "0" if refresh else None,
        "run.check": "false" if no_check else None,
    }


def run_extent(
    _call: Call, *, sample: str | None = None, expand: str | None = None, depth: str | None = None
) -> Options:
    """Give the settings of how far a run goes.

    Args:
        sample (N): Fetch only the first N companies of LIST that are not held yet, and show what all would cost.
        expand (lookalikes|parents|children): Also fetch the companies that are related in this way to those in LIST.
        depth (N): Number of steps of --expand. Default: 1. All steps share the budgets.
    """
    return {"run.sample": sample, "run.expand": expand, "run.depth": depth}


@command
def run(
    call: Call,
    company_list: Annotated[GivenList, given_list],
    *,
    limits: Annotated[Options, run_limits],
    extent: Annotated[Options, run_extent],
    list_name: str | None = None,
    file: Annotated[FileBack | None, file_back],
) -> int:
    """Fetch and publish what is missing or stale for the companies of LIST. With --out, write LIST back with figures.

    LIST is CSV, a workbook (XLSX, XLS, XLSB, ODS), Parquet (a file or a folder), NDJSON or plain text, also compressed
    with gzip or ZIP. It can also be - for standard input, an s3:// address, or a DuckDB file. To resume an unfinished
    run, run the same command again: no stored answer is fetched twice. With --expand, each step is a separate run over
    the companies that the previous step found, the nearest first.

    Args:
        list_name (NAME): Name of the list in the warehouse. Default: the file name without its ending.
    """
    settings = _list_settings(call, {**limits, **extent, "run.list_name": list_name})
    with company_list.as_file(is_kept=True) as path:
        from firmlake.enrich.run import enrich

        fetch = partial(enrich, settings, path, f"firmlake run {path}", file_back=file)
        return _carry_out(call, settings, fetch, has_steps=bool(settings.run.expand))


@command
def redrive(call: Call, *, limits: Annotated[Options, run_limits]) -> int:
    """Fetch again everything that failed, from any list."""
    settings, _ = call.on_folder(limits)
    from firmlake.enrich.run import redrive

    return _carry_out(call, settings, partial(redrive, settings, "firmlake redrive"))


@command
def demo(call: Call) -> int:
    """Enrich the sample list on the embedded service. Needs no key and no network."""
    settings = call.settings(SAMPLE_SETTINGS)
    from firmlake.enrich.run import enrich

    return _carry_out(call, settings, partial(enrich, settings, find_sample(), "firmlake demo"))


def _list_settings(call: Call, options: Options) -> Settings:
    settings = call.settings(options)
    if options["run.depth"] is not None and not settings.run.expand:
        raise UsageError(
            "--depth needs --expand, because it counts the steps of --expand",
            "Add --expand lookalikes, parents or children, or omit --depth",
        )
    return settings


def _carry_out(
    call: Call, settings: Settings, fetch: Callable[..., Sequence[Published]], *, has_steps: bool = False
) -> int:
    """Carry out runs and show them; return the exit code of their most serious shortfall.

    With `--json`, stdout has the summary of the run, or with steps those of all. The last line on stderr says
    what was left undone, even after `--out` has named its file.
    """
    from firmlake.enrich.run import shortfall
    from firmlake.report.summary import summary_of_nothing
    from firmlake.terminal.runs import RunOutput
    from firmlake.warehouse.lists import held_name

    with RunOutput(settings, call.say, call.show) as output:
        published = fetch(show=output)
    # `list_name` of a summary is the file that was read, `company_list` the name of the list in the warehouse.
    summaries = [{**msgspec.structs.asdict(each.summary), "company_list": held_name(each.run)} for each in published]
    nothing = {**summary_of_nothing(), "company_list": ""}
    call.answer({"runs": summaries} if has_steps else summaries[0] if summaries else nothing, ())
    return call.end(shortfall(published))


@command
def plan(
    call: Call,
    company_list: Annotated[GivenList, given_list],
    *,
    limits: Annotated[Options, run_limits],
    extent: Annotated[Options, run_extent],
) -> None:
    """Show what `run LIST` would fetch and cost. Sends no request and writes nothing.

    The cost of --expand is shown for the steps whose companies the warehouse already knows.
    """
    settings = _list_settings(call, {**limits, **extent})
    with company_list.as_file(is_kept=False) as path:
        from firmlake.enrich import expand
        from firmlake.enrich import plan as planning
        from firmlake.terminal.plan import plan_content, plan_parts

        expand.check_expand(settings)
        planned = planning.plan(settings, path, utc_now(), is_priced=True)
    bill = planning.forecast(settings, planned, utc_now())
    steps = expand.plan_steps(settings, planned, utc_now()) if settings.run.expand else []
    unknown, left = expand.open_steps(settings, [planned, *steps]) if settings.run.expand else (range(0), None)
    content = {**plan_content(planned), "bill": bill}
    if steps:
        content["steps"] = list(map(plan_content, steps))
    if unknown:
        content["unknown_steps"] = [{"step": number, "max_credits": left} for number in unknown]
    call.answer(content, plan_parts(planned, bill, steps, unknown, left, settings.run))


@command
def company(
    call: Call,
    *words: str,
    datasets: tuple[DatasetName, ...] = (),
    page: Path | None = None,
    sandbox: bool = False,
) -> int:
    """Fetch one company, such as BE 0403227515, publish its data and print it. Costs at most one credit.

    The answers are stored in the data folder like those of any run; --sandbox uses the data folder of the demo. With
    --page, nothing is fetched. The page shows figures over ten years, peers, owners, changes, and the origin of each
    figure.

    Args:
        words (COUNTRY NUMBER): The company.
        datasets: Fetch only this dataset; repeatable. Default: run.datasets.
        page (FILE): Write what the warehouse holds about the company to an HTML file; fetch nothing.
        sandbox: Use the embedded service.
    """
    settings = call.settings(SAMPLE_SETTINGS if sandbox else {})
    from firmlake.intake.identifiers import read_named_company

    wanted = read_named_company(" ".join(words))
    if page:
        from firmlake.report.page import write_company_page

        write_company_page(Folders.existing(settings), wanted, utc_now(), page, memory_limit=settings.run.duckdb_memory)
        call.answer({"page": str(page)}, [str(page)])
        return EXIT_DONE
    from firmlake.enrich import lookup
    from firmlake.terminal.runs import company_parts

    found = lookup.fetch_company(settings, wanted, datasets or settings.run.datasets)
    call.answer(lookup.as_content(found), company_parts(found))
    return call.end(found.shortfall) or (EXIT_DONE if found.is_found else EXIT_SOME_FAILED)


@command
def check(
    call: Call,
    company_list: Path | None = None,
    *,
    companies: tuple[str, ...] = (),
    most: Annotated[int, click.IntRange(1, 100)] = 3,
    write: Path | None = None,
) -> int:
    """Request a few companies from a service, and compare its behaviour with every assumption about it.

    The companies come from LIST; without LIST they are well-known ones. Answers that were paid for are stored like
    those of a run, so the next run does not buy them again. Nothing is changed in the service.

    Args:
        company_list ([LIST]): The list.
        companies (--company NUMBER): Request this company, such as "BE 0403.227.515"; repeatable.
        most (--companies N): Request at most N companies, including one that does not exist; each costs at most one
            credit.
        write (FILE): Write settings that fit the service to FILE.
    """
    settings, origins = call.settings_with_origins()
    from firmlake.api import service
    from firmlake.enrich import check as checking
    from firmlake.enrich.contact import choose_companies, write_settings
    from firmlake.intake.identifiers import read_named_company
    from firmlake.terminal.runs import check_content, checked_parts, describe_asking, describe_file

    service.check_access(settings)
    named = list(map(read_named_company, companies))
    asking = choose_companies(settings, named, company_list, _check_budget(settings, most))
    folders = Folders.of(settings)
    with lock(folders, "firmlake check"):
        service.check_service(settings, folders)
        call.say(describe_asking(settings, asking))
        checked = checking.check(settings, asking, utc_now)
    if write is not None:
        # The written file keeps the settings of the settings file in use, and the address.
        lasting = {key for key, origin in origins.items() if origin.endswith(".toml")} | {"api.base_url"}
        kept = {key: value_of(settings, key) for key in changed_keys(settings) if key in lasting}
        write_settings(write, {**kept, **checked.changes}, checked.findings, utc_now())
    call.answer(check_content(checked), checked_parts(checked))
    if write is not None:
        call.say(f"Written: {describe_file(write, checked)}")
    return EXIT_FAILED if needs_you(checked.findings) else EXIT_DONE


def _check_budget(settings: Settings, most: int) -> int:
    """Return the credits that may be spent; Stopped if `run.max_credits` is 0."""
    credits = most if settings.run.max_credits < 0 else min(most, settings.run.max_credits)
    if not credits:
        raise Stopped(
            "run.max_credits = 0 allows no company to be checked",
            "Raise it: a check costs at least one credit, once in 30 days",
        )
    return credits
