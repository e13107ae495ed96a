"""`python -m firmlake_sandbox`: bind, print the address as one line of JSON, serve."""

import argparse
import asyncio
import ipaddress
import json
import os
import select
import signal
import socket
import sys
import threading
import tomllib
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from firmlake_sandbox.options import Options, change_options

_LOOK_EVERY_SECONDS = 0.5
_TOKEN_VARIABLE = "FIRMLAKE_SANDBOX_TOKEN"  # noqa: S105 - a name
_DEFAULT_TOKEN = "sandbox"  # noqa: S105 - guards nothing


def exit_on_signals() -> None:
    """Make SIGTERM and SIGINT end the process at once, with exit code 0: it holds nothing worth saving."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))


def exit_with_parent(parent: int) -> None:
    """Exit when standard input closes, or when this process no longer has this parent."""
    while os.getppid() == parent:
        is_readable, _, _ = select.select([0], [], [], _LOOK_EVERY_SECONDS)
        if is_readable and not os.read(0, 65_536):
            break
    os._exit(0)


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket on this machine's loopback; port 0 is any free one."""
    address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    if not address.is_loopback:
        raise ValueError(f"{host} is not loopback: the sandbox serves this machine alone")
    # The protocol is named because asyncio turns Nagle's delay off only where it is: 40 ms an answer otherwise.
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((str(address), port))
    except (OverflowError, OSError):
        listener.close()
        raise
    listener.listen(2048)
    return listener


def main() -> int:
    """Start the service; return the exit code where it could not."""
    arguments = vars(_parser().parse_args())
    if "help" in (arguments["dialect"] or ()):
        from firmlake_sandbox.dialects import describe_dialects

        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it quietly
        sys.stdout.write(describe_dialects())
        return 0
    host, port = arguments.pop("host"), arguments.pop("port")
    book, is_bound = arguments.pop("paid"), arguments.pop("exit_with_parent")
    try:
        options = change_options(Options(), {name: value for name, value in arguments.items() if value is not None})
    except msgspec.ValidationError as error:
        return _refuse(str(error))

    exit_on_signals()
    if is_bound:
        threading.Thread(target=exit_with_parent, args=(os.getppid(),), daemon=True).start()

    from firmlake_sandbox.service import answer_call  # only now: --help needs none of it
    from firmlake_sandbox.state import State
    from firmlake_sandbox.wire import serve

    try:
        listener = bind(host, port)
    except (ValueError, OverflowError, OSError) as error:
        return _refuse(str(error))
    if _TOKEN_VARIABLE not in os.environ:
        sys.stderr.write(f"{_TOKEN_VARIABLE} is not set: the token is {_DEFAULT_TOKEN!r}\n")
    tokens = tuple(filter(None, os.environ.get(_TOKEN_VARIABLE, "").split(","))) or (_DEFAULT_TOKEN,)
    app = partial(answer_call, State(options, tokens, book))
    shown = f"[{host}]" if ":" in host else host
    base_url = f"http://{shown}:{listener.getsockname()[1]}"
    sys.stdout.write(json.dumps({"base_url": base_url, "pid": os.getpid()}) + "\n")
    sys.stdout.flush()
    asyncio.run(serve(app, listener))
    return 0


def _refuse(message: str) -> int:
    sys.stderr.write(f"firmlake_sandbox: {message}\n")
    return 2


def _parser() -> argparse.ArgumentParser:
    """Make the parser: how to serve from here, what to serve from `Options`."""
    form = argparse.RawDescriptionHelpFormatter
    description, _, epilog = files(__package__).joinpath("help.txt").read_text("utf-8").partition("\n\n")
    parser = argparse.ArgumentParser("firmlake sandbox", description=description, epilog=epilog, formatter_class=form)
    parser.add_argument("--host", default="127.0.0.1", help="loopback address to serve on [127.0.0.1]")
    parser.add_argument("--port", type=int, default=0, help="port to serve on; 0 takes a free one [0]")
    parser.add_argument(
        "--exit-with-parent", action="store_true", help="exit when standard input closes or the parent process ends"
    )
    parser.add_argument("--paid", type=Path, metavar="FILE", help="file that remembers charges across restarts [none]")
    service = parser.add_argument_group(
        "service (POST /_sandbox/options changes them too, with underscores in the names)"
    )
    texts = tomllib.loads(files(__package__).joinpath("options.toml").read_text("utf-8"))
    for name, schema in msgspec.json.schema(Options)["$defs"]["Options"]["properties"].items():
        default = schema["default"]
        reads: dict[str, Any] = {"action": "append", "metavar": "NAME"}
        if isinstance(default, bool):
            reads = {"action": argparse.BooleanOptionalAction, "default": None}
        elif isinstance(default, int):
            reads = {"type": int, "metavar": "N"}
        elif "enum" in schema:
            reads = {"choices": schema["enum"]}
        text = f"{texts[name]} [{'none' if default == () else default}]".replace("%", "%%")
        service.add_argument("--" + name.replace("_", "-"), help=text, **reads)
    return parser


if __name__ == "__main__":
    sys.exit(main())
