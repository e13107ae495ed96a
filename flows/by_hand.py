"""Running flows by hand, such as `python flows/enrich.py`: arguments, a Prefect server, signals, exit codes.

Prefect reads its environment when it is imported, so this module sets the environment before importing it.
"""

from __future__ import annotations

import ast
import atexit
import logging
import os
import sys
import traceback
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, cast
from urllib.parse import urlsplit

import click
import httpx

from firmlake.api import service
from firmlake.cli import end_output
from firmlake.cli.signature import help_of, parameters_of
from firmlake.core.errors import EXIT_DONE, RUN_AGAIN, FirmlakeError, Stopped
from firmlake.core.folders import Folders
from firmlake.core.process import catch_signals, exit_code_of_signal, ignore_signals, was_interrupted
from firmlake.core.settings import Settings
from firmlake.core.settings_layers import read_flags
from firmlake.core.work import lock
from firmlake.terminal.echo import echo
from job import read_job, read_settings
from temporary_server import TemporaryServer

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
_ASK_SERVICE = ("enrich", "service_lists", "add_contacts")
"""Flows that need a token."""
_TYPES = ("__future__", "typing", "firmlake.api.requests", "firmlake.core.settings")
"""The modules of the types of parameters."""
_SETTINGS = {
    "config": click.Option(["--config"], metavar="FILE", help="Settings file to read instead of config/firmlake.toml."),
    "overrides": click.Option(
        ["--set", "flags"], multiple=True, metavar="KEY=VALUE", help="Override a setting: api.threads=8."
    ),
}
_OUR_LOGGERS = ("prefect.flow_runs.firmlake", "prefect.task_runs.firmlake")


def start(file: str) -> NoReturn:
    """Run the flow of a file, which has its name, with what was typed, and end the process with its exit code.

    The parameters of the flow are what can be typed, see `firmlake.cli.signature`.
    """
    name = Path(file).stem
    flow = _signature_of(Path(file).read_text("utf-8"), name)
    parameters = [*parameters_of(flow, without=tuple(_SETTINGS)), *_SETTINGS.values()]
    command = click.Command(name, callback=partial(_carry_out, flow), params=parameters, help=help_of(flow))
    command.main()
    raise AssertionError


def _signature_of(source: str, name: str) -> Callable[..., object]:
    """Make a function with the signature and docstring of a flow, whose module cannot be imported before Prefect."""
    module = ast.parse(source)
    [flow] = (node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == name)
    flow.decorator_list, flow.body = [], flow.body[:1]
    imports = [node for node in module.body if isinstance(node, ast.ImportFrom) and node.module in _TYPES]
    found: dict[str, Any] = {}
    exec(compile(ast.Module([*imports, flow], []), name, "exec"), found)  # noqa: S102 - our own source
    return cast("Callable[..., object]", found[name])


def _carry_out(flow: Callable[..., object], config: str | None, flags: tuple[str, ...], **given: Any) -> NoReturn:
    catch_signals()
    try:
        overrides = read_flags(flags)
        settings = read_settings(config, overrides)
        if "company_list" in given:
            settings, _ = read_job(given["company_list"], config, overrides, given["sql"])
        _prepare(settings, asks_service=flow.__name__ in _ASK_SERVICE)
        _run(flow.__name__, {**given, "config": config, "overrides": overrides})
    except (KeyboardInterrupt, Exception) as error:
        # DuckDB raises a RuntimeError if a signal arrives while it works.
        if was_interrupted() or isinstance(error, KeyboardInterrupt):
            _fail(error, _INTERRUPTED, exit_code_of_signal())
        if isinstance(error, FirmlakeError):
            _fail(error, str(error), error.exit_code)
        raise
    ignore_signals()
    sys.exit(end_output(EXIT_DONE))


def _prepare(settings: Settings, *, asks_service: bool) -> None:
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


def _run(name: str, arguments: dict[str, object]) -> None:
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
            state = flow(**arguments, return_state=True)
    except httpx.HTTPError as error:
        raise FirmlakeError(f"Prefect's server fails ({type(error).__name__})", RUN_AGAIN) from error
    if not state.is_completed():
        ended = cast("Exception", state.result(raise_on_failure=False))
        if not isinstance(ended, FirmlakeError) and (waiting := getattr(module, "unapproved", ())):
            raise Stopped("Nobody approved in time", waiting[-1])  # the server noticed before the flow did
        raise ended


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
