"""The command `archive`: copy landed answers to a folder or store that many machines can read."""

from __future__ import annotations

import click

from firmlake.cli.call import Call, command
from firmlake.terminal.echo import echo


@click.command()
@click.argument("target")
@command
def archive(call: Call, target: str) -> int:
    """Copy the landed answers of published runs to TARGET: a folder, or s3://, gs:// or az://.

    Files that TARGET already has are not changed. A damaged run is left out, and the output names it.
    `flows/replay.py` builds one warehouse from the archived runs of several data folders.
    """
    from firmlake.core.folders import Folders
    from firmlake.core.lock import lock
    from firmlake.delivery.destination import open_destination
    from firmlake.rebuild.archive import archive as start
    from firmlake.warehouse.exported import note_archive

    folders = Folders.existing(call.settings())
    destination = open_destination(target)
    with lock(folders, "firmlake archive"):
        note_archive(folders, destination.url)
        done = start(folders, destination, call.say)
    count = f"{len(done.runs)} {'run' if len(done.runs) == 1 else 'runs'}"
    damaged = [(run_id, error.message, error.next_step) for run_id, error in done.damaged.items()]
    call.answer(
        {**done._asdict(), "damaged": damaged, "archive": destination.url},
        lambda: echo(f"{count} archived in {destination.url}: {done.file_count:,} files, {done.byte_count:,} bytes"),
    )
    return call.name_damaged(done.damaged)
