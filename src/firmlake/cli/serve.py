"""The commands `explore`, `mcp` and `sandbox`, which serve until they are ended, and `config`."""

from __future__ import annotations

import os
import subprocess
import sys
import webbrowser
from functools import partial
from typing import Annotated

import click

from firmlake.cli.call import Call, command
from firmlake.core.process import hidden_token, without_token
from firmlake.core.settings import Settings, changed_keys
from firmlake.core.settings_layers import render_toml, without_passwords
from firmlake.terminal.echo import echo, echo_data


@command
def explore(call: Call, *, port: Annotated[int, click.IntRange(0, 65535)] = 0, no_browser: bool = False) -> None:
    """Show the newest generation in a browser: portfolio, companies, groups, changes, alerts, SQL.

    The application only reads the warehouse, accepts connections from this machine only, and contacts no other host. It
    shows a new generation as soon as that is published. Needs the extra `explore`.

    Args:
        port (N): Port on 127.0.0.1. Default: a free one.
        no_browser: Print the address without opening a browser.
    """
    from firmlake.explore.server import serve

    open_page = (lambda address: None) if no_browser else webbrowser.open
    with hidden_token():  # a browser and the kernels of the application inherit the environment
        serve(call.on_folder()[1], port, partial(echo, err=True), open_page)


@command
def mcp(call: Call) -> None:
    """Serve the newest generation to an assistant over stdio (Model Context Protocol), read-only.

    Its tools query, describe, company and changes read the warehouse and nothing else: they send no request, and cost
    no credit. Answers are bounded in rows, bytes and time. Needs the extra `mcp`.
    """
    folders = call.on_folder()[1]
    from firmlake.explore.assistant import make_server  # needs the extra

    with hidden_token():
        make_server(folders).run("stdio")


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def sandbox(options: tuple[str, ...]) -> int:
    """Start the embedded service for developing a client; `firmlake sandbox --help` lists its options."""
    command_line = [sys.executable, "-P", "-m", "firmlake_sandbox", *options]
    code = subprocess.call(command_line, env=without_token(os.environ))  # noqa: S603 - our own module
    return code if code >= 0 else 128 - code  # as a shell reports a signal


@command
def show(call: Call, *, defaults: bool = False) -> None:
    """Print every setting, its value and its origin.

    The origin is the default, a settings file, an environment variable or an option.

    Args:
        defaults: Print the defaults, as in config/firmlake.toml.
    """
    settings, origins = (Settings(), {}) if defaults else call.settings_with_origins()
    settings = without_passwords(settings)
    if call.as_json:
        call.answer(settings, ())
    else:
        echo_data(render_toml(settings, origins))


@command
def check(call: Call) -> None:
    """Check the settings, and list those that differ from the defaults."""
    settings, _ = call.settings_with_origins()
    changed = changed_keys(settings)
    differ = ", ".join(changed) or "none"
    call.answer({"changed": changed}, [f"The settings are valid. Changed from the defaults: {differ}"])


config = click.Group("config", commands=[show, check], help="Show or check the settings.")
