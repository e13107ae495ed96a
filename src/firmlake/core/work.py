"""Work on a data folder: by one process at a time, step by step, and what failed last, for people who did not see it.

state/lock                 what holds the folder
state/failed_work/*.json   work on the folder that failed last, for each list its own, until the same work succeeds
state/failures/*.json      deliveries (exports and loads) that failed last, until the same delivery succeeds
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from time import sleep
from typing import Any, TextIO, TypeVar

import msgspec

from firmlake.core.errors import DamagedError, FirmlakeError, LockHeldError, UsageError, from_system, in_our_words
from firmlake.core.files import make_folder, read_json, write_json
from firmlake.core.folders import Folders
from firmlake.core.process import exit_code_of_signal, was_interrupted

Clock = Callable[[], datetime]
"""Returns the time in UTC."""


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


R = TypeVar("R")

CarryOut = Callable[..., Any]
"""Carries out one step, and may display it. It is called with the step's name for people, the function to call, and
perhaps one that makes a line of its result; it returns or raises what the function does."""


def at_once(name: str, work: Callable[[], R], describe: Callable[[R], str] | None = None) -> R:  # noqa: ARG001
    """Carry out a step without displaying it."""
    return work()


_WHOLE = "lock"
"""The lock on the whole data folder."""
_CLOSED = (errno.EROFS, errno.EACCES, errno.EPERM)


@contextmanager
def lock(
    folders: Folders, what: str, name: str = _WHOLE, *, is_reader: bool = False, list_name: str = ""
) -> Iterator[None]:
    """Hold the lock on a data folder; the kernel releases it when the process ends, even if it is killed.

    A FirmlakeError raised while the whole folder is locked is recorded, so that `firmlake status` can show it.

    Args:
        what: What the holder is doing, shown to other processes.
        name: Name of the lock file; another name locks only a part of the folder's work.
        is_reader: Whether the work writes nothing to the folder, so that a read-only folder will do. Other processes
            then see no holder. A folder that holds nothing of firmlake is left as it is.
        list_name: The company list that the work is about, for the record of its failure; empty if it is about none.

    Raises:
        LockHeldError: Another process holds the lock; the message names it.
        FirmlakeError: The folder cannot be written to, although `is_reader` is False.
    """
    path = folders.state / name
    if is_reader and not (folders.state.exists() or folders.warehouse.exists()):
        yield
        return
    with ExitStack() as stack:
        try:
            make_folder(path.parent)
            path.touch(mode=0o600)
            file = stack.enter_context(path.open("a+", errors="replace"))
        except OSError as error:
            if not (is_reader and error.errno in _CLOSED):
                raise from_system(error, path) from None
            if not path.exists():  # whoever works on it elsewhere would have made it
                yield
                return
            file = stack.enter_context(path.open(errors="replace"))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise LockHeldError(
                f"{folders.data} is in use by {_read_name(file)}", "Wait until it ends, then run again"
            ) from None
        with suppress(OSError):  # the lock works without a name; a full disk is reported by the next write that matters
            os.ftruncate(file.fileno(), 0)
            os.write(file.fileno(), f"{what}, process {os.getpid()} on {socket.gethostname()}\n".encode())
        try:
            with recorded_work(folders.state, what, list_name) if name == _WHOLE else nullcontext():
                yield
        finally:
            with suppress(OSError):
                os.ftruncate(file.fileno(), 0)


def holder(folders: Folders) -> str:
    """Return what holds the data folder's lock; empty if nothing does."""
    path = folders.state / _WHOLE
    if not path.exists():
        return ""
    with path.open(errors="replace") as file:
        name = file.read().strip()
        if name:  # probe only a named lock: a probe must not keep another process from taking a free one
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return name
    return ""


def _read_name(file: TextIO) -> str:
    """Read the name of the process that holds the lock, which writes its name a moment after it took the lock."""
    for _ in range(20):
        file.seek(0)
        if name := file.read().strip():
            return name
        sleep(0.01)
    return "another process"


class LastFailure(msgspec.Struct, frozen=True):
    """The failed command, its time (UTC), its exit code, the error line and the next step."""

    what: str
    at: datetime
    exit_code: int
    line: str
    next_step: str
    run_id: str = ""
    """The run that failed. Once it is published, by whatever command, the failure is over."""
    list_name: str = ""
    """The company list of the work; empty if it has none."""
    mended_by: str = ""
    """Work that removes the cause; empty if none is known."""


@contextmanager
def recorded_work(state: Path, what: str, list_name: str = "") -> Iterator[None]:
    """Record work on the folder that fails, as a FirmlakeError.

    If it succeeds, the record of its own last failure is taken back, and so are those that it mends. Work on a company
    list takes back only what failed for this list. A wrong call leaves the record as it is, because nothing would ever
    take it back, unless it is about a list that has run before (`is_recorded`).
    """
    try:
        with in_our_words():
            yield
    except FirmlakeError as error:
        if error.is_recorded and (list_name or not isinstance(error, UsageError)):
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


def failed_work(state: Path) -> list[LastFailure]:
    """List the work on the folder that failed last, oldest failure first; records that cannot be read are left out."""
    found = map(_read, (state / "failed_work").glob("*.json"))
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
        failure = LastFailure(
            what, utc_now(), code, str(error), error.next_step, error.run_id, list_name, error.mended_by
        )
        write_json(path, failure)


def _read(path: Path) -> LastFailure | None:
    try:
        return read_json(path, LastFailure)
    except (OSError, DamagedError):
        return None


def _remove(path: Path) -> None:
    with suppress(OSError):  # a delivery also works from a folder that cannot be written to
        path.unlink(missing_ok=True)
