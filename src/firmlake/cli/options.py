"""Options that several commands share: a list as the source, a list back in a file, rows in a format."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from firmlake.cli.call import PATH, Call
from firmlake.core.errors import UsageError
from firmlake.terminal.echo import echo_data

if TYPE_CHECKING:
    import duckdb

_MAPPED = {"number": "number_column", "country": "country_column", "contact": "contact_column"}
"""The roles of `--map`, and the intake setting that each of them sets."""

map_option = click.option(
    "--map", "mapped", multiple=True, metavar="ROLE=COLUMN",
    help="Column to use as number, country or contact: its name, or its position from 1.",
)  # fmt: skip


def read_mapping(mapped: Iterable[str], roles: Collection[str], example: str) -> dict[str, str]:
    """Read the values of `--map`, such as `number=2`, into columns by role."""
    columns = {}
    for text in mapped:
        role, _, column = text.partition("=")
        if role not in roles or not column:
            raise UsageError(
                f"--map {text} is not ROLE=COLUMN", f"ROLE is one of {', '.join(roles)}, for example --map {example}"
            )
        columns[role] = column
    return columns


def take_mapping(call: Call, mapped: tuple[str, ...]) -> None:
    """Set the intake settings that `--map` stands for."""
    for role, column in read_mapping(mapped, _MAPPED, "number='Nr. klant'").items():
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


of_list = click.option("--list", "company_list", default="", metavar="NAME", help="Only the companies of this list.")


def format_and_out(*formats: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options `--format`, for a table or one of these formats, and `--out` to a command."""
    kind = click.option(
        "--format",
        "kind",
        type=click.Choice(["table", *formats]),
        help="Output format. Default: by the ending of --out, else table.",
    )
    out = click.option("--out", type=PATH, metavar="FILE", help="Write to a file instead of stdout.")
    return lambda function: kind(out(function))


def choose_format(kind: str | None, out: Path | None, as_json: bool, formats: Collection[str]) -> str:
    """Choose "table" or one of these formats by `--format`, the ending of `--out` and `--json`, in this order.

    Raises:
        UsageError: A file cannot have the chosen format.
    """
    ending = out.suffix.removeprefix(".") if out else ""
    ending = {"md": "markdown"}.get(ending, ending)
    chosen = kind or (ending if ending in formats else "") or ("json" if as_json else "table")
    if out and chosen not in formats:
        raise UsageError(f"--out {out}: unknown file extension", f"Add --format with one of {', '.join(formats)}")
    return chosen


def give_result(
    call: Call,
    noun: str,
    cursor: duckdb.DuckDBPyConnection,
    kind: str,
    out: Path | None,
    show: Callable[[Sequence[str], Iterable[Any]], object],
) -> None:
    """Write the result of a query to a file, or print it.

    Args:
        call: The command.
        noun: What a row is, in the singular.
        cursor: The result. Its rows are read when they are needed.
        kind: "table" or one of `terminal.results.FORMATS`.
        out: The file; None prints the rows.
        show: Prints columns and rows as a table.
    """
    from firmlake.core.parts import read_rows, write_parts
    from firmlake.core.text import count_of
    from firmlake.terminal.results import FORMATS

    columns, rows = [column[0] for column in cursor.description or ()], read_rows(cursor)
    if kind not in FORMATS:
        show(columns, rows)
    elif out:
        count = write_parts(out, rows, partial(FORMATS[kind], columns))
        call.answer({f"{noun}s": count, "file": str(out)}, lambda: call.say(f"{count_of(count, noun)} in {out}"))
    else:
        for part in FORMATS[kind](columns, rows):
            echo_data(part)
