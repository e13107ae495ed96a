"""An optional machine-readable log: one JSON line for each event, with its run, shard and request.

Lines describe answers; they never hold headers or anything that was sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from firmlake.core.errors import FirmlakeError
from firmlake.core.text import redact

_LOG = logging.getLogger("firmlake")
_LOG.addHandler(logging.NullHandler())


def log(message: str, **fields: Any) -> None:
    """Log one event; costs nothing when no log was asked for."""
    if _LOG.isEnabledFor(logging.INFO):
        _LOG.info(message, extra={"fields": fields})


@contextmanager
def log_to(path: Path) -> Iterator[None]:
    """Append events to a file; `-` is stderr."""
    try:
        if str(path) != "-":
            path.touch(mode=0o600)
        handler = logging.StreamHandler() if str(path) == "-" else logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise FirmlakeError(f"{path}: {error.strerror}", "Name a file that can be written") from None
    handler.setFormatter(_JsonLines())
    level = _LOG.level
    _LOG.addHandler(handler)
    _LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        _LOG.setLevel(level)
        _LOG.removeHandler(handler)
        handler.close()


@contextmanager
def warn_by(tell: Callable[[str], object]) -> Iterator[None]:
    """Pass each warning to a person, once, whether or not a log was asked for."""
    handler = _Told(tell)
    _LOG.addHandler(handler)
    try:
        yield
    finally:
        _LOG.removeHandler(handler)


class _JsonLines(logging.Formatter):
    """Formats a record as JSON: time in UTC, level, message, and the event's fields."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        fields: dict[str, Any] = getattr(record, "fields", {})
        line = {"at": at, "level": record.levelname.lower(), "message": record.getMessage(), **fields}
        return redact(msgspec.json.encode(line, enc_hook=str).decode())


class _Told(logging.Handler):
    """Tells each warning once."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell
        self._told = set[str]()

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message not in self._told:
            self._told.add(message)
            self._tell(message)
