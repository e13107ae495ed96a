"""The command `export`: write the warehouse to a folder, an object store or a table format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from firmlake.cli.call import Call, command
from firmlake.terminal.echo import echo, echo_data

if TYPE_CHECKING:
    from firmlake.delivery.deliver import Delivered
    from firmlake.delivery.destination import Destination

__all__ = ["export"]


@click.command()
@click.argument("target", required=False)
@click.option(
    "--format",
    "file_format",
    metavar="[parquet|delta|iceberg|csv]",
    help="File format. Default: parquet. For workbooks: query SQL --out FILE.xlsx.",
)
@click.option(
    "--changes",
    is_flag=True,
    default=None,
    help="Only rows that changed since the last export to TARGET, each marked with its change.",
)
@click.option("--as-of", metavar="RUN", help="Export the warehouse as it was after RUN; does not change latest.json.")
@click.option(
    "--list",
    "company_list",
    default="",
    metavar="NAME",
    help="Only the companies of this list; does not change latest.json.",
)
@click.option("--table", "tables", multiple=True, metavar="NAME", help="Only this table; repeatable.")
@click.option(
    "--ddl",
    type=click.Choice(["snowflake", "bigquery", "redshift", "databricks", "postgres"]),
    help="Print the SQL script that creates the tables and loads this export.",
)
@click.option("--dbt", is_flag=True, help="Print a dbt sources file for this export.")
@command
def export(call: Call, as_of: str | None, company_list: str, ddl: str | None, dbt: bool, **options: Any) -> None:
    """Export the newest generation to TARGET: a folder, or s3://, gs:// or az://.

    An export that TARGET already has is not written again. Readers follow TARGET/latest.json, which always
    names a complete export.
    """
    from firmlake.delivery.deliver import export_as_set

    settings = call.settings(
        export__target=options["target"],
        export__format=options["file_format"],
        export__changes=None if options["changes"] is None else "true",
        export__tables=",".join(options["tables"]) or None,
    )
    done, place = export_as_set(settings, as_of or "", call.say, company_list)
    _say(call, done, place)
    if ddl:
        from firmlake.delivery.scripts import render_ddl

        echo_data(render_ddl(done.record, place.url, ddl))
    elif dbt:
        from firmlake.delivery.dbt import render_sources

        echo_data(render_sources(done.record))
    else:
        call.answer(_content(done, place), lambda: echo(f"{place.url}/exports/{done.record.delivery_id}"))


def _say(call: Call, done: Delivered, place: Destination) -> None:
    if done.note:
        call.say(f"Exported whole: {done.note}")
    from firmlake.delivery.record import describe_rows

    made = done.record
    what = f"{describe_rows(made)}, up to {made.run_id}, generation {made.generation}"
    call.say(f"Exported: {what}" if done.is_new else f"Nothing to do: {place.url} already has this export ({what})")


def _content(done: Delivered, place: Destination) -> dict[str, Any]:
    made = done.record
    return {
        "target": place.url,
        "is_new": done.is_new,
        "note": done.note,
        "export_id": made.delivery_id,
        "mode": made.mode,
        "run_id": made.run_id,
        "generation": made.generation,
        "rows": {table.name: table.row_count for table in made.tables},
        "changes": {table.name: table.changes for table in made.tables if table.changes},
        "byte_count": made.byte_count,
    }
