"""Where the processes of one machine keep count of an allowance: one small file for each key.

The files lie in a folder of the user's in the system's temp directory, because two data folders may use one key. A file
is opened, locked, read, written and closed for each operation (30 us): nothing is inherited by a fork, a process that
dies lets go, and a file removed by a cleaner is simply made anew.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from firmlake.api.throttle.throttle import Held
from firmlake.core.errors import SettingsError

__all__ = ["FileStore", "boot_clock", "open_file_store"]

_SIZE_MAX = 16_777_216
_IDLE_SECONDS = 86_400
_ELSEWHERE = "Let TMPDIR name a folder that you can write to"


class FileStore:
    """A store in one file.

    Args:
        file: Made when it is missing.
        clock: Nanoseconds since the machine started, the same for all processes.
    """

    def __init__(self, file: Path, clock: Callable[[], int]) -> None:
        self.name = str(file)
        self._file = file
        self._clock = clock

    @contextmanager
    def hold(self) -> Iterator[Held]:
        """Hold the state alone; see `Store`.

        Raises:
            SettingsError: The file cannot be used: correct TMPDIR.
        """
        try:
            descriptor = self._open()
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                held = Held(os.read(descriptor, _SIZE_MAX), self._clock())
                yield held
                os.pwrite(descriptor, held.content, 0)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise SettingsError(f"{self._file}: {error.strerror}", _ELSEWHERE) from None

    def close(self) -> None:
        """Nothing is open between two operations."""

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(self._file, flags, 0o600)
        except FileNotFoundError:
            _make_private(self._file.parent)
            return os.open(self._file, flags, 0o600)


def open_file_store(key: str, folder: Path | None = None) -> FileStore:
    """Make the store for one key.

    Args:
        key: Names service and token without giving the token away.
        folder: Where the files are kept; None takes `firmlake-<uid>` in the system's temp directory.

    Raises:
        SettingsError: The folder cannot be made or is open to others: correct TMPDIR.
    """
    folder = folder or Path(tempfile.gettempdir()) / f"firmlake-{os.getuid()}"
    _make_private(folder)
    _remove_idle(folder)
    return FileStore(folder / f"{key}.throttle", boot_clock)


def boot_clock() -> int:
    """Give the nanoseconds since the machine started; on Linux they go on while it sleeps."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _remove_idle(folder: Path) -> None:
    """Each sandbox on a port of its own leaves a file; after a day without a request none matters any more."""
    for file in folder.glob("*.throttle"):
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > _IDLE_SECONDS:
                file.unlink()


def _make_private(folder: Path) -> None:
    """Anybody may write into the temp directory, so that a folder of this name may have been laid for us."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise SettingsError(f"{folder}: {error.strerror}", _ELSEWHERE) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise SettingsError(f"{folder} is not a folder of yours alone", _ELSEWHERE)
