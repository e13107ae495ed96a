"""Open a workbook to write; a disk that fills up is an OSError, and nothing else is said about it."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from xlsxwriter import Workbook
from xlsxwriter.exceptions import XlsxWriterException

_TEXT_STAYS_TEXT = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}


@contextmanager
def open_workbook(file: IO[bytes], scratch: Path, *, is_by_row: bool = True) -> Iterator[Workbook]:
    """Yield a workbook, and write it into a file at the end.

    Args:
        file: Open for writing.
        scratch: Folder for unfinished sheets. Nothing stays there; what a killed process left is removed.
        is_by_row: Whether sheets are written row by row, which takes constant memory; other rows would be lost.

    Raises:
        OSError: There is no room for it.
    """
    kept = _File(file)
    with ExitStack() as stack:
        folder = stack.enter_context(_sheets_folder(scratch))
        options = {"constant_memory": is_by_row, "tmpdir": folder, **_TEXT_STAYS_TEXT}
        try:
            with Workbook(kept, options) as book:
                stack.callback(_close_rows, book)
                yield book
        except (XlsxWriterException, OSError) as error:
            kept.is_given_up = True
            cause = error.args[0] if error.args and isinstance(error.args[0], OSError) else error
            raise cause if isinstance(cause, OSError) else OSError(str(error)) from error


_PREFIX, _SUFFIX, _LOCK = ".sheets-", ".part", "lock"


@contextmanager
def _sheets_folder(scratch: Path) -> Iterator[str]:
    """Yield a folder of this process, and remove those of processes that died: nobody holds their lock."""
    for rest in scratch.glob(f"{_PREFIX}*{_SUFFIX}"):
        with suppress(OSError), (rest / _LOCK).open("rb+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(rest)
    with (
        tempfile.TemporaryDirectory(dir=scratch, prefix=_PREFIX, suffix=_SUFFIX) as folder,
        (Path(folder) / _LOCK).open("xb") as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


class _File:
    """A file that takes what comes and keeps nothing once it is given up.

    The archive within xlsxwriter ends its file when it is collected, and would complain on stderr that it cannot.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.is_given_up = False

    def write(self, content: bytes) -> int:
        return len(content) if self.is_given_up else self._file.write(content)

    def seek(self, *place: int) -> int:
        return 0 if self.is_given_up else self._file.seek(*place)

    def tell(self) -> int:
        return 0 if self.is_given_up else self._file.tell()

    def flush(self) -> None:
        if not self.is_given_up:
            self._file.flush()

    def seekable(self) -> bool:
        return True


def _close_rows(book: Any) -> None:
    """Close the files in which a workbook keeps rows; it does so itself, unless a full disk ended it."""
    for sheet in book.worksheets():
        with suppress(OSError, ValueError, AttributeError):
            sheet.row_data_fh.close()
