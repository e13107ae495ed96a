"""The command `alerts`: show the companies that meet a rule."""

from __future__ import annotations

from pathlib import Path

import click

from firmlake.cli.call import Call, command
from firmlake.core.errors import UsageError
from firmlake.terminal.echo import echo_data

__all__ = ["alerts"]


@click.command()
@click.option("--list", "company_list", default="", metavar="NAME", help="Only the companies of this list.")
@click.option("--rule", "rules", multiple=True, metavar="RULE", help="Only alerts of this rule; repeatable.")
@click.option("--all", "with_closed", is_flag=True, help="Include closed alerts.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["table", "csv", "json"]),
    help="Output format. Default: by the ending of --out, else table.",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write to a file instead of stdout.")
@command
def alerts(
    call: Call, company_list: str, rules: tuple[str, ...], with_closed: bool, kind: str | None, out: Path | None
) -> None:
    """Show alerts: the companies that meet a rule, with the evidence.

    The setting paths.alert_rules names the file of rules; without one there are no alerts. config/watch.toml is an
    example to start from. Each run evaluates the rules as they were when it was planned.
    """
    from firmlake.core.files import write_file
    from firmlake.core.folders import Folders
    from firmlake.core.text import count_of
    from firmlake.report.alerts import WRITERS, read_alerts
    from firmlake.terminal.alerts import show_alerts
    from firmlake.warehouse.generations import open_warehouse

    ending = out.suffix.removeprefix(".") if out else ""
    kind = kind or (ending if ending in WRITERS else None) or ("json" if call.as_json else "table")
    if out and kind not in WRITERS:
        raise UsageError(f"{out}: unknown file extension", f"Add --format with one of {', '.join(WRITERS)}")
    settings = call.settings()
    with open_warehouse(Folders.existing(settings), locked=True, company_list=company_list) as connection:
        found = read_alerts(connection, rules=rules, with_closed=with_closed)
    if out:
        text = WRITERS[kind](found)
        write_file(out, lambda aside: aside.write_text(text, encoding="utf-8", newline=""))
        told = f"{count_of(len(found), 'alert')} in {out}"
        call.answer({"alerts": len(found), "file": str(out)}, lambda: call.say(told))
    elif kind == "table":
        show_alerts(found, has_rules=bool(settings.paths.alert_rules))
    else:
        echo_data(WRITERS[kind](found))
