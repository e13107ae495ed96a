"""The lock on a data folder: only one process works on it at a time, and others can see which one."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from time import sleep
from typing import TextIO

from firmlake.core.errors import LockHeldError, from_system
from firmlake.core.failure import recorded_work
from firmlake.core.files import make_folder
from firmlake.core.folders import Folders

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
        folders: The data folder.
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
