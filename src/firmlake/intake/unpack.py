"""Open the only file of a ZIP archive, which stays unpacked while it is read."""

from __future__ import annotations

import shutil
import tempfile
import weakref
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

import polars as pl

from firmlake.core.errors import CompanyListError
from firmlake.intake.detect import only_member
from firmlake.intake.table import TextTable

__all__ = ["open_member"]


class _Folder:
    """A temporary folder that is removed when nothing refers to it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="firmlake-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def open_member(path: Path, open_file: Callable[[Path], TextTable]) -> TextTable:
    """Open the only file of an archive as a table; error messages name the archive.

    Args:
        path: A ZIP archive that `find_format` has accepted.
        open_file: Opens the unpacked file.
    """
    folder = _Folder()
    with zipfile.ZipFile(path) as archive:
        member = only_member(archive)
        if member is None:
            raise CompanyListError(f"{path} is a ZIP archive with several files", "Unpack it and name one file")
        target = folder.path / (PurePosixPath(member.filename).name or "list")
        with archive.open(member) as source, target.open("wb") as file:
            shutil.copyfileobj(source, file, 2**20)

    def named(error: CompanyListError) -> CompanyListError:
        shown = f"{path} ({member.filename})"
        return CompanyListError(error.message.replace(str(target), shown), error.next_step.replace(str(target), shown))

    def batches(positions: Sequence[int]) -> Iterator[pl.DataFrame]:
        assert folder.path  # keeps the folder alive while batches are read
        try:
            yield from table.batches(positions)
        except CompanyListError as error:
            raise named(error) from error

    try:
        table = open_file(target)
    except CompanyListError as error:
        raise named(error) from error
    return replace(table, batches=batches)
