"""The commands `export`, `load` and `archive`: bring what is published to files, a database or an archive."""

from __future__ import annotations

from typing import Literal

from firmlake.cli.call import Call, command, damaged_content
from firmlake.core.folders import Folders
from firmlake.core.text import count_of
from firmlake.core.work import lock
from firmlake.terminal.echo import echo_data


@command
def export(
    call: Call,
    target: str | None = None,
    *,
    file_format: str | None = None,
    changes: bool = False,
    as_of: str = "",
    company_list: str = "",
    tables: tuple[str, ...] = (),
    ddl: Literal["snowflake", "bigquery", "redshift", "databricks"] | None = None,
    dbt: bool = False,
) -> None:
    """Export the newest generation to TARGET: a folder, or s3://, gs:// or az://.

    An export that TARGET already has is not written again. Readers follow TARGET/latest.json, which always
    names a complete export.

    Args:
        file_format (--format [parquet|delta|iceberg|csv]): File format. Default: parquet. For workbooks: query SQL
            --out FILE.xlsx.
        changes: Only rows that changed since the last export to TARGET, each marked with its change.
        as_of (RUN): Export the warehouse as it was after RUN; does not change latest.json.
        company_list (--list NAME): Only the companies of this list; does not change latest.json.
        tables (NAME): Only this table; repeatable.
        ddl: Print the SQL script that creates the tables and loads this export.
        dbt: Print a dbt sources file for this export.
    """
    settings = call.settings(
        {
            "export.target": target,
            "export.format": file_format,
            "export.changes": "true" if changes else None,
            "export.tables": ",".join(tables) or None,
        }
    )
    from firmlake.delivery.deliver import deliver, export_request
    from firmlake.delivery.scripts import address_for, render_ddl, render_sources

    request = export_request(settings, as_of, company_list)
    if ddl:
        address_for(ddl, settings.export.target)  # refuses an address from which it cannot load
    done = deliver(Folders.existing(settings), request, call.say)
    call.say(done.describe())
    if ddl:
        echo_data(render_ddl(done.record, done.target, ddl))
    elif dbt:
        echo_data(render_sources(done.record))
    else:
        call.answer(done.content(), [f"{done.target}/exports/{done.record.delivery_id}"])


@command
def load(
    call: Call,
    target: str | None = None,
    *,
    schema: str | None = None,
    tables: tuple[str, ...] = (),
    whole: bool = False,
    take_over: bool = False,
) -> None:
    """Load the newest generation into the tables of TARGET.

    TARGET is postgres://HOST/DATABASE, snowflake://ACCOUNT/DATABASE, bigquery://PROJECT/DATASET or duckdb:FILE. Each
    driver finds the login where it usually does: ~/.pgpass, SNOWFLAKE_USER with a key file or SNOWFLAKE_PASSWORD,
    GOOGLE_APPLICATION_CREDENTIALS.

    The first load writes all rows. Later loads write only the rows that changed, and delete rows that are gone. If
    something else changed the tables, all rows are loaded again. Readers see either the previous load or this one.
    To resume an interrupted load, run the command again. A schema belongs to one data folder.

    Args:
        schema (NAME): Schema of the tables in TARGET. Default: firmlake.
        tables (NAME): Load only this table, and the tables that the schema already has; repeatable.
        whole: Compare all rows, not only those that changed since the last load.
        take_over: Replace what another data folder loaded into the schema.
    """
    settings = call.settings({"load.target": target, "load.schema": schema, "load.tables": ",".join(tables) or None})
    from firmlake.delivery.deliver import deliver, load_request

    request = load_request(settings, is_whole=whole, takes_over=take_over)
    done = deliver(Folders.existing(settings), request, call.say)
    call.tell(done.content(), [done.describe()])


@command
def archive(call: Call, target: str) -> int:
    """Copy the landed answers of published runs to TARGET: a folder, or s3://, gs:// or az://.

    Files that TARGET already has are not changed. A damaged run is left out, and the output names it.
    `flows/replay.py` builds one warehouse from the archived runs of several data folders.
    """
    folders = call.on_folder()[1]
    from firmlake.delivery.destination import open_destination
    from firmlake.rebuild.archive import archive as add_to_archive
    from firmlake.warehouse.exported import note_archive

    destination = open_destination(target)
    with lock(folders, "firmlake archive"):
        note_archive(folders, destination.url)
        done = add_to_archive(folders, destination, call.say)
    said = f"archived in {destination.url}: {done.file_count:,} files, {done.byte_count:,} bytes"
    content = {**done._asdict(), "damaged": damaged_content(done.damaged), "archive": destination.url}
    call.answer(content, [f"{count_of(len(done.runs), 'run')} {said}"])
    return call.name_damaged(done.damaged)
