"""Clean the sources of a data folder, or of a copy of one: what tables and generations are made from.

Lists, targets, plans, logs, landed answers, and the staged tables of runs whose answers were pruned. The tombstones
alone tell what to remove, and each file is replaced in one rename, so a killed call is simply made again.
"""

from __future__ import annotations

import gzip
import io
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import polars as pl

from firmlake.core.files import decompress_frames, read_json, write_file, write_json
from firmlake.core.folders import Folders
from firmlake.intake.lines import ListColumns, identity_of, read_columns, store_lines
from firmlake.landing.pages import Page, request_id
from firmlake.landing.run import LOG, Run, begin, list_runs, remove_rests, remove_unused_lists
from firmlake.landing.segments import Header, Landed, read_segment, rewrite_segment
from firmlake.privacy.cleaning import clean_frame, clean_json, clean_record, count_changed
from firmlake.privacy.forgotten import Forgotten
from firmlake.service_lists import apply
from firmlake.tables.stage import StagedFile, read_manifest, replace_staged

PARQUET = b"PAR1"
_CELL = re.compile(r"[^<>\r\n\t;,|\"]+")
_COMPANY = ["country", "company_number"]


class Place(NamedTuple):
    """A part of a file or object that names a forgotten subject.

    Attributes:
        what: "answers", "list", "plan", "staged", a table, ...
        row_count: The number of records, rows or lines that name a forgotten subject; 1 if they were not counted.
    """

    path: Path | str
    what: str
    row_count: int


def check_sources(folders: Folders) -> None:
    """Check that lists, targets, landed answers and documents are unchanged.

    Raises:
        DamagedError: A file was changed. The message names the file and says how to restore it.
    """
    for run in list_runs(folders):
        run.check()
    for path in list_addresses(folders):
        read_json(path, msgspec.Raw)
    for _, path, clean in _list_files(folders):
        if clean is _clean_document:
            read_json(path, msgspec.Raw)
        elif clean is _clean_segment:
            for _ in read_segment(path):
                pass


def clean_sources(folders: Folders, forgotten: Forgotten) -> list[Place]:
    """Clean all sources, and return a place for each file that named a forgotten subject.

    Raises:
        DamagedError: The contents of a file do not match its checksum. Restore the file.
    """
    places = []
    for what, path, clean in _list_files(folders):
        if count := clean(path, forgotten):
            places.append(Place(path, what if path.exists() else _REMOVED, count))
    return [*places, *_clean_runs(folders, forgotten)]


def clean_answers(records: Iterable[Landed], forgotten: Forgotten) -> tuple[list[tuple[Header, bytes]], int]:
    """Return the records of a segment without forgotten subjects, and how many changed."""
    renamed: dict[str, str] = {}
    before = [(one.header, one.body) for one in records]
    after = [_clean_answer(header, body, forgotten, renamed) for header, body in before]
    return after, sum(new != old for new, old in zip(after, before, strict=True))


def list_addresses(folders: Folders) -> set[Path]:
    """List the files with the addresses of copies. They are not cleaned: a cleaned address would lead nowhere."""
    return {path for pattern in ("archives.json", "exports/*.json") for path in folders.state.glob(pattern)}


def unpack(content: bytes) -> Iterator[bytes]:
    """Yield everything that the bytes of a file say.

    Raises:
        OSError, zipfile.BadZipFile, ZstdError, pl.exceptions.PolarsError: The bytes are damaged.
    """
    for start, unpack_packed in _PACKED.items():
        if content.startswith(start):
            yield from unpack_packed(content)
            return
    yield content
    lines = [] if b"\0" in content else [decode_line(line) for line in content.splitlines(keepends=True)]
    if any(encoding != "utf-8" for _, encoding in lines):
        yield "".join(text for text, _ in lines).encode("utf-8", "replace")


def decode_line(line: bytes) -> tuple[str, str]:
    """Decode a line of a text as the intake does: UTF-8 if it is valid, else Windows-1252.

    Returns:
        The text, and its encoding. With `surrogateescape` the encoding gives the same bytes back.
    """
    try:
        return line.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return line.decode("cp1252", "surrogateescape"), "cp1252"


def may_name(content: bytes, forgotten: Forgotten) -> bool:
    """Return whether a list in a binary format may name a forgotten subject; False means that it certainly does not.

    A list in a format that cannot be unpacked, such as an old workbook, always may.
    """
    pieces = list(unpack(content)) if content.startswith(tuple(_PACKED)) else []
    cells = {cell.strip() for piece in pieces for cell in _CELL.findall(piece.decode("utf-8", "replace"))}
    return (
        not pieces
        or bool(forgotten.spelled_in(b"\n".join(pieces), shortest=2))
        or any(forgotten.clean(cell, has_contacts=True) != cell for cell in cells)
    )


def _list_files(folders: Folders) -> Iterator[tuple[str, Path, Callable[[Path, Forgotten], int]]]:
    """List the files of `_SOURCES`, except the tombstones and the addresses of copies."""
    kept = {folders.tombstones, *list_addresses(folders)}
    for what, clean, patterns in _SOURCES:
        found = {path for pattern in patterns for path in folders.data.glob(pattern)}
        yield from ((what, path, clean) for path in sorted(found - kept) if path.is_file())


def _clean_text(path: Path, forgotten: Forgotten) -> int:
    """Clean a text line by line; lines of forgotten companies are removed.

    A list that is not text, such as a workbook, is removed if it may name a forgotten subject; the user can supply it
    again.
    """
    content = path.read_bytes()
    if b"\0" in content:
        if is_named := may_name(content, forgotten):
            path.unlink()
        return int(is_named)
    lines = content.splitlines(keepends=True)
    cleaned = [_clean_line(line, forgotten) for line in lines]
    if cleaned != lines:
        write_file(path, lambda aside: aside.write_bytes(b"".join(cleaned)))
    return sum(new != old for new, old in zip(cleaned, lines, strict=True))


def _clean_line(line: bytes, forgotten: Forgotten) -> bytes:
    text, encoding = decode_line(line)
    cleaned = forgotten.clean(text, None, has_contacts=True)
    if cleaned is None or (forgotten.has_companies and cleaned != text and forgotten.names_company(text)):
        return b"\n" if line.endswith(b"\n") else b""
    return cleaned.encode(encoding, "surrogateescape")


def _clean_document(path: Path, forgotten: Forgotten) -> int:
    content = bytes(read_json(path, msgspec.Raw))
    if is_named := (cleaned := clean_record(content, forgotten)) != content:
        write_json(path, msgspec.Raw(cleaned))
    return int(is_named)


def _clean_segment(path: Path, forgotten: Forgotten) -> int:
    records, count = clean_answers(read_segment(path), forgotten)
    if count:
        rewrite_segment(path, records)
    return count


def _clean_answer(header: Header, body: bytes, forgotten: Forgotten, renamed: dict[str, str]) -> tuple[Header, bytes]:
    """Clean an answer. The id of a request is a hash of its companies or contacts, so it changes with them.

    The checksum of the body as it was received is kept only as a keyed hash, so that nobody can test a guess.
    """
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


def _clean_runs(folders: Folders, forgotten: Forgotten) -> Iterator[Place]:
    """Clean list, targets and staged tables of each run. After a crash, either all old or all new files are in use."""
    lists: dict[Path, Path] = {}
    for run in list_runs(folders):
        stored, path = run.checked("list"), run.checked("targets")
        if stored not in lists:
            lists[stored], count = _clean_list(stored, forgotten)
            if count:
                yield Place(stored, "list", count)
        targets = pl.read_parquet(path, glob=False)
        after = clean_frame(targets, forgotten)
        if after is not targets:
            yield Place(path, "targets", count_changed(targets, after))
        if lists[stored] != stored or after is not targets:
            run = begin(_recount(run, lists[stored], targets, after), after)
        else:
            remove_rests(run)
        yield from _clean_staged(run, forgotten)
    remove_unused_lists(folders)


def _clean_list(stored: Path, forgotten: Forgotten) -> tuple[Path, int]:
    """Return the file of the cleaned list, the same if nothing changed; and how many lines, or its names, changed."""
    lines, columns = pl.read_parquet(stored, glob=False), msgspec.json.encode(read_columns(stored))
    after, named = clean_frame(lines, forgotten), clean_record(columns, forgotten)
    count = count_changed(lines, after) + (named != columns)
    if not count:
        return stored, 0
    return store_lines(stored.parent, msgspec.json.decode(named, type=ListColumns), [after]), count


def _recount(run: Run, stored: Path, before: pl.DataFrame, after: pl.DataFrame) -> Run:
    """Name the cleaned list of a run, whose lines of forgotten companies are refused now, and count again."""
    again = run.with_list(stored)
    companies, asked = again.companies(), after.select(_COMPANY).unique()
    bought = before.filter((pl.col("shard") > 0) & ~pl.col("is_paid")).select(_COMPANY).unique()
    plan, count = again.plan, run.companies().height - companies.height
    plan = msgspec.structs.replace(
        plan,
        list_sha256=identity_of(companies),
        company_count=plan.company_count - count,
        refused_count=plan.refused_count + count,
        target_count=asked.height,
        fresh_count=plan.company_count - count - asked.height,
        forgotten_count=plan.forgotten_count + bought.join(asked, on=_COMPANY, how="anti").height,
    )
    return again if not count else Run(run.folders, plan)


def _clean_staged(run: Run, forgotten: Forgotten) -> Iterator[Place]:
    """Clean the staged tables of a run whose landed answers were pruned."""
    manifest, folder = read_manifest(run), run.folders.staged(run.run_id)
    if not run.is_pruned or manifest is None:
        return
    files = [file for file in manifest.files if (folder / file.path).exists()]
    before = {file: pl.read_parquet(folder / file.path, glob=False) for file in files}
    after = {file: clean_frame(frame, forgotten) for file, frame in before.items()}
    counts = {file: count_changed(before[file], after[file]) for file in files if after[file] is not before[file]}
    if counts:
        replace_staged(run, manifest, _without_traces(before, after, forgotten))
    yield from (Place(folder / file.path, "staged", count) for file, count in counts.items())


def _without_traces(
    before: Mapping[StagedFile, pl.DataFrame], after: Mapping[StagedFile, pl.DataFrame], forgotten: Forgotten
) -> dict[StagedFile, pl.DataFrame]:
    """Return cleaned tables without the hashes of what they were made from, so that nobody can test a guess.

    The hashes of answers change for companies whose rows changed. The ids of requests, which are hashes of their
    companies, change for all once a company was removed, because the tables do not show which requests named it.
    """

    def keyed(column: str, times: int = 1) -> pl.Expr:
        return pl.col(column).map_elements(lambda value: value and forgotten.keyed(value) * times, pl.String)

    rows_before = {file: frame for file, frame in before.items() if {*_COMPANY} <= {*frame.columns}}
    changed = [
        frame.join(after[file], on=frame.columns, how="anti", nulls_equal=True).select(_COMPANY)
        for file, frame in rows_before.items()
        if after[file] is not frame
    ]
    is_shorter = any(frame.height > after[file].height for file, frame in before.items())
    frames = {}
    for file, frame in after.items():
        if changed and file.table == "company_state":
            companies = pl.concat(changed).unique().with_columns(is_changed=True)
            marked = frame.join(companies, on=_COMPANY, how="left", maintain_order="left")
            hashes = pl.when("is_changed").then(keyed("payload_hash", times=2)).otherwise("payload_hash")
            frame = marked.with_columns(payload_hash=hashes).drop("is_changed")
        if is_shorter and "request_id" in frame.columns:
            frame = frame.with_columns(keyed("request_id"))
        if frame is not before[file]:
            frames[file] = frame
    return frames


def _unzip(content: bytes) -> Iterator[bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        for name in packed.namelist():
            yield name.encode()
            yield from unpack(packed.read(name))


def _read_parquet(content: bytes) -> Iterator[bytes]:
    yield content[-8 - int.from_bytes(content[-8:-4], "little") :]  # the metadata
    for column in pl.read_parquet(io.BytesIO(content)).iter_columns():
        if column.dtype == pl.String or column.dtype.is_integer():
            yield "\n".join(column.drop_nulls().unique().cast(pl.String)).encode()


_REMOVED = "list, removed because it is not a text file"
_SOURCES = (
    ("list", _clean_text, ("state/inputs/**/*", "lists/*", "*.log", "*.jsonl", "*.prom", "logs/**/*")),
    ("plan", _clean_document, ("landing/service_lists/*/plan.json", "landing/contacts/*/plan.json", "plans/*.json")),
    (
        "record",
        _clean_document,
        ("landing/list_names/*.json", "state/*.json", "state/failed_work/*.json", "state/failures/*.json"),
    ),
    ("record", _clean_segment, ("landing/run=*/log/[0-9]*.zst",)),
    (
        "answers",
        _clean_segment,
        ("landing/run=*/shard=*/[0-9]*.zst", "landing/service_lists/*/[0-9]*.zst", "landing/contacts/*/[0-9]*.zst"),
    ),
)
"""All sources but the tables of runs: what they are, how a file is cleaned, and where the files are."""

_PACKED: dict[bytes, Callable[[bytes], Iterator[bytes]]] = {
    PARQUET: _read_parquet,
    b"PK\x03\x04": _unzip,
    b"\x1f\x8b": lambda content: unpack(gzip.decompress(content)),
    **dict.fromkeys((b"\x28\xb5\x2f\xfd", b"\x57\x2a\x4d\x18"), lambda content: iter([decompress_frames(content)])),
    **dict.fromkeys((b"\xff\xfe", b"\xfe\xff"), lambda content: iter([content.decode("utf-16", "replace").encode()])),
}
"""How files are unpacked that begin with these bytes: Parquet, zip, gzip, zstd and UTF-16."""
