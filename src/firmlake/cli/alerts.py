"""The command `alerts`: show the companies that meet a rule."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from pathlib import Path

import click

from firmlake.cli.call import Call, command
from firmlake.cli.output import choose_format, format_and_out, give_rows, of_list


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
@format_and_out("csv", "json")
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
    from firmlake.core.folders import Folders
    from firmlake.report.feed import ALERT_WRITERS, read_alerts
    from firmlake.terminal.alerts import show_alerts
    from firmlake.warehouse.generations import open_warehouse

    kind = choose_format(kind, out, call.as_json, ALERT_WRITERS)
    settings = call.settings()
    with open_warehouse(Folders.existing(settings), locked=True, company_list=company_list) as connection:
        found = read_alerts(connection, rules=rules, with_closed=with_closed, since=since and since.date())
    show = partial(show_alerts, has_rules=bool(settings.paths.alert_rules))
    give_rows(call, "alert", found, ALERT_WRITERS.get(kind), out, show)
