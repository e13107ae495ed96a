"""The commands `export` and `load`: bring the newest generation to files, a table format or another database."""

from __future__ import annotations

from typing import Any

import click

from firmlake.cli.call import Call, command
from firmlake.core.errors import UsageError
from firmlake.terminal.echo import echo, echo_data


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
    metavar="[snowflake|bigquery|redshift|databricks]",
    help="Print the SQL script that creates the tables and loads this export.",
)
@click.option("--dbt", is_flag=True, help="Print a dbt sources file for this export.")
@command
def export(call: Call, as_of: str | None, company_list: str, ddl: str | None, dbt: bool, **options: Any) -> None:
    """Export the newest generation to TARGET: a folder, or s3://, gs:// or az://.

    An export that TARGET already has is not written again. Readers follow TARGET/latest.json, which always
    names a complete export.
    """
    from firmlake.core.folders import Folders
    from firmlake.delivery.deliver import deliver, export_request
    from firmlake.delivery.scripts import render_ddl, render_sources

    if ddl == "postgres":
        raise UsageError(
            "There is no script for PostgreSQL any more",
            "Run `firmlake load postgres://HOST/DATABASE`, which creates and fills the tables",
        )
    settings = call.settings(
        {
            "export.target": options["target"],
            "export.format": options["file_format"],
            "export.changes": None if options["changes"] is None else "true",
            "export.tables": ",".join(options["tables"]) or None,
        }
    )
    request = export_request(settings, as_of or "", company_list)
    done = deliver(Folders.existing(settings), request, call.say)
    call.say(done.describe())
    if ddl:
        echo_data(render_ddl(done.record, done.target, ddl))
    elif dbt:
        echo_data(render_sources(done.record))
    else:
        call.answer(done.content(), lambda: echo(f"{done.target}/exports/{done.record.delivery_id}"))


@click.command()
@click.argument("target", required=False)
@click.option("--schema", metavar="NAME", help="Schema of the tables in TARGET. Default: firmlake.")
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="NAME",
    help="Load only this table, and the tables that the schema already has; repeatable.",
)
@click.option("--whole", is_flag=True, help="Compare all rows, not only those that changed since the last load.")
@click.option("--take-over", is_flag=True, help="Replace what another data folder loaded into the schema.")
@command
def load(
    call: Call, target: str | None, schema: str | None, tables: tuple[str, ...], whole: bool, take_over: bool
) -> None:
    """Load the newest generation into the tables of TARGET.

    TARGET is postgres://HOST/DATABASE, snowflake://ACCOUNT/DATABASE, bigquery://PROJECT/DATASET or duckdb:FILE. Each
    driver finds the login where it usually does: ~/.pgpass, SNOWFLAKE_USER with a key file or SNOWFLAKE_PASSWORD,
    GOOGLE_APPLICATION_CREDENTIALS.

    The first load writes all rows. Later loads write only the rows that changed, and delete rows that are gone. If
    something else changed the tables, all rows are loaded again. Readers see either the previous load or this one.
    To resume an interrupted load, run the command again. A schema belongs to one data folder.
    """
    from firmlake.core.folders import Folders
    from firmlake.delivery.deliver import deliver, load_request

    settings = call.settings({"load.target": target, "load.schema": schema, "load.tables": ",".join(tables) or None})
    request = load_request(settings, is_whole=whole, takes_over=take_over)
    done = deliver(Folders.existing(settings), request, call.say)
    call.answer(done.content(), lambda: call.say(done.describe()))
