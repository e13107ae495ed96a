"""The last failure in a data folder, recorded for people who did not see the error when it was printed."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from firmlake.core.errors import DamagedError, FirmlakeError
from firmlake.core.files import read_json, write_json
from firmlake.core.signals import exit_code_of_signal, was_interrupted

__all__ = ["LastFailure", "last_failure", "record_failure"]

_NAME = "failure.json"


class LastFailure(msgspec.Struct, frozen=True):
    """The failed command, its time (UTC), its exit code, the error line and the next step."""

    what: str
    at: datetime
    exit_code: int
    line: str
    next_step: str
    is_mended: bool = False
    """Whether the cause has gone since: the token that was refused was replaced."""


class _Written(msgspec.Struct, frozen=True):
    what: str
    exit_code: int
    line: str
    next_step: str
    key: str = ""
    """Identifies the token that was refused, without revealing it."""


def record_failure(state: Path, what: str, error: FirmlakeError) -> None:
    """Record a failure, replacing the previous one.

    The file's modification time is the time of the failure. On a full disk nothing is recorded.
    """
    with suppress(FirmlakeError):
        exit_code = exit_code_of_signal() if was_interrupted() else error.exit_code
        write_json(state / _NAME, _Written(what, exit_code, str(error), error.next_step, error.key))


def last_failure(state: Path, key: str = "") -> LastFailure | None:
    """Read the last failure; None if nothing failed or the record cannot be read.

    Args:
        state: The folder of the record.
        key: Identifies the token that is used now; empty if it is not known.
    """
    path = state / _NAME
    try:
        written, at = read_json(path, _Written), datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except (OSError, DamagedError):
        return None
    is_mended = bool(key and written.key) and key != written.key
    return LastFailure(written.what, at, written.exit_code, written.line, written.next_step, is_mended)
