"""What failed in a data folder, recorded for people who did not see the error when it was printed.

state/failed_work/*.json   work on the folder that failed last, for each list its own, until the same work succeeds
state/failures/*.json      deliveries (exports and loads) that failed last, until the same delivery succeeds
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import msgspec

from firmlake.core.clock import utc_now
from firmlake.core.errors import DamagedError, FirmlakeError, UsageError, in_our_words
from firmlake.core.files import read_json, write_json
from firmlake.core.signals import exit_code_of_signal, was_interrupted


class LastFailure(msgspec.Struct, frozen=True):
    """The failed command, its time (UTC), its exit code, the error line and the next step."""

    what: str
    at: datetime
    exit_code: int
    line: str
    next_step: str
    is_mended: bool = False
    """Whether the cause has gone since: the token that was refused was replaced."""
    run_id: str = ""
    """The run that failed. Once it is published, by whatever command, the failure is over."""
    list_name: str = ""
    """The company list of the work; empty if it has none."""
    mended_by: str = ""
    """Work that removes the cause; empty if none is known."""


class _Written(LastFailure, frozen=True):
    """A failure as it is recorded: with what identifies the token that was refused, without revealing it."""

    key: str = ""


@contextmanager
def recorded_work(state: Path, what: str, list_name: str = "") -> Iterator[None]:
    """Record work on the folder that fails.

    If it succeeds, the record of its own last failure is taken back, and so are those that it mends. Work on a
    company list takes back only what failed for this list.

    Raises:
        FirmlakeError: The work failed, or the system did not let it read or write a file.
    """
    try:
        with in_our_words():
            yield
    except FirmlakeError as error:
        record_failure(state, what, error, list_name)
        raise
    _remove(_work(state, what, list_name))
    for failure in failed_work(state):
        if failure.mended_by == what:
            _remove(_work(state, failure.what, failure.list_name))


@contextmanager
def recorded_delivery(state: Path, what: str) -> Iterator[None]:
    """Record a delivery that fails, until the same delivery succeeds.

    A wrong call is not recorded: nothing would ever take it back, and the caller is told. Nor is anything recorded in
    a folder without a state, which may be no data folder.
    """
    path = _record(state / "failures", what)
    try:
        with in_our_words():
            yield
    except UsageError:
        raise
    except FirmlakeError as error:
        if state.is_dir():
            _write(path, what, error)
        raise
    _remove(path)


@contextmanager
def about_run(run_id: str) -> Iterator[None]:
    """Name the run in the errors of its work, for the record of the failure."""
    try:
        yield
    except FirmlakeError as error:
        error.run_id = run_id
        raise


def record_failure(state: Path, what: str, error: FirmlakeError, list_name: str = "") -> None:
    """Record a failure of work on the folder, replacing the previous one of this list, or of the same work."""
    _write(_work(state, what, list_name), what, error, list_name)


def failed_work(state: Path, key: str = "") -> list[LastFailure]:
    """List the work on the folder that failed last, oldest failure first; records that cannot be read are left out.

    Args:
        state: The folder of the records.
        key: Identifies the token that is used now; empty if it is not known.
    """
    found = (_read(path, key) for path in (state / "failed_work").glob("*.json"))
    return sorted(filter(None, found), key=lambda failure: failure.at)


def failed_deliveries(state: Path) -> list[LastFailure]:
    """List the deliveries that failed last, oldest failure first; `next_step` also says how to give one up."""
    found = []
    for path in (state / "failures").glob("*.json"):
        if failure := _read(path):
            step = f"Repeat the delivery; if it is not wanted any more, remove {path}"
            found.append(msgspec.structs.replace(failure, next_step=step))
    return sorted(found, key=lambda failure: failure.at)


def _work(state: Path, what: str, list_name: str) -> Path:
    return _record(state / "failed_work", f"list {list_name.casefold()}" if list_name else what)


def _record(folder: Path, subject: str) -> Path:
    return folder / f"{hashlib.sha256(subject.encode()).hexdigest()[:16]}.json"


def _write(path: Path, what: str, error: FirmlakeError, list_name: str = "") -> None:
    """Write a record. On a full disk nothing is recorded."""
    with suppress(FirmlakeError):
        code = exit_code_of_signal() if was_interrupted() else error.exit_code
        written = _Written(
            what, utc_now(), code, str(error), error.next_step,
            run_id=error.run_id, list_name=list_name, mended_by=error.mended_by, key=error.key,
        )  # fmt: skip
        write_json(path, written)


def _read(path: Path, key: str = "") -> LastFailure | None:
    try:
        written = read_json(path, _Written)
    except (OSError, DamagedError):
        return None
    is_mended = bool(key and written.key) and key != written.key
    return msgspec.structs.replace(msgspec.convert(written, LastFailure, from_attributes=True), is_mended=is_mended)


def _remove(path: Path) -> None:
    with suppress(OSError):  # a delivery also works from a folder that cannot be written to
        path.unlink(missing_ok=True)
