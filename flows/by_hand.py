"""Running flows by hand, such as `python flows/enrich.py`: arguments, a Prefect server, signals, exit codes.

Prefect reads its environment when it is imported, so this module sets the environment before importing it.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast
from urllib.parse import urlsplit

import click
import httpx

from firmlake.api import service
from firmlake.core.errors import EXIT_DONE, RUN_AGAIN, FirmlakeError, Stopped
from firmlake.core.folders import Folders
from firmlake.core.lock import lock
from firmlake.core.settings import Settings
from firmlake.core.settings_layers import read_flags
from firmlake.core.signals import catch_signals, exit_code_of_signal, ignore_signals, was_interrupted
from firmlake.terminal.echo import echo
from job import read_job, read_settings
from temporary_server import TemporaryServer

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

R = TypeVar("R")

_QUIET = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    # Prefect's own log goes to its server; the terminal shows only our lines.
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_HANDLERS_DEBUG_LEVEL": "CRITICAL",
}
_INTERRUPTED = f"Interrupted. {RUN_AGAIN}"
_TAGS = ("firmlake",)
"""What the automations recognise a run by; `deploy` gives the same tag to deployed runs."""
_OUR_LOGGERS = ("prefect.flow_runs.firmlake", "prefect.task_runs.firmlake")


def _with_settings(function: Callable[..., R]) -> Callable[..., R]:
    """Add the options `--config` and `--set` to a command."""
    for option in (
        click.option("--set", "flags", multiple=True, metavar="KEY=VALUE", help="Override a setting: api.threads=8."),
        click.option("--config", metavar="FILE", help="Settings file to read instead of config/firmlake.toml."),
    ):
        function = option(function)
    return function


@click.command()
@click.argument("company_list", metavar="[LIST]", required=False)
@_with_settings
def run_by_hand(company_list: str | None, config: str | None, flags: tuple[str, ...]) -> NoReturn:
    """Run the flow over LIST; without LIST, over the sample list on the embedded service.

    It uses the Prefect server that PREFECT_API_URL or your profile names, or starts a temporary one.
    """
    _by_hand("enrich", (company_list,), config, flags, lambda *layers: read_job(company_list, *layers)[0])


@click.command()
@click.option("--type", "kind", type=click.Choice(["STATIC", "SMART", "OVERVIEW"]), default="OVERVIEW")
@_with_settings
def service_lists_by_hand(kind: str, config: str | None, flags: tuple[str, ...]) -> NoReturn:
    """Read all lists of the service into the warehouse."""
    _by_hand("service_lists", (kind,), config, flags, read_settings)


@click.command()
@click.argument("contacts", metavar="FILE")
@click.option(
    "--service-list", "--list", "list_id", type=int, required=True, metavar="ID", help="The static list to add them to."
)
@_with_settings
def add_contacts_by_hand(contacts: str, list_id: int, config: str | None, flags: tuple[str, ...]) -> NoReturn:
    """Plan and add the contacts of FILE. With lists.needs_approval, a person must approve the plan in Prefect first."""
    _by_hand("add_contacts", (contacts, list_id), config, flags, read_settings)


@click.command()
@click.argument("lists", metavar="LISTS")
@click.option("--name", help="Name of the backfill; its completed runs are not repeated. Default: the date.")
@click.option("--archive", metavar="TARGET", help="Archive the landed answers here afterwards.")
@click.option("--deployment", default="enrich/portfolio", show_default=True, help="Deployment of the flow enrich.")
@_with_settings
def backfill_by_hand(
    lists: str, name: str | None, archive: str | None, deployment: str, config: str | None, flags: tuple[str, ...]
) -> NoReturn:
    """Enrich each file of the folder LISTS, or each country of the list LISTS, in a run of its own on the work pool."""
    arguments = (lists, name, archive, deployment)
    _by_hand("backfill", arguments, config, flags, read_settings, asks_service=False)


@click.command()
@click.argument("archive")
@click.option("--name", help="Name of an unfinished replay to resume.")
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="Processes on this machine.")
@click.option("--scheduler", metavar="ADDRESS", help="Use a Dask cluster instead: tcp://host:8786.")
@_with_settings
def replay_by_hand(
    archive: str, name: str | None, workers: int, scheduler: str | None, config: str | None, flags: tuple[str, ...]
) -> NoReturn:
    """Build one warehouse in paths.data from all runs in ARCHIVE."""
    arguments = (archive, name, workers, scheduler)
    _by_hand("replay", arguments, config, flags, read_settings, asks_service=False)


def _by_hand(
    name: str,
    arguments: tuple[object, ...],
    config: str | None,
    flags: tuple[str, ...],
    read: Callable[[str | None, Mapping[str, str]], Settings],
    *,
    asks_service: bool = True,
) -> NoReturn:
    """Run the flow with this name, which is also the name of its file, and end with its exit code."""
    catch_signals()
    try:
        overrides = read_flags(flags)
        _prepare(read(config, overrides), asks_service)
        _run(name, (*arguments, config, overrides))
    except FirmlakeError as error:
        if was_interrupted():
            _fail(error, _INTERRUPTED, exit_code_of_signal())
        _fail(error, str(error), error.exit_code)
    except (KeyboardInterrupt, Exception) as error:
        # DuckDB raises a RuntimeError if a signal arrives while it works.
        if not (was_interrupted() or isinstance(error, KeyboardInterrupt)):
            raise
        _fail(error, _INTERRUPTED, exit_code_of_signal())
    ignore_signals()
    sys.exit(EXIT_DONE)


def _prepare(settings: Settings, asks_service: bool) -> None:
    """Check access and the lock before a server starts, and set Prefect's environment."""
    if asks_service:
        service.check_access(settings)
    data = Path(settings.paths.data)
    with lock(Folders(data), "the start of a flow"):
        pass
    defaults = {**_QUIET, "PREFECT_HOME": str((data / "prefect").absolute())}
    if "PREFECT_PROFILES_PATH" in os.environ or Path("~/.prefect/profiles.toml").expanduser().exists():
        del defaults["PREFECT_HOME"]  # a user with profiles already has a Prefect home
    for name, value in defaults.items():
        os.environ.setdefault(name, value)


def _run(name: str, arguments: tuple[object, ...]) -> None:
    """Run the flow, and raise the error that it failed with."""
    server = _find_server()
    module = import_module(name)  # while the server starts
    flow = getattr(module, name)
    if server:
        _use(server)
    for logger in _OUR_LOGGERS:
        logging.getLogger(logger).addHandler(handler := logging.StreamHandler())
        handler.setFormatter(logging.Formatter("%(message)s"))
    from prefect import tags

    try:
        with tags(*_TAGS):
            state = flow(*arguments, return_state=True)
    except httpx.HTTPError as error:
        raise FirmlakeError(f"Prefect's server fails ({type(error).__name__})", RUN_AGAIN) from error
    if not state.is_completed():
        if _ended_paused(state):
            raise Stopped("Nobody approved in time", module.unapproved[-1])
        raise cast("Exception", state.result(raise_on_failure=False))


def _ended_paused(state: State[Any]) -> bool:
    """Tell whether the server ended the run while it was paused, before the flow itself noticed the timeout."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.objects import StateType

    run_id = state.state_details.flow_run_id
    if run_id is None or not state.is_failed() or isinstance(state.result(raise_on_failure=False), FirmlakeError):
        return False
    states = get_client(sync_client=True).read_flow_run_states(run_id)
    return len(states) > 1 and sorted(states, key=lambda each: each.timestamp)[-2].type == StateType.PAUSED


def _find_server() -> TemporaryServer | None:
    """Check that the server in Prefect's settings answers; if they name none, begin to start a temporary one."""
    from prefect.client.orchestration import get_client
    from prefect.settings import get_current_settings

    settings = get_current_settings()
    if settings.api.url:
        if get_client(sync_client=True).api_healthcheck():
            where = urlsplit(settings.api.url)
            raise FirmlakeError(
                f"Prefect's server at {where.hostname}:{where.port} does not answer",
                "Start it, or unset PREFECT_API_URL to use a temporary one",
            )
        return None
    echo("Starting Prefect's temporary server, about 10 s ...", err=True)
    server = TemporaryServer(settings.home / "server.log", os.environ)
    # Exit handlers run in reverse order: Prefect's own, registered later, still send the last logs and events.
    atexit.register(server.stop)
    return server


def _use(server: TemporaryServer) -> None:
    from prefect.context import refresh_global_settings_context

    try:
        os.environ.update(server.wait())
    except OSError as error:
        raise FirmlakeError(str(error), "`firmlake run` does the same without Prefect") from None
    refresh_global_settings_context()


def _fail(error: BaseException | None, line: str, code: int) -> NoReturn:
    ignore_signals()
    echo(f"firmlake: {line}", err=True, fg="red")
    while error:
        # Prefect keeps errors until the process ends. Their frames hold a connection, which DuckDB reports as a leak.
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
    sys.exit(code)
