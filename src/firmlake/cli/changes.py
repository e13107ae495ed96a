"""The command `changes`: show the changes that runs found."""

from __future__ import annotations

from pathlib import Path

import click

from firmlake.cli.call import Call, command
from firmlake.cli.output import choose_format, format_and_out, give_rows, of_list
from firmlake.core.errors import UsageError

_MEMORY = "400MB"
"""DuckDB can sort ten million events on disk within this memory limit; with less, two million were too many."""


@click.command()
@click.option(
    "--since",
    metavar="RUN|DATE",
    help="Only changes found after this run or time (UTC). Default: the last run and the last `service-lists`.",
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="KIND",
    help="Only changes of this kind, such as period_restated; repeatable.",
)
@click.option("--company", metavar="NUMBER", help='Only this company, such as "BE 0403.091.220".')
@of_list
@format_and_out("csv", "json")
@command
def changes(
    call: Call,
    since: str | None,
    kinds: tuple[str, ...],
    company: str | None,
    company_list: str,
    kind: str | None,
    out: Path | None,
) -> None:
    """Show what runs found changed: accounts, names, parents, children, stakes, lookalikes, health, service lists."""
    from firmlake.core.folders import Folders
    from firmlake.core.memory import greater_limit
    from firmlake.intake.identifiers import read_named_company
    from firmlake.report.feed import EVENT_WRITERS, read_changes
    from firmlake.service_lists.load import LIST_KINDS
    from firmlake.terminal.runs import show_changes
    from firmlake.warehouse.changes import KINDS
    from firmlake.warehouse.generations import open_warehouse

    kind = choose_format(kind, out, call.as_json, EVENT_WRITERS)
    known = (*KINDS, *LIST_KINDS)
    if unknown := set(kinds).difference(known):
        raise UsageError(f"--kind {min(unknown)} does not exist", f"The kinds are {', '.join(known)}")
    wanted = read_named_company(company) if company else None
    settings = call.settings()
    limit = greater_limit(_MEMORY, settings.run.duckdb_memory)
    with open_warehouse(
        Folders.existing(settings), locked=True, memory_limit=limit, company_list=company_list
    ) as connection:
        events = read_changes(connection, since, kinds, wanted, has_lists=not company_list)
        give_rows(call, "event", events, EVENT_WRITERS.get(kind), out, show_changes)
