"""The command `explore`: a local web application over the warehouse."""

from __future__ import annotations

import click

from firmlake.cli.call import Call, command

__all__ = ["explore"]


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="Port on 127.0.0.1. Default: a free one."
)
@click.option("--no-browser", is_flag=True, help="Only print the address; open no browser.")
@command
def explore(call: Call, port: int, no_browser: bool) -> None:
    """Look at the newest generation in a browser: portfolio, companies, groups, changes, alerts, SQL.

    The application is read-only, answers only on this machine, and contacts no other host. It shows each newly
    published generation without a restart. Needs the extra `explore`.
    """
    import webbrowser

    from firmlake.core.folders import Folders
    from firmlake.explore.server import serve

    open_page = (lambda address: None) if no_browser else webbrowser.open
    serve(Folders.existing(call.settings()), port, call.say, open_page)
