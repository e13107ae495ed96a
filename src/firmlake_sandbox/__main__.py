"""`python -m firmlake_sandbox`: bind, say where in one line of JSON, serve."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from firmlake_sandbox.dialects import describe_dialects
from firmlake_sandbox.lifetime import exit_on_signals, exit_with_parent
from firmlake_sandbox.options import Options, change_options

TOKEN_VARIABLE = "FIRMLAKE_SANDBOX_TOKEN"  # noqa: S105 - a name
DEFAULT_TOKEN = "sandbox"  # noqa: S105 - guards nothing

_DESCRIPTION = """\
A stand-in for the company-data service: all eight endpoints, on this machine alone, from a made-up world in which
any well-formed company number (BE, NL, FR) has the same answer every time. Prints one line of JSON with its address,
then serves until SIGTERM or Ctrl-C.
"""

_EPILOG = """\
token:
  Every request carries `Authorization: Bearer TOKEN`. The token comes from the environment variable
  FIRMLAKE_SANDBOX_TOKEN (default: sandbox); several, separated by commas, are let in with an allowance each.
  A token followed by -forbidden is answered 403, any other 401.

dialects:
  --dialect NAME makes it a service that differs wherever the specification leaves something open, and may be given
  several times; `--dialect help` lists them, `--dialect seed:7` is a combination. /openapi.json describes the service
  without dialects, and faults are scripted in its words.

try it:
  curl -H 'Authorization: Bearer sandbox' BASE_URL/v1/companies/BE/403227515/financials?limit=2
  curl -H 'Authorization: Bearer sandbox' BASE_URL/v1/companies/lookalikes \\
       -d '{"companies": [{"countryCode": "FR", "companyNumber": "542051180"}]}'
  curl -H 'Authorization: Bearer sandbox' BASE_URL/v1/lists?type=STATIC

control (same token, never limited, no part of the real service):
  GET  /_sandbox/ledger    what was asked, when, and what was charged; ?summary=1 for the totals alone
  POST /_sandbox/clock     {"seconds": 86400}: moves the clocks of credits and rate limit on
  POST /_sandbox/world     {"week": 1}: moves the world on
  POST /_sandbox/options   {"credits": 10, "requests_per_minute": 0}: any of the options of the service
  POST /_sandbox/faults    [{"kind": "status", "status": 503, "probability": 0.1}]: scripted faults, see below
  POST /_sandbox/reset     forgets what was asked, paid, added and scripted

faults (fields of each kind: firmlake_sandbox/rules.py):
  before the work   status redirect hang reset delay expire_token exhaust_credits change_lists
  to the answer     elements totals small_pages drift wrong_body gzip_bomb
  in sending it     lose reset_body truncate trickle
  Any rule may be narrowed by endpoint ("financials", "lists.contacts"), companies (["BE0403227515"]), nth ([1, 5]),
  seen ([1]: each request once), probability and times.
"""


def main() -> int:
    """Start the service; return the exit code where it could not."""
    arguments = vars(_parser().parse_args())
    if "help" in (arguments["dialect"] or ()):
        sys.stdout.write(describe_dialects())
        return 0
    host, port = arguments.pop("host"), arguments.pop("port")
    access_log, is_bound = arguments.pop("access_log"), arguments.pop("exit_with_parent")
    book = arguments.pop("paid")
    try:
        options = change_options(Options(), {name: value for name, value in arguments.items() if value is not None})
    except msgspec.ValidationError as error:
        return _refuse(str(error))

    exit_on_signals()
    if is_bound:
        exit_with_parent()

    from firmlake_sandbox.server import (
        bind,
        serve,
    )  # only now: --help needs none of it, and a signal may come meanwhile
    from firmlake_sandbox.service import build_app
    from firmlake_sandbox.state import State

    try:
        listener = bind(host, port)
    except (ValueError, OverflowError, OSError) as error:
        return _refuse(str(error))
    if TOKEN_VARIABLE not in os.environ:
        sys.stderr.write(f"{TOKEN_VARIABLE} is not set: the token is {DEFAULT_TOKEN!r}\n")
    tokens = tuple(filter(None, os.environ.get(TOKEN_VARIABLE, DEFAULT_TOKEN).split(","))) or (DEFAULT_TOKEN,)
    app = build_app(State(options, tokens, book))
    shown = f"[{host}]" if ":" in host else host
    base_url = f"http://{shown}:{listener.getsockname()[1]}"
    sys.stdout.write(json.dumps({"base_url": base_url, "pid": os.getpid()}) + "\n")
    sys.stdout.flush()
    serve(app, listener, access_log=access_log)
    return 0


def _refuse(message: str) -> int:
    """Say why it does not start."""
    sys.stderr.write(f"firmlake_sandbox: {message}\n")
    return 2


def _parser() -> argparse.ArgumentParser:
    """Make the parser: how to serve from here, what to serve from `Options`."""
    parser = argparse.ArgumentParser(
        "firmlake sandbox",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--host", default="127.0.0.1", help="loopback address to serve on [127.0.0.1]")
    parser.add_argument("--port", type=int, default=0, help="port to serve on; 0 takes a free one [0]")
    parser.add_argument("--access-log", action="store_true", help="log every request on standard error")
    parser.add_argument(
        "--exit-with-parent", action="store_true", help="exit when standard input closes or the parent dies"
    )
    parser.add_argument("--paid", type=Path, metavar="FILE", help="file that keeps what was paid [none]")
    service = parser.add_argument_group("service (each also at /_sandbox/options, with underscores)")
    for field in msgspec.json.schema(Options)["$defs"]["Options"]["properties"].items():
        _add_option(service, *field)
    return parser


def _add_option(group: "argparse._ArgumentGroup", name: str, schema: dict[str, Any]) -> None:
    """Add one option of the service, from its JSON schema."""
    default = "none" if schema["default"] == [] else schema["default"]
    help_text = f"{schema['description']} [{default}]".replace("%", "%%")
    flag = "--" + name.replace("_", "-")
    if isinstance(schema["default"], bool):
        group.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, help=help_text)
    elif schema.get("type") == "array":
        group.add_argument(flag, action="append", metavar="NAME", help=help_text)
    elif isinstance(schema["default"], int):
        group.add_argument(flag, type=int, metavar="N", help=help_text)
    else:
        group.add_argument(
            flag, choices=schema.get("enum"), metavar=None if "enum" in schema else "NAME", help=help_text
        )


if __name__ == "__main__":
    sys.exit(main())
