"""Clean landed segments: replace matched values, and keep the original checksum only as a keyed hash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from firmlake.core.folders import Folders
from firmlake.forget.place import Place
from firmlake.landing.pages import Page, request_id
from firmlake.landing.run import LOG
from firmlake.landing.segments import Header, read_segment, rewrite_segment
from firmlake.privacy.cleaning import clean_json, clean_record
from firmlake.privacy.forgotten import Forgotten
from firmlake.service_lists import apply

__all__ = ["clean_landing", "clean_segment", "segments"]

Record = tuple[Header, bytes]


def clean_landing(folders: Folders, forgotten: Forgotten, *, write: bool) -> Iterator[Place]:
    """Clean all segments: answers of runs, overviews of service lists, and answers about contacts.

    Args:
        folders: The data folder.
        forgotten: The forgotten subjects.
        write: False only finds the places, and changes nothing.

    Yields:
        A place for each segment that names a forgotten subject, with the number of such answers.

    Raises:
        DamagedError: The contents of a segment do not match its checksum. Restore the segment.
    """
    answers = (path for path in segments(folders) if path.parent.name != "log")
    yield from clean_segments(answers, forgotten, "answers", write=write)


def clean_segments(paths: Iterable[Path], forgotten: Forgotten, what: str, *, write: bool) -> Iterator[Place]:
    """Clean segments, and yield a place for each that names a forgotten subject."""
    for path in paths:
        records, count = clean_segment(path, forgotten)
        if count:
            if write:
                rewrite_segment(path, records)
            yield Place(path, what, count)


def segments(folders: Folders) -> list[Path]:
    """List the segments of runs, overviews and contacts."""
    return sorted(path for path in folders.landed.rglob("*.zst") if path.stem.isdecimal())


def clean_segment(path: Path, forgotten: Forgotten) -> tuple[list[Record], int]:
    """Return the cleaned records of a segment, and how many of them changed."""
    cleaned: list[Record] = []
    renamed: dict[str, str] = {}
    count = 0
    for landed in read_segment(path):
        body = landed.body
        record = _clean(landed.header, body, forgotten, renamed)
        count += record != (landed.header, body)
        cleaned.append(record)
    return cleaned, count


# ---------------------------------------------------------------------------------------------------------------------


def _clean(header: Header, body: bytes, forgotten: Forgotten, renamed: dict[str, str]) -> Record:
    """Clean an answer. The id of a request is a hash of its companies or contacts, so it changes with them."""
    content = (clean_record if header.kind in LOG else clean_json)(body, forgotten) if body else body
    companies = tuple(company for company in header.companies if not forgotten.has_company(company))
    if header.dataset == "contacts":
        if header.kind == "sending" and content != body:
            renamed[header.request_id] = apply.request_id(header.run_id, content)
    elif header.request_id and companies != header.companies and header.request_id not in renamed:
        page = Page(header.dataset, companies, header.limit, header.offset)
        renamed[header.request_id] = request_id(header.run_id, page, header.language)
    original = header.original or forgotten.keyed(header.body_sha256)
    return msgspec.structs.replace(
        header,
        companies=companies,
        request_id=renamed.get(header.request_id, header.request_id),
        error=forgotten.clean(header.error) or "",
        headers={name: forgotten.clean(value) or "" for name, value in header.headers.items()},
        original=header.original if content == body else original,
    ), content
