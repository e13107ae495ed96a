"""A store for the processes of one machine: one small file for each key.

The files are in a private folder of the system's temp directory, not in the data folder, because two data folders may
use the same key. Each operation opens, locks, reads, writes and closes the file (30 us). So forked processes inherit
nothing, a dying process releases the lock, and a file deleted by a temp cleaner is created again.
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

from firmlake.api.throttle.throttle import Slot
from firmlake.core.errors import SettingsError

__all__ = ["FileStore", "boot_clock", "find_file_store", "open_file_store"]

_SIZE_MAX = 16_777_216
_IDLE_SECONDS = 86_400
_ELSEWHERE = "Set TMPDIR to a folder that only you can write to"


class FileStore:
    """A store in one file.

    Args:
        file: Path of the file, which is made if it is missing.
        clock: Returns nanoseconds on a clock that all processes of the machine share.
    """

    def __init__(self, file: Path, clock: Callable[[], int]) -> None:
        self.name = str(file)
        self.folder = file.parent
        self._file = file
        self._clock = clock

    @contextmanager
    def hold(self) -> Iterator[Slot]:
        """Lend the state to one caller at a time; see `Store`.

        Raises:
            SettingsError: The file cannot be used. Correct TMPDIR.
        """
        try:
            descriptor = self._open()
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                slot = Slot(os.read(descriptor, _SIZE_MAX), self._clock())
                yield slot
                os.pwrite(descriptor, slot.content, 0)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise SettingsError(f"{self._file}: {error.strerror}", _ELSEWHERE) from None

    def peek(self) -> Slot:
        """Return the state without locking or making anything; see `Store`."""
        try:
            return Slot(self._file.read_bytes()[:_SIZE_MAX], self._clock())
        except OSError:  # there is no file yet, or a run will report what is wrong with it
            return Slot(b"", self._clock())

    def close(self) -> None:
        """Do nothing: no file is open between two operations."""

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(self._file, flags, 0o600)
        except FileNotFoundError:
            _make_private(self._file.parent)
            return os.open(self._file, flags, 0o600)


def open_file_store(key: str, folder: Path | None = None) -> FileStore:
    """Open the store for one key.

    Args:
        key: Identifies service and token without revealing the token.
        folder: Folder of the files; None takes `firmlake-<uid>` in the system's temp directory.

    Raises:
        SettingsError: The folder cannot be made or others can write to it. Correct TMPDIR.
    """
    store = find_file_store(key, folder)
    _make_private(store.folder)
    _remove_idle(store.folder)
    return store


def find_file_store(key: str, folder: Path | None = None) -> FileStore:
    """Return the store for one key without making anything; see `open_file_store`."""
    folder = folder or Path(tempfile.gettempdir()) / f"firmlake-{os.getuid()}"
    return FileStore(folder / f"{key}.throttle", boot_clock)


def boot_clock() -> int:
    """Return the nanoseconds since the machine started; on Linux the time asleep counts too."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _remove_idle(folder: Path) -> None:
    """Remove files that were idle for a day; every sandbox leaves one, because each has its own port."""
    for file in folder.glob("*.throttle"):
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > _IDLE_SECONDS:
                file.unlink()


def _make_private(folder: Path) -> None:
    """Make the folder, or check that it is ours, because another user may have made one of this name."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise SettingsError(f"{folder}: {error.strerror}", _ELSEWHERE) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise SettingsError(f"{folder} is not a folder that only you can write to", _ELSEWHERE)
