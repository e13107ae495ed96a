"""The command `mcp`: the warehouse for assistants, over stdio."""

from __future__ import annotations

import click

from firmlake.cli.call import Call, command


@click.command()
@command
def mcp(call: Call) -> None:
    """Serve the newest generation to an assistant over stdio (Model Context Protocol), read-only.

    Its tools query, describe, company and changes read the warehouse and nothing else: they send no request, and cost
    no credit. Answers are bounded in rows, bytes and time. Needs the extra `mcp`.
    """
    from firmlake.core.child import hidden_token
    from firmlake.core.folders import Folders

    folders = Folders.existing(call.settings())
    from firmlake.explore.assistant import make_server  # needs the extra

    with hidden_token():
        make_server(folders).run("stdio")
