"""Rows as the output of a command: the options `--format` and `--out`, and where they lead."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from firmlake.cli.call import Call
from firmlake.core.errors import UsageError
from firmlake.terminal.echo import echo_data

of_list = click.option("--list", "company_list", default="", metavar="NAME", help="Only the companies of this list.")


def format_and_out(*formats: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options `--format`, for a table or one of these formats, and `--out` to a command."""
    kind = click.option(
        "--format",
        "kind",
        type=click.Choice(["table", *formats]),
        help="Output format. Default: by the ending of --out, else table.",
    )
    out = click.option(
        "--out", type=click.Path(path_type=Path), metavar="FILE", help="Write to a file instead of stdout."
    )
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


def give_rows(
    call: Call,
    noun: str,
    rows: Iterable[Any],
    as_text: Callable[[Iterable[Any]], Iterator[str]] | None,
    out: Path | None,
    show: Callable[[Any], object],
) -> None:
    """Write rows to a file, or print them.

    Args:
        call: The command.
        noun: What a row is, in the singular.
        rows: The rows.
        as_text: Yields the rows as text in parts; None for a table.
        out: The file; None prints the rows.
        show: Prints the rows as a table.
    """
    from firmlake.core.parts import write_parts
    from firmlake.core.text import count_of

    if as_text is None:
        show(rows)
    elif out:
        count = write_parts(out, rows, as_text)
        call.answer({f"{noun}s": count, "file": str(out)}, lambda: call.say(f"{count_of(count, noun)} in {out}"))
    else:
        for part in as_text(rows):
            echo_data(part)
