"""The command line: parse arguments, call the pipeline, show the result, and end with a documented exit code.

The module of a command is imported when it is called, and imports libraries only once what was typed is right: help and
mistakes are answered at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

import click

from firmlake import __version__
from firmlake.core.errors import EXIT_DONE, EXIT_FAILED, EXIT_SIGPIPE, EXIT_USAGE, from_system
from firmlake.core.process import catch_signals, exit_code_of_signal, ignore_signals
from firmlake.terminal.echo import Cleaned, echo, echo_json


def main() -> NoReturn:
    """Run the command line and end the process with its exit code."""
    _open_closed_streams()
    catch_signals()
    try:
        code = carry_out(sys.argv[1:])
        ignore_signals()
    except KeyboardInterrupt:
        code = exit_code_of_signal()
    sys.exit(end_output(code))


def carry_out(arguments: Sequence[str]) -> int:
    """Carry out a command, and return its exit code; what is wrong with the arguments is said as other errors are."""
    try:
        code = firmlake.main([*arguments], standalone_mode=False)
    except click.exceptions.Exit as error:
        code = error.exit_code
    except click.ClickException as error:
        error.show(Cleaned())
        if "--json" in arguments:
            echo_json({"error": error.format_message(), "next_step": "--help shows the usage", "exit_code": EXIT_USAGE})
        code = EXIT_USAGE
    except click.Abort:
        code = exit_code_of_signal()
    except OSError as error:  # of --help and the like; a command names its own
        code = EXIT_FAILED
        with suppress(OSError):
            echo(f"firmlake: {from_system(error)}", err=True)
    return code if isinstance(code, int) else EXIT_DONE


def _open_closed_streams() -> None:
    """Open the null device for standard streams that are closed (`>&-`).

    Python would have no stream, and the next file opened, such as the warehouse, would get the number of stdout.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - stays open until the process ends
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


def end_output(code: int) -> int:
    """Write what is left of the output, and return the exit code: not 0 if that is impossible.

    What cannot be written is dropped, because Python would try again and end with a code of its own (120).
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            code = code or (EXIT_SIGPIPE if isinstance(error, BrokenPipeError) else EXIT_FAILED)
    return code


_COMMANDS = {
    "Fetch": {
        "demo": ("fetch.demo", "Try firmlake on the embedded service, without a key"),
        "check": ("fetch.check", "Test every assumption about a service"),
        "plan": ("fetch.plan", "Show what `run LIST` would fetch and cost"),
        "run": ("fetch.run", "Fetch and publish what is missing for a list"),
        "redrive": ("fetch.redrive", "Fetch again everything that failed"),
        "company": ("fetch.company", "Fetch one company and print its data"),
    },
    "Inspect": {
        "status": ("look.status", "Show the last run, what is unfinished, what to do"),
        "query": ("query.query", "Query the warehouse with DuckDB SQL, read-only"),
        "changes": ("query.changes", "Show the changes that runs found"),
        "alerts": ("query.alerts", "Show the companies that meet an alert rule"),
        "report": ("look.report", "Write a report as one HTML file"),
        "explore": ("serve.explore", "Show the warehouse in a browser"),
        "mcp": ("serve.mcp", "Serve the warehouse to an assistant, read-only"),
    },
    "Lists": {
        "match": ("company_lists.match", "Find the company numbers for names in a register"),
        "list": ("company_lists.company_list", "Show, export, rename and remove company lists"),
        "service-lists": ("service_lists.service_lists", "Read the lists of the service into the warehouse"),
        "contacts": ("service_lists.contacts", "Add contacts to a static list of the service"),
    },
    "Export and maintain": {
        "export": ("delivery.export", "Export the newest generation to a folder or a store"),
        "load": ("delivery.load", "Load the newest generation into a database"),
        "archive": ("delivery.archive", "Copy the landed answers of published runs"),
        "publish": ("maintain.publish", "Release the generation that a gate holds back"),
        "replay": ("maintain.replay", "Rebuild the warehouse from the landed answers"),
        "verify": ("maintain.verify", "Check that answers, tables and warehouse agree"),
        "forget": ("forget.forget", "Erase a person, contact or company everywhere"),
        "prune": ("maintain.prune", "Remove old files and expired personal data"),
    },
    "Set up": {
        "config": ("serve.config", "Show or check the settings"),
        "sandbox": ("serve.sandbox", "Start the embedded service for developing a client"),
    },
}
"""By purpose: where each command is, and a summary that fits beside its name in 80 columns."""


class _Grouped(click.Group):
    def list_commands(self, _context: click.Context) -> list[str]:
        """List the names of all commands."""
        return list(chain.from_iterable(_COMMANDS.values()))

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        """Import a command."""
        place, _ = next((group[name] for group in _COMMANDS.values() if name in group), ("", ""))
        module, _, attribute = place.partition(".")
        return getattr(import_module(f"firmlake.cli.{module}"), attribute) if place else None

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands in their groups."""
        for title, commands in _COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name, summary) for name, (_, summary) in commands.items()], col_max=20)

    def invoke(self, context: click.Context) -> Any:
        """Run a command. If the reader of its output leaves, such as `| head`, end quietly, as after SIGPIPE.

        The exit code is not 0, because a command that writes its output while it works was not completed.
        """
        try:
            return super().invoke(context)
        except BrokenPipeError:
            return EXIT_SIGPIPE


@click.group(cls=_Grouped, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="firmlake")
def firmlake() -> None:
    """Enrich lists of companies with their accounts, growth and owners, in a DuckDB warehouse.

    To try it without a key, run `firmlake demo`: it enriches a sample list on the embedded service.
    """
