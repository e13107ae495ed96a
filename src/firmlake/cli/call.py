"""What every command has: settings, one way to answer, one clear line when it fails, and an end to signals."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any

import click
import msgspec

from firmlake.core.errors import EXIT_DONE, EXIT_FAILED, EXIT_SIGINT, DamagedError, FirmlakeError, UsageError
from firmlake.core.log import log, log_to
from firmlake.core.settings import Settings
from firmlake.core.settings_layers import load_settings

__all__ = ["Call", "catch_signals", "command", "exit_code_of_signal", "graceful", "ignore_signals", "now", "stop"]


class Call:
    """What every command gets: settings on demand, and the two ways to answer."""

    def __init__(self, config: Path | None, data: Path | None, flags: dict[str, str], as_json: bool) -> None:
        self._config = config
        self._data = data
        self._flags = flags
        self.as_json = as_json

    def settings(self, **overrides: str | None) -> Settings:
        """Read the settings; overrides are flags of the command by dotted key, `__` for the dot."""
        return self.settings_with_origins(**overrides)[0]

    def settings_with_origins(self, **overrides: str | None) -> tuple[Settings, dict[str, str]]:
        """Read the settings and where each comes from."""
        given = {key.replace("__", "."): value for key, value in overrides.items() if value is not None}
        named = {key: _name_flag(key) for key in given}
        if self._data is not None:
            given["paths.data"], named["paths.data"] = str(self._data), "--data"
        named = {key: flag for key, flag in named.items() if key not in self._flags}
        return load_settings(self._config, {**given, **self._flags}, named=named)

    def say(self, text: str) -> None:
        """Tell a person something; a program that asked for JSON is not disturbed, it reads stdout."""
        log(text)
        click.echo(text, err=True)

    def show(self, show: Callable[[], object]) -> None:
        """Show a person a part of the result as soon as it is there; a program gets all of it at the end."""
        if not self.as_json:
            show()

    def answer(self, content: Any, show: Callable[[], object]) -> None:
        """Give the result: as JSON, or as `show` prints it."""
        if self.as_json:
            click.echo(msgspec.json.format(msgspec.json.encode(content, enc_hook=str), indent=2).decode())
        else:
            show()

    def name_damaged(self, damaged: Mapping[str, DamagedError]) -> int:
        """Say what was left out because it is damaged, and what to do; give the exit code."""
        for name, error in damaged.items():
            log(error.message, run=name, next_step=error.next_step)
            self.say(f"firmlake: Left out run {name}: {error}")
        return EXIT_FAILED if damaged else EXIT_DONE

    def fail(self, error: FirmlakeError, code: int) -> int:
        """Say in one line what happened and what to do."""
        if self.as_json:
            self.answer({"error": error.message, "next_step": error.next_step, "exit_code": code}, lambda: None)
        log(error.message, next_step=error.next_step, exit_code=code)
        click.secho(f"firmlake: {error}", err=True, fg="red")
        return code


def command(function: Callable[..., int | None]) -> Callable[..., int]:
    """Give a command its common options, and turn our errors into one line and an exit code."""

    @click.option("--config", type=click.Path(path_type=Path), help="Settings file instead of config/firmlake.toml.")
    @click.option("--data", type=click.Path(path_type=Path), help="Data folder: the setting paths.data.")
    @click.option("--set", "flags", multiple=True, metavar="KEY=VALUE", help="Override a setting: --set api.threads=8.")
    @click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout.")
    @click.option("--log", "log_file", type=click.Path(path_type=Path), help="Append a log in JSON lines; - is stderr.")
    @wraps(function)
    def wrapper(
        config: Path | None,
        data: Path | None,
        flags: tuple[str, ...],
        as_json: bool,
        log_file: Path | None,
        **arguments: Any,
    ) -> int:
        call = Call(config, data, {}, as_json)
        with ExitStack() as stack:
            try:
                if log_file:
                    stack.enter_context(log_to(log_file))
                call = Call(config, data, dict(map(_parse_flag, flags)), as_json)
                return function(call, **arguments) or EXIT_DONE
            except FirmlakeError as error:
                return call.fail(error, exit_code_of_signal() if _received else error.exit_code)
            except (KeyboardInterrupt, Exception) as error:
                # DuckDB makes a RuntimeError of its own of a signal that comes while it works.
                if not (_received or isinstance(error, KeyboardInterrupt)):
                    raise
                interrupted = FirmlakeError("Interrupted", "What was fetched is kept; run again to continue")
                return call.fail(interrupted, exit_code_of_signal())

    return wrapper


stop = threading.Event()
"""Set by the first signal while requests are in flight."""
_is_graceful = threading.Event()
"""Whether there are any; elsewhere a signal ends the work at once, because every file is whole or not there."""


_received: list[int] = []
"""The signals that came, in that order."""


def catch_signals() -> None:
    """Make SIGINT and SIGTERM end the work in good order, from the start of the process."""

    def receive(number: int, _frame: object) -> None:
        is_first = not _received
        _received.append(number)
        if is_first and _is_graceful.is_set():
            click.echo("\nfirmlake: stopping; waiting for the requests in flight (again to stop at once)", err=True)
            stop.set()
        else:
            raise KeyboardInterrupt

    def give_again(lost: sys.UnraisableHookArgs) -> None:
        # Python drops what is raised inside a destructor or a weak reference's callback, our interrupt too.
        if lost.exc_type is KeyboardInterrupt:
            threading.Timer(0.01, signal.raise_signal, [signal.SIGINT]).start()
        else:
            sys.__unraisablehook__(lost)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, receive)
    sys.unraisablehook = give_again


def ignore_signals() -> None:
    """The work is done and its exit code stands: a signal that comes while Python takes itself down changes nothing."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def exit_code_of_signal() -> int:
    """The exit code of a process that a signal ended: 128 and its number."""
    return 128 + _received[0] if _received else EXIT_SIGINT


def _name_flag(key: str) -> str:
    """Name what a command set a key with: its option of the same name, else the command."""
    context = click.get_current_context()
    flag = "--" + key.rpartition(".")[2].replace("_", "-")
    is_option = any(flag in option.opts for option in context.command.params)
    return flag if is_option else f"firmlake {context.info_name}"


def _parse_flag(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator:
        raise UsageError(f"--set {text} is not KEY=VALUE", "For example --set api.threads=8")
    return key.strip(), value


@contextmanager
def graceful() -> Iterator[None]:
    """Let a signal set `stop` and wait for the requests in flight."""
    stop.clear()
    _is_graceful.set()
    try:
        yield
    finally:
        _is_graceful.clear()


def now() -> datetime:
    """Give the time of day, UTC."""
    return datetime.now(UTC)
