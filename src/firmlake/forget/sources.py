"""Clean the files from which staged tables and the warehouse are made, in a data folder or a copy of one."""

from __future__ import annotations

from collections.abc import Iterator

from firmlake.core.folders import Folders
from firmlake.forget.frozen import clean_documents, clean_inputs, clean_runs
from firmlake.forget.landed import clean_landing
from firmlake.forget.place import Place
from firmlake.privacy.forgotten import Forgotten

__all__ = ["clean_sources"]


def clean_sources(folders: Folders, forgotten: Forgotten, *, write: bool) -> Iterator[Place]:
    """Clean lists, plans, refused lines and landed answers.

    Yields:
        A place for each file that names a forgotten subject.

    Raises:
        DamagedError: The contents of a file do not match its checksum. Restore the file.
    """
    for clean in (clean_inputs, clean_documents, clean_runs, clean_landing):
        yield from clean(folders, forgotten, write=write)
