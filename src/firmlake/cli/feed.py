"""The commands `changes` and `alerts`: what runs found, and the companies that meet a rule."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from pathlib import Path

import click

from firmlake.cli.call import Call, command
from firmlake.cli.options import choose_format, format_and_out, give_result, of_list
from firmlake.core.errors import UsageError

_FORMATS = ("csv", "json")
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
@format_and_out(*_FORMATS)
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
    from firmlake.core.memory import greater_limit
    from firmlake.intake.identifiers import read_named_company
    from firmlake.report.feed import query_changes
    from firmlake.service_lists.load import LIST_KINDS
    from firmlake.terminal.runs import show_changes
    from firmlake.warehouse.changes import KINDS
    from firmlake.warehouse.generations import open_warehouse

    kind = choose_format(kind, out, call.as_json, _FORMATS)
    known = (*KINDS, *LIST_KINDS)
    if unknown := set(kinds).difference(known):
        raise UsageError(f"--kind {min(unknown)} does not exist", f"The kinds are {', '.join(known)}")
    wanted = read_named_company(company) if company else None
    settings, folders = call.on_folder()
    limit = greater_limit(_MEMORY, settings.run.duckdb_memory)
    with open_warehouse(folders, locked=True, memory_limit=limit, company_list=company_list) as connection:
        is_table, has_lists = kind == "table", not company_list
        found = query_changes(connection, since, kinds, wanted, has_lists=has_lists, in_words=is_table)
        give_result(call, "event", found, kind, out, show_changes)


@click.command()
@of_list
@click.option("--rule", "rules", multiple=True, metavar="RULE", help="Only alerts of this rule; repeatable.")
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="Only alerts that were opened on this day (UTC) or later; with --all, also those closed since then.",
)
@click.option("--all", "with_closed", is_flag=True, help="Include closed alerts.")
@format_and_out(*_FORMATS)
@command
def alerts(
    call: Call,
    company_list: str,
    rules: tuple[str, ...],
    since: datetime | None,
    with_closed: bool,
    kind: str | None,
    out: Path | None,
) -> None:
    """Show alerts: the companies that meet a rule, with the evidence.

    The setting paths.alert_rules names the file of rules; without one there are no alerts. config/watch.toml is an
    example to start from. Each run evaluates the rules as they were when it was planned.
    """
    from firmlake.report.feed import query_alerts
    from firmlake.terminal.runs import show_alerts
    from firmlake.warehouse.generations import open_warehouse

    kind = choose_format(kind, out, call.as_json, _FORMATS)
    settings, folders = call.on_folder()
    with open_warehouse(folders, locked=True, company_list=company_list) as connection:
        found = query_alerts(connection, rules=rules, with_closed=with_closed, since=since and since.date())
        has_rules = bool(settings.paths.alert_rules)
        give_result(call, "alert", found, kind, out, partial(show_alerts, has_rules=has_rules))
