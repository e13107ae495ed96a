"""What commands that read a list have in common: where it comes from, and which of its columns are read."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from firmlake.cli.call import Call
from firmlake.core.errors import UsageError

__all__ = ["map_option", "on_list", "take_mapping"]

_MAPPED = {"number": "number_column", "country": "country_column", "contact": "contact_column"}
"""What can be mapped, and the setting of the intake it stands for."""

map_option = click.option(
    "--map", "mapped", multiple=True, metavar="ROLE=COLUMN",
    help="Name the column (or its position from 1, where there is no header) of number or country.",
)  # fmt: skip


def take_mapping(call: Call, mapped: tuple[str, ...]) -> None:
    """Take `--map number=COLUMN` for the settings it stands for."""
    for text in mapped:
        role, separator, column = text.partition("=")
        if not separator or role not in _MAPPED or not column:
            raise UsageError(
                f"--map {text} is not ROLE=COLUMN",
                f"ROLE is one of {', '.join(_MAPPED)}, for example --map number='Nr. klant'",
            )
        call.override(f"intake.{_MAPPED[role]}", column)


def on_list(*, keep: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the argument LIST, which may be more than a file, with `--sql` and `--map`.

    Args:
        keep: Whether what comes from a pipe, a query or a store is kept in the data folder, so that a run resumes.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @click.argument("company_list", metavar="LIST", default="")
        @click.option("--sql", default="", metavar="QUERY", help="Take the result of a DuckDB query for the list.")
        @map_option
        @wraps(function)
        def wrapper(call: Call, company_list: str, sql: str, mapped: tuple[str, ...], **options: Any) -> Any:
            from firmlake.intake.source import local_list

            if not (company_list or sql):
                raise UsageError("LIST is missing", "Name a file, - for standard input, or a query with --sql")
            take_mapping(call, mapped)
            settings = call.settings()
            keep_in = Path(settings.paths.data) / "state" / "inputs" if keep else None
            with local_list(company_list, sql, settings, keep_in) as path:
                if keep_in is not None and keep_in in path.parents:
                    call.say(f"The list is kept as {path}: run that to go on with exactly these lines")
                return function(call, path, **options)

        return wrapper

    return decorate
