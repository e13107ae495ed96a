"""The lock on a data folder: one process at a time works on it, and others can see which."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from firmlake.core.errors import FirmlakeError, LockHeldError
from firmlake.core.failure import record_failure
from firmlake.core.files import make_folder
from firmlake.core.run import Folders

__all__ = ["holder", "lock"]


_CLOSED = (errno.EROFS, errno.EACCES, errno.EPERM)


@contextmanager
def lock(folders: Folders, what: str, name: str = "lock", *, is_reader: bool = False) -> Iterator[None]:
    """Hold the data folder; the kernel frees it when the process ends, however it ends.

    What fails meanwhile is recorded, for `firmlake status` to tell.

    Args:
        folders: The data folder.
        what: Who holds it, for others to read.
        name: Another name locks something smaller than the whole.
        is_reader: The work needs nothing written to the folder, so that one that is read-only will do. What holds it
            is then not said.

    Raises:
        LockHeldError: Another process holds it; it is named.
        FirmlakeError: The folder cannot be written to, and this is no reader.
    """
    path = folders.state / name
    with ExitStack() as stack:
        try:
            make_folder(path.parent)
            path.touch(mode=0o600)
            file = stack.enter_context(path.open("a+"))
        except OSError as error:
            if not (is_reader and error.errno in _CLOSED):
                raise FirmlakeError(f"{path}: {error.strerror}", "Make room or give access, then run again") from None
            if not path.exists():  # whoever works on it elsewhere would have made it
                yield
                return
            file = stack.enter_context(path.open())
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise LockHeldError(f"{folders.data} is in use by {holder}", "Wait until it ends, then run again") from None
        with suppress(OSError):  # the lock holds without a name; a full disk shows where something must be written
            os.ftruncate(file.fileno(), 0)
            os.write(file.fileno(), f"{what}, process {os.getpid()} on {socket.gethostname()}\n".encode())
        try:
            yield
        except FirmlakeError as error:
            record_failure(folders.state, what, error)
            raise
        finally:
            with suppress(OSError):
                os.ftruncate(file.fileno(), 0)


def holder(folders: Folders) -> str:
    """Say who holds the data folder; empty where nobody does."""
    path = folders.state / "lock"
    if not path.exists():
        return ""
    with path.open() as file:
        name = file.read().strip()
        if name:  # only then: whoever wants the lock at this moment must not find it taken by a mere look
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return name
    return ""
