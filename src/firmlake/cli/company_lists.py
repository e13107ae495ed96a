"""The commands `list show`, `rename`, `remove` and `export`, and the options that write a list to a file."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from firmlake.cli.call import PATH, Call, command
from firmlake.core.clock import utc_now
from firmlake.core.errors import UsageError

if TYPE_CHECKING:
    from firmlake.delivery.list_file import FileBack

F = TypeVar("F", bound=Callable[..., Any])


def _help_columns(context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """For `--columns help`, print the columns that can be added, and end the command."""
    if value == "help":
        from firmlake.delivery.list_file import list_added
        from firmlake.terminal.company_lists import show_addable

        show_addable(list_added())
        context.exit()
    return value


def file_options(function: F) -> F:
    """Add the options `--out` and `--columns` to a command."""
    out = click.option(
        "--out",
        type=PATH,
        metavar="FILE",
        help="Write the list with the figures of its companies to FILE: .xlsx, .csv or .parquet.",
    )
    columns = click.option(
        "--columns",
        metavar="NAME,...",
        callback=_help_columns,
        is_eager=True,
        help="Columns that --out adds to the list; `--columns help` shows all of them.",
    )
    return out(columns(function))


def file_back(out: Path | None, columns: str | None) -> FileBack | None:
    """Return the file that a list is written to, and the columns to add; None without `--out`."""
    from firmlake.delivery.list_file import FileBack

    if out is None and columns:
        raise UsageError("--columns needs --out, because it chooses the columns of that file", "Add --out FILE")
    names = tuple(name.strip() for name in (columns or "").split(",") if name.strip())
    return FileBack(out, names) if out else None


@click.group("list")
def company_list() -> None:
    """Show, export, rename and remove company lists."""


@company_list.command()
@click.argument("name", required=False)
@command
def show(call: Call, name: str | None) -> None:
    """Show all lists. With NAME, show the status of its lines, and which companies joined or left most recently."""
    from firmlake.terminal.company_lists import show_company_list, show_company_lists
    from firmlake.warehouse.generations import open_warehouse
    from firmlake.warehouse.list_names import read_list_overview, read_list_status

    with open_warehouse(call.on_folder()[1]) as connection:
        if name is None:
            lists = read_list_overview(connection)
            call.answer(lists, lambda: show_company_lists(lists))
        else:
            content = read_list_status(connection, name)
            call.answer(content, lambda: show_company_list(content))


@company_list.command()
@click.argument("name")
@click.argument("file", required=False, type=PATH)
@file_options
@command
def export(call: Call, name: str, file: Path | None, out: Path | None, columns: str | None) -> None:
    """Write a list to a file. Sends no request.

    FILE (or --out FILE) gets every line of list NAME, with the data of its company.
    """
    from firmlake.delivery.list_file import write_list
    from firmlake.terminal.company_lists import describe_written

    if file is not None and out is not None:
        raise UsageError(f"Two files are named: {file} and --out {out}", "Name only one")
    wanted = file_back(out or file, columns)
    if wanted is None:
        raise UsageError("No file is named", "Add --out FILE: .xlsx, .csv or .parquet")
    settings, folders = call.on_folder()
    written = write_list(folders, name, wanted, settings.run.duckdb_memory)

    def tell() -> None:
        for line in describe_written(written):
            call.say(line)

    content = {"file": str(written.path), "line_count": written.line_count, "renamed": written.renamed}
    call.answer(content, tell)


@company_list.command()
@click.argument("name")
@click.argument("new_name")
@command
def rename(call: Call, name: str, new_name: str) -> None:
    """Rename list NAME, with its history, to NEW_NAME. Later runs need --list-name, or a file of that name."""
    _change(call, name, new_name)


@company_list.command()
@click.argument("name")
@command
def remove(call: Call, name: str) -> None:
    """Remove list NAME, with its history, from the warehouse. The data of its companies stays."""
    _change(call, name, "")


def _change(call: Call, name: str, new_name: str) -> None:
    from firmlake.core.lock import lock
    from firmlake.rebuild.rename_list import change_name

    settings, folders = call.on_folder()
    with lock(folders, f"firmlake list {'rename' if new_name else 'remove'}"):
        was = change_name(folders, settings.run, name, new_name, utc_now)
    if new_name:
        needed = f"--list-name {shlex.quote(new_name)}"
        said = f"List {was} is now {new_name}. Later runs need {needed}; otherwise they add {was} again"
    else:
        said = f"List {was} is removed; the data of its companies stays"
    call.answer({"list": was, "new_name": new_name}, lambda: call.say(said))
