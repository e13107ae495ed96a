"""The argument LIST with the options `--sql` and `--map`, shared by the commands that read a company list."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from firmlake.cli.call import Call
from firmlake.core.errors import UsageError

_MAPPED = {"number": "number_column", "country": "country_column", "contact": "contact_column"}
"""The roles of `--map`, and the intake setting that each of them sets."""

map_option = click.option(
    "--map", "mapped", multiple=True, metavar="ROLE=COLUMN",
    help="Column to use as number, country or contact: its name, or its position from 1.",
)  # fmt: skip


def take_mapping(call: Call, mapped: tuple[str, ...]) -> None:
    """Set the intake settings that `--map` stands for."""
    for text in mapped:
        role, separator, column = text.partition("=")
        if not separator or role not in _MAPPED or not column:
            raise UsageError(
                f"--map {text} is not ROLE=COLUMN",
                f"ROLE is one of {', '.join(_MAPPED)}, for example --map number='Nr. klant'",
            )
        call.override(f"intake.{_MAPPED[role]}", column)


def on_list(*, keep: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the argument LIST, which need not be a file, and the options `--sql` and `--map` to a command.

    Args:
        keep: Whether a list from a pipe, a query or a store is kept in the data folder, so that a run can resume.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @click.argument("company_list", metavar="LIST", default="")
        @click.option("--sql", default="", metavar="QUERY", help="Use the result of a DuckDB query as the list.")
        @map_option
        @wraps(function)
        def wrapper(call: Call, company_list: str, sql: str, mapped: tuple[str, ...], **options: Any) -> Any:
            from firmlake.core.folders import Folders
            from firmlake.intake.source import local_list

            if not (company_list or sql):
                raise UsageError("LIST is missing", "Name a file, - for standard input, or a query with --sql")
            take_mapping(call, mapped)
            settings = call.settings()
            keep_in = Folders.of(settings).inputs if keep else None
            with local_list(company_list, sql, settings, keep_in) as path:
                if keep_in is not None and keep_in in path.parents:
                    call.say(f"The list is kept as {path}. To resume with exactly these lines, run that file")
                return function(call, path, **options)

        return wrapper

    return decorate
