"""Check and clean the source files of staged tables and warehouse, in a data folder or a copy of one."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from firmlake.core.files import read_json
from firmlake.core.folders import Folders
from firmlake.forget.documents import clean_documents, clean_inputs, clean_runs, documents
from firmlake.forget.landed import clean_landing, segments
from firmlake.forget.place import Place
from firmlake.landing.run import list_runs
from firmlake.landing.segments import read_segment
from firmlake.privacy.forgotten import Forgotten

__all__ = ["check_sources", "clean_sources"]


def check_sources(folders: Folders) -> None:
    """Check that lists, targets, landed answers and documents are unchanged.

    Raises:
        DamagedError: A file was changed. The message names the file and says how to restore it.
    """
    for run in list_runs(folders):
        run.check()
    for path in documents(folders):
        read_json(path, msgspec.Raw)
    for path in segments(folders):
        for _ in read_segment(path):
            pass


def clean_sources(folders: Folders, forgotten: Forgotten, *, write: bool) -> Iterator[Place]:
    """Clean lists, plans, refused lines and landed answers.

    Yields:
        A place for each file that names a forgotten subject.

    Raises:
        DamagedError: The contents of a file do not match its checksum. Restore the file.
    """
    for clean in (clean_inputs, clean_documents, clean_runs, clean_landing):
        yield from clean(folders, forgotten, write=write)
