"""The one place that prints: names, lines and messages from outside cannot draw on a terminal or show the token."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import click
import msgspec

from firmlake.core.redaction import redact
from firmlake.core.text import shown

__all__ = ["Cleaned", "echo", "echo_data", "echo_json"]


def echo(text: str, *, err: bool = False, fg: str | None = None) -> None:
    """Tell a person something, on stdout or stderr; what cannot be printed is spelled out."""
    click.secho(shown(redact(text), kept="\n"), err=err, fg=fg)


def echo_data(text: str) -> None:
    """Give a program a text as it is; only a terminal gets it spelled out."""
    sys.stdout.write(shown(text, kept="\n") if sys.stdout.isatty() else text)


def echo_json(content: Any) -> None:
    """Give a program a value as JSON, in which what cannot be printed is escaped."""
    text = msgspec.json.format(msgspec.json.encode(content, enc_hook=str), indent=2).decode()
    if not text.replace("\n", " ").isprintable():
        text = "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
    click.echo(text)


class Cleaned(io.StringIO):
    """Stderr for what click prints itself."""

    def write(self, text: str) -> int:
        """Print a part of a text."""
        click.echo(shown(redact(text), kept="\n"), err=True, nl=False)
        return len(text)
