"""Open the service that the settings name, and check that the data folder belongs to it."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import msgspec

from firmlake.api.authorization import Token, read_address, read_token
from firmlake.api.throttle.throttle import Forecast, open_throttle
from firmlake.core.errors import FirmlakeError, SettingsError, ThrottleStoreError
from firmlake.core.example import read_example
from firmlake.core.files import make_folder, read_json, write_json
from firmlake.core.folders import Folders
from firmlake.core.process import without_token
from firmlake.core.settings import SANDBOX, ApiSettings, Settings
from firmlake.core.settings_layers import check_named
from firmlake.core.work import utc_now

if TYPE_CHECKING:
    from firmlake.api.client import Access, Client


class _Stamp(msgspec.Struct, frozen=True):
    """The name of the service that a data folder belongs to."""

    service: str


def check_access(settings: Settings) -> Token | None:
    """Return the token; None for the embedded service, which gets one when it starts. Nothing has been written yet.

    If only a file that nobody named gives the address, that is a SettingsError too.
    """
    token = _read_access(settings)
    check_named(settings.api.base_url)
    return token


def _read_access(settings: Settings) -> Token | None:
    if not settings.api.base_url:
        raise SettingsError(
            "No service is named",
            "Set FIRMLAKE_API__BASE_URL and FIRMLAKE_API_TOKEN. To try firmlake without one, run `firmlake demo`, "
            "or your own list with `--set api.base_url=sandbox --data data/sandbox`",
        )
    if settings.api.base_url == SANDBOX:
        return None
    _check_paths(settings, read_address(settings.api.base_url).url)
    return read_token()


def _check_paths(settings: Settings, address: str) -> None:
    """Refuse an address that ends in the version with which paths begin, as documentation often gives it."""
    version = address.rpartition("/")[2]
    for dataset in settings.run.datasets:
        path = read_example(dataset, getattr(settings.api.requests, dataset)).path
        if re.fullmatch(r"v\d+", version) and path.startswith(f"/{version}/"):
            raise SettingsError(
                f"api.base_url ends in /{version}, which firmlake adds itself: requests would go to "
                f"{urlsplit(address).path}{path}",
                f"Remove /{version} from it, or from the paths in api.requests",
            )


@contextmanager
def open_access(settings: Settings) -> Iterator[Access]:
    """Yield access to the service that the settings name; start the embedded service if they ask for it."""
    from firmlake.api.client import Access  # here, because httpx takes a while to import, and not every command asks

    with ExitStack() as stack:
        api, token = settings.api, check_access(settings)
        if token is None:
            embedded = stack.enter_context(start_embedded(api, Folders.of(settings)))
            api, token = msgspec.structs.replace(api, base_url=embedded.base_url), embedded.token
        key, most = token.key_hash(api.base_url), settings.run.max_requests
        throttle = stack.enter_context(closing(open_throttle(api, key, requests_max=most)))
        yield Access(api, token, throttle)


@contextmanager
def connect(
    settings: Settings,
    stop: threading.Event | None = None,
    on_wait: Callable[[str], object] = lambda why: None,
    now: Callable[[], datetime] = utc_now,
) -> Iterator[Client]:
    """Yield a client for the service that the settings name; see `open_access`, and `Client` for the arguments."""
    from firmlake.api.client import Client
    from firmlake.api.connection import REAL

    timing = REAL._replace(utc_now=now)
    with open_access(settings) as access, Client(access, stop=stop, on_wait=on_wait, timing=timing) as client:
        yield client


def expect_waits(settings: Settings, count: int) -> Forecast | None:
    """Forecast how long so many requests will wait for the allowance, which other runs with this key share.

    None if there is no allowance or token, or the requests sent so far cannot be read: a run reports such a problem.
    """
    api = settings.api
    if not (api.base_url and count) or api.base_url == SANDBOX:
        return None
    try:
        with closing(open_throttle(api, read_token().key_hash(api.base_url))) as throttle:
            return throttle.forecast(count)
    except (SettingsError, ThrottleStoreError):
        return None


def service_name(settings: Settings) -> str:
    """Return the service's name: `api.service_name`, or "embedded", or scheme, host, port and path of its address.

    Example:
        >>> service_name(Settings(api=ApiSettings(base_url="https://GW.example.com:443/prod/")))
        'https://gw.example.com/prod'
    """
    api = settings.api
    if api.service_name or api.base_url == SANDBOX:
        return api.service_name or _EMBEDDED
    parts = urlsplit(read_address(api.base_url).url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = "" if parts.port in (None, _DEFAULT_PORTS[parts.scheme]) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}{parts.path}"


def stamp_service(settings: Settings, folders: Folders) -> None:
    """Record which service a data folder belongs to."""
    write_json(_stamp_path(folders), _Stamp(service_name(settings)))


def is_stamped(folders: Folders) -> bool:
    """Return whether a data folder belongs to a service, because that service has sent a usable answer before."""
    return _stamp_path(folders).exists()


def check_service(settings: Settings, folders: Folders) -> None:
    """Raise SettingsError if a data folder belongs to another service.

    If the file that names it is damaged, remove it.
    """
    path = _stamp_path(folders)
    if not (settings.api.base_url and path.exists()):
        return
    stamped = read_json(path, _Stamp, "Remove it; the next run writes it again").service
    name = service_name(settings)
    if stamped != name:
        next_step = "Name another folder with --data or paths.data, because answers of two services must not mix"
        if _EMBEDDED not in (stamped, name):
            next_step += f'. If it is the same service at a new address, set api.service_name = "{stamped}"'
        raise SettingsError(
            f"{folders.data} holds the answers of {_shown(stamped)}, not of {_shown(name)}",
            next_step,
        )


_EMBEDDED = "embedded"
_DEFAULT_PORTS = {"http": 80, "https": 443}


def _shown(name: str) -> str:
    return "the embedded service" if name == _EMBEDDED else name


def _stamp_path(folders: Folders) -> Path:
    return folders.state / "service.json"


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
