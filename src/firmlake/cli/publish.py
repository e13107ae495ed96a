"""The command `publish`: release the generation that a gate holds back."""

from __future__ import annotations

import click

from firmlake.cli.call import Call, command
from firmlake.terminal.echo import echo


@click.command()
@click.option("--anyway", is_flag=True, help="Release it although a gate fails.")
@command
def publish(call: Call, anyway: bool) -> None:
    """Release the generation that a gate holds back.

    Without --anyway, the rules of paths.gates judge it as they are now, and it is released if it meets them.
    """
    from firmlake.core.folders import Folders
    from firmlake.core.lock import lock
    from firmlake.warehouse.gates import judge_held
    from firmlake.warehouse.generations import find_held, list_generations, release
    from firmlake.warehouse.rules import read_gates

    settings = call.settings()
    folders, gates = Folders.existing(settings), read_gates(settings.paths.gates)
    if not (find_held(folders) or list_generations(folders)):
        call.answer({"released": None}, lambda: echo("No generation is held back"))
        return
    with lock(folders, "firmlake publish"):
        if not anyway and find_held(folders) and (error := judge_held(folders, gates, settings.run.duckdb_memory)):
            raise error
        released = release(folders)
    said = f"{released} is the newest generation now" if released else "No generation is held back"
    call.answer({"released": released and str(released)}, lambda: echo(said))
