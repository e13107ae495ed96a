"""The command line: parse arguments, call the pipeline, show the result, end with a documented exit code.

Each command imports what it needs when it runs, so that `firmlake --help` answers at once.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click

from firmlake import __version__
from firmlake.cli.archive import archive
from firmlake.cli.around import config, sandbox
from firmlake.cli.changes import changes
from firmlake.cli.check import check
from firmlake.cli.company_lists import company_list
from firmlake.cli.export import export
from firmlake.cli.lists import contacts, service_lists
from firmlake.cli.look import company, query, report, status
from firmlake.cli.match import match
from firmlake.cli.prune import prune
from firmlake.cli.rebuild import replay, verify
from firmlake.cli.run import demo, plan, redrive, run
from firmlake.core.errors import EXIT_DONE, EXIT_USAGE
from firmlake.core.signals import catch_signals, exit_code_of_signal, ignore_signals
from firmlake.terminal.echo import Cleaned, echo_json

__all__ = ["firmlake", "main"]


def main() -> NoReturn:
    """Run the command line and end the process with its exit code."""
    catch_signals()
    try:
        code = firmlake.main(standalone_mode=False)
        ignore_signals()
    except click.exceptions.Exit as error:
        code = error.exit_code
    except click.ClickException as error:
        error.show(Cleaned())
        if "--json" in sys.argv:
            echo_json({"error": error.format_message(), "next_step": "--help shows the usage", "exit_code": EXIT_USAGE})
        code = EXIT_USAGE
    except (click.Abort, KeyboardInterrupt):
        code = exit_code_of_signal()
    except BrokenPipeError:
        # The reader of stdout has closed it, as `| head` does; that is not an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_DONE
    sys.exit(code if isinstance(code, int) else EXIT_DONE)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="firmlake")
def firmlake() -> None:
    """Enrich lists of companies: files in, exact Parquet and a DuckDB warehouse out.

    `firmlake demo` tries it on the embedded service: no key, no network.
    """


_FETCHING = (check, run, plan, redrive, demo)
_LOOKING = (status, query, changes, report, company)
_LISTS = (match, company_list, service_lists, contacts)
_KEEPING = (export, archive, replay, verify, prune)
for _each in (*_FETCHING, *_LOOKING, *_LISTS, *_KEEPING, sandbox, config):
    firmlake.add_command(_each)
