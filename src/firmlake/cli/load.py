"""The command `load`: load the newest generation into the tables of another database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from firmlake.cli.call import Call, command
from firmlake.core.clock import utc_now

if TYPE_CHECKING:
    from firmlake.delivery.deliver import Delivered

__all__ = ["load"]


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
    from firmlake.delivery.deliver import load as carry_out
    from firmlake.delivery.deliver import load_request

    settings = call.settings(load__target=target, load__schema=schema, load__tables=",".join(tables) or None)
    request = load_request(settings, is_whole=whole, takes_over=take_over)
    done = carry_out(Folders.existing(settings), request, utc_now, call.say)
    call.answer(_content(done), lambda: call.say(done.describe()))


def _content(done: Delivered) -> dict[str, Any]:
    record = done.record
    return {
        "target": done.target,
        "is_new": done.is_new,
        "note": done.note,
        "load_id": record.delivery_id,
        "mode": record.mode,
        "run_id": record.run_id,
        "generation": record.generation,
        "rows": record.row_counts,
    }
