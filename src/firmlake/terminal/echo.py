"""Print. No other module prints, so that no text from outside can control the terminal or reveal the token."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from shlex import quote
from typing import Any

import click
import msgspec

from firmlake.core.text import redact, shown


def echo(text: str, *, err: bool = False, fg: str | None = None) -> None:
    """Print text for a person on stdout or stderr; unprintable characters are escaped."""
    click.secho(shown(redact(_COMMAND.sub(_complete, text)), kept="\n"), err=err, fg=fg)


def echo_data(text: str) -> None:
    r"""Print text for a program unchanged. On a terminal, lines end with \n and unprintable characters are escaped."""
    sys.stdout.write(shown(text.replace("\r\n", "\n"), kept="\n") if sys.stdout.isatty() else text)


def echo_json(content: Any) -> None:
    """Print a value for a program as JSON; unprintable characters are escaped."""
    text = msgspec.json.format(msgspec.json.encode(content, enc_hook=str), indent=2).decode()
    if not text.replace("\n", " ").isprintable():
        text = "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
    click.echo(text)


@contextmanager
def repeating(options: Mapping[str, str]) -> Iterator[None]:
    """Let the commands that messages name repeat options of this call (`{"--data": "clients/a"}`), to be pasted."""
    token = _options.set(options)
    try:
        yield
    finally:
        _options.reset(token)


class Cleaned(io.StringIO):
    """A stream for messages that click prints; they go to stderr, cleaned like all others."""

    def write(self, text: str) -> int:
        """Print a part of a message."""
        click.echo(shown(redact(text), kept="\n"), err=True, nl=False)
        return len(text)


_COMMAND = re.compile(r"`firmlake (?!(?:demo|sandbox)\b|-)[^`]+(?=`)")
"""A command in a message. `demo` and `sandbox` have data of their own."""
_options: ContextVar[Mapping[str, str]] = ContextVar("options", default={})  # noqa: B039 - it is never changed


def _complete(command: re.Match[str]) -> str:
    lacking = (f" {name} {quote(value)}" for name, value in _options.get().items() if f" {name} " not in command[0])
    return command[0] + "".join(lacking)
