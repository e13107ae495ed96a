"""The command `explore`: a local web application over the warehouse."""

from __future__ import annotations

import click

from firmlake.cli.call import Call, command


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="Port on 127.0.0.1. Default: a free one."
)
@click.option("--no-browser", is_flag=True, help="Print the address without opening a browser.")
@command
def explore(call: Call, port: int, no_browser: bool) -> None:
    """Show the newest generation in a browser: portfolio, companies, groups, changes, alerts, SQL.

    The application only reads the warehouse, accepts connections from this machine only, and contacts no other host. It
    shows a new generation as soon as that is published. Needs the extra `explore`.
    """
    import webbrowser
    from functools import partial

    from firmlake.core.child import hidden_token
    from firmlake.core.folders import Folders
    from firmlake.explore.server import serve
    from firmlake.terminal.echo import echo

    open_page = (lambda address: None) if no_browser else webbrowser.open
    with hidden_token():  # a browser and the kernels of the application inherit the environment
        serve(Folders.existing(call.settings()), port, call.say, partial(echo, err=True), open_page)
