"""The parts that all commands share: common options, settings, output as text or JSON, and errors on one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from firmlake.cli.signature import PATH, call_with, help_of, parameters_of
from firmlake.core.errors import (
    EXIT_DONE,
    EXIT_FAILED,
    RUN_AGAIN,
    DamagedError,
    FirmlakeError,
    UsageError,
    in_our_words,
)
from firmlake.core.folders import Folders
from firmlake.core.log import log, log_to, warn_by
from firmlake.core.process import exit_code_of_signal, was_interrupted
from firmlake.core.settings import Settings, changed_keys
from firmlake.core.settings_layers import DEFAULT_FILE, confirm_by, load_settings, read_flags
from firmlake.terminal.echo import echo, echo_json, repeating
from firmlake.terminal.rows import Part, show

Options = Mapping[str, str | None]
_NONE: Options = MappingProxyType({})


class Call:
    """The call of a command: reads settings on demand, and writes the result for a person or as JSON."""

    def __init__(self, config: Path | None, data: Path | None, flags: dict[str, str], as_json: bool) -> None:
        self._config = config
        self._data = data
        self._flags = flags
        self.as_json = as_json
        self._has_named_file = False

    def override(self, key: str, value: str) -> None:
        """Set a setting from an option of the command; `--set` takes precedence."""
        self._flags.setdefault(key, value)

    def settings(self, options: Options = _NONE) -> Settings:
        """Read the settings; options of the command override them, by dotted key."""
        return self.settings_with_origins(options)[0]

    def on_folder(self, options: Options = _NONE) -> tuple[Settings, Folders]:
        """Read the settings as `settings` does, for work on a data folder that exists."""
        settings = self.settings(options)
        return settings, Folders.existing(settings)

    def settings_with_origins(self, options: Options = _NONE) -> tuple[Settings, dict[str, str]]:
        """Read the settings, and the origin of each."""
        given = {key: value for key, value in options.items() if value is not None}
        named = {key: _name_flag(key) for key in given}
        if self._data is not None:
            given["paths.data"], named["paths.data"] = str(self._data), "--data"
        named = {key: flag for key, flag in named.items() if key not in self._flags}
        settings, origins = load_settings(self._config, {**given, **self._flags}, named=named)
        if not (self._config or os.environ.get("FIRMLAKE_CONFIG") or self._has_named_file):
            self._name_file(settings, origins)
        return settings, origins

    def _name_file(self, settings: Settings, origins: Mapping[str, str]) -> None:
        """Say, once, which settings come from the file of the current folder, which nobody named."""
        keys = [key for key in changed_keys(settings) if origins.get(key) == str(DEFAULT_FILE)]
        if keys:
            self._has_named_file = True
            self.say(f"Settings are read from {DEFAULT_FILE.absolute()}: {', '.join(keys)}")

    def say(self, text: str) -> None:
        """Print a line for a person on stderr, so that stdout stays valid JSON."""
        log(text)
        echo(text, err=True)

    def show(self, parts: Iterable[Part]) -> None:
        """Show a part of the result as soon as it is known; with `--json`, the whole result is printed at the end."""
        if not self.as_json:
            show(parts)

    def answer(self, content: Any, parts: Iterable[Part]) -> None:
        """Print the result: as JSON, or its parts for a person."""
        if self.as_json:
            echo_json(content)
        else:
            show(parts)

    def end(self, error: FirmlakeError | None) -> int:
        """Say what was left undone, if anything was, and return the exit code."""
        if error:
            self.say(f"firmlake: {error}")
        return error.exit_code if error else EXIT_DONE

    def tell(self, content: Any, lines: Iterable[str]) -> None:
        """Print the result: as JSON, or as lines on stderr, where nothing is to be read from stdout."""
        if self.as_json:
            echo_json(content)
        else:
            for line in lines:
                self.say(line)

    def name_damaged(self, damaged: Mapping[str, DamagedError]) -> int:
        """Print the damaged runs that were skipped, with the next steps, and return the exit code."""
        for name, error in damaged.items():
            log(error.message, run=name, next_step=error.next_step)
            self.say(f"firmlake: Skipped run {name}: {error}")
        return EXIT_FAILED if damaged else EXIT_DONE

    def fail(self, error: FirmlakeError, code: int) -> int:
        """Print an error and its next step on one line, and return the exit code.

        The code is the same if nothing can be printed because the terminal is gone or the disk behind stdout is full.
        """
        with suppress(OSError):
            log(error.message, next_step=error.next_step, exit_code=code)
        with suppress(OSError):
            echo(f"firmlake: {error}", err=True, fg="red")
        if self.as_json:
            with suppress(OSError):
                echo_json({"error": error.message, "next_step": error.next_step, "exit_code": code})
        return code


_COMMON = (
    click.Option(["--config"], type=PATH, help="Settings file to read instead of config/firmlake.toml."),
    click.Option(["--data"], type=PATH, help="Data folder to use; sets paths.data."),
    click.Option(
        ["--set", "flags"], multiple=True, metavar="KEY=VALUE", help="Override a setting: --set api.threads=8."
    ),
    click.Option(["--json", "as_json"], is_flag=True, help="Print the result as JSON on stdout."),
    click.Option(["--log", "log_file"], type=PATH, help="Append a log in JSON lines to this file; - is stderr."),
)


def command(function: Callable[..., int | None]) -> click.Command:
    """Make a command of a function that takes a `Call` and what is typed; see `signature`.

    It has the common options too, and turns errors into one line and an exit code.
    """
    name, parameters = function.__name__.replace("_", "-"), [*parameters_of(function), *_COMMON]
    return click.Command(name, callback=partial(_carry_out, function), params=parameters, help=help_of(function))


def _carry_out(
    function: Callable[..., int | None],
    config: Path | None,
    data: Path | None,
    flags: tuple[str, ...],
    as_json: bool,
    log_file: Path | None,
    **given: Any,
) -> int:
    call = Call(config, data, {}, as_json)
    with ExitStack() as stack:
        stack.enter_context(warn_by(_warn))
        if can_ask():
            stack.enter_context(confirm_by(partial(click.confirm, err=True)))
        folders = {"--config": config, "--data": data}
        stack.enter_context(repeating({name: str(path) for name, path in folders.items() if path}))
        try:
            with in_our_words():
                _check_encoding([_here(), config, data, log_file, *flags, *given.values()])
                if log_file:
                    stack.enter_context(log_to(log_file))
                call = Call(config, data, read_flags(flags), as_json)
                code = call_with(function, given, call) or EXIT_DONE
                sys.stdout.flush()  # a full disk behind stdout is an error of this command
                return code
        except FirmlakeError as error:
            return call.fail(error, exit_code_of_signal() if was_interrupted() else error.exit_code)
        except (KeyboardInterrupt, Exception) as error:
            # A library may raise anything if a signal arrives while it works.
            if was_interrupted() or isinstance(error, KeyboardInterrupt):
                return call.fail(FirmlakeError("Interrupted", RUN_AGAIN), exit_code_of_signal())
            raise


def _check_encoding(values: Iterable[object]) -> None:
    """Refuse what is not UTF-8, such as the name of a file from an old archive: Parquet and DuckDB cannot hold it."""
    for value in values:
        if isinstance(value, tuple):
            _check_encoding(value)
        elif isinstance(value, str | Path):
            try:
                str(value).encode()
            except UnicodeEncodeError:
                shown = os.fsencode(value).decode("utf-8", "backslashreplace")
                raise UsageError(f"{shown} is not valid UTF-8", "Rename the file or folder, or type in UTF-8") from None


def _here() -> Path | None:
    """Return the current folder, from which other paths start; None if it was removed."""
    with suppress(OSError):
        return Path.cwd()
    return None


def _warn(message: str) -> None:
    with suppress(OSError):
        echo(f"Warning: {message}", err=True, fg="yellow")


def can_ask() -> bool:
    """Tell whether a person can answer: standard input may be closed, or missing under a scheduler."""
    return all(stream and not stream.closed and stream.isatty() for stream in (sys.stdin, sys.stderr))


def _name_flag(key: str) -> str:
    """Return the option that set a key, or the command if it has no such option."""
    context = click.get_current_context()
    flag = "--" + key.rpartition(".")[2].replace("_", "-")
    is_option = any(flag in option.opts for option in context.command.params)
    return flag if is_option else f"firmlake {context.info_name}"


def damaged_content(damaged: Mapping[str, DamagedError]) -> list[tuple[str, str, str]]:
    """Convert the damaged runs that were skipped to plain values for JSON."""
    return [(run_id, error.message, error.next_step) for run_id, error in damaged.items()]
