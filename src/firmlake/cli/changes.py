"""The command `changes`: show the changes that runs found."""

from __future__ import annotations

from pathlib import Path

import click

from firmlake.cli.call import Call, command
from firmlake.core.errors import UsageError
from firmlake.terminal.echo import echo_data

__all__ = ["changes"]

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
@click.option("--list", "company_list", default="", metavar="NAME", help="Only the companies of this list.")
@click.option(
    "--format",
    "kind_of_file",
    type=click.Choice(["table", "csv", "json"]),
    help="Output format. Default: by the ending of --out, else table.",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write to a file instead of stdout.")
@command
def changes(
    call: Call,
    since: str | None,
    kinds: tuple[str, ...],
    company: str | None,
    company_list: str,
    kind_of_file: str | None,
    out: Path | None,
) -> None:
    """Show what runs found changed: accounts, names, parents, children, stakes, lookalikes, health, service lists."""
    from firmlake.core.folders import Folders
    from firmlake.core.memory import greater_limit
    from firmlake.core.parts import write_parts
    from firmlake.intake.identifiers import read_named_company
    from firmlake.report.feed import WRITERS, read_changes
    from firmlake.service_lists.load import LIST_KINDS
    from firmlake.terminal.runs import show_changes
    from firmlake.warehouse.generations import open_warehouse
    from firmlake.warehouse.kinds import KINDS

    kind_of_file = kind_of_file or _by_ending(out, list(WRITERS)) or ("json" if call.as_json else "table")
    known = (*KINDS, *LIST_KINDS)
    if unknown := set(kinds).difference(known):
        raise UsageError(f"--kind {min(unknown)} does not exist", f"The kinds are {', '.join(known)}")
    if out and kind_of_file not in WRITERS:
        raise UsageError(f"{out}: unknown file extension", f"Add --format with one of {', '.join(WRITERS)}")
    wanted = read_named_company(company) if company else None
    settings = call.settings()
    limit = greater_limit(_MEMORY, settings.run.duckdb_memory)
    with open_warehouse(
        Folders.existing(settings), locked=True, memory_limit=limit, company_list=company_list
    ) as connection:
        events = read_changes(connection, since, kinds, wanted, has_lists=not company_list)
        if out:
            count = write_parts(out, events, WRITERS[kind_of_file])
            noun = "event" if count == 1 else "events"
            call.answer({"events": count, "file": str(out)}, lambda: call.say(f"{count:,} {noun} in {out}"))
        elif kind_of_file == "table":
            show_changes(events)
        else:
            for part in WRITERS[kind_of_file](events):
                echo_data(part)


def _by_ending(out: Path | None, formats: list[str]) -> str | None:
    ending = out.suffix.removeprefix(".") if out else ""
    return ending if ending in formats else None
