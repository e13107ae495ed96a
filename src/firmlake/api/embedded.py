"""Start the embedded service, a child process for demos, trials and development without a key."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from firmlake.api.authorization import Token
from firmlake.core.child import without_token
from firmlake.core.errors import FirmlakeError
from firmlake.core.files import make_folder
from firmlake.core.folders import Folders
from firmlake.core.settings import ApiSettings

__all__ = ["start_embedded"]

_MODULE = "firmlake_sandbox"


class Embedded(NamedTuple):
    """The address and token of a running embedded service."""

    base_url: str
    token: Token


@contextmanager
def start_embedded(api: ApiSettings, folders: Folders) -> Iterator[Embedded]:
    """Start the embedded service with the limits of the settings, and stop it afterwards.

    Payments are kept in the data folder, if there is one, so that a resumed run pays for no company twice. The service
    exits when its standard input closes, so it ends with this process even if this process is killed.

    Raises:
        FirmlakeError: The service does not start.
    """
    secret = secrets.token_urlsafe(24)
    options: dict[str, object] = {
        "--companies-per-request": api.companies_per_request,
        "--records-per-request": api.records_per_request,
        "--page-limit-max": api.page_limit_max,
        "--requests-per-minute": api.requests_per_minute,
    }
    if folders.data.exists():
        make_folder(folders.state)
        options["--paid"] = folders.state / "embedded_paid.bin"
    command = [sys.executable, "-P", "-m", _MODULE, "--exit-with-parent"]
    command += [part for name, value in options.items() for part in (name, str(value))]
    process = subprocess.Popen(  # noqa: S603 - our own module
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**without_token(os.environ), "FIRMLAKE_SANDBOX_TOKEN": secret},
        start_new_session=True,  # a Ctrl-C must not end the service while requests are in flight
    )
    try:
        assert process.stdout
        line = process.stdout.readline()
        if not line:
            raise FirmlakeError("The embedded service did not start", f"Try `{sys.executable} -m {_MODULE}` to see why")
        yield Embedded(json.loads(line)["base_url"], Token(secret))
    finally:
        process.terminate()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()
