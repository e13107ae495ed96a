"""Clean the sources of a data folder, or of a copy of one: what tables and generations are made from.

Lists, targets, plans, logs, landed answers, and the staged tables of runs whose answers were pruned. The tombstones
alone tell what to remove, and each file is replaced in one rename, so a killed call is simply made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
import polars as pl

from firmlake.core.files import read_json, write_file, write_json
from firmlake.core.folders import Folders
from firmlake.intake.lines import ListColumns, identity_of, read_columns, store_lines
from firmlake.intake.table import read_groups
from firmlake.landing.pages import Page, request_id
from firmlake.landing.run import LOG, Run, begin, list_runs, remove_rests, remove_unused_lists
from firmlake.landing.segments import Header, Landed, read_segment, rewrite_segment
from firmlake.privacy.cleaning import clean_frame, clean_json, clean_record
from firmlake.privacy.forgotten import Forgotten
from firmlake.service_lists import apply
from firmlake.tables.stage import StagedFile, read_manifest, replace_staged

_COMPANY = ["country", "company_number"]


def check_sources(folders: Folders) -> None:
    """Check that lists, targets and documents are unchanged; who searches the landed answers checks them too.

    DamagedError names the file that was changed, and says how to restore it.
    """
    for run in list_runs(folders):
        run.check()
    documents = (path for path, clean in _list_files(folders) if clean is _clean_document)
    for path in (*list_addresses(folders), *documents):
        read_json(path, msgspec.Raw)


def clean_sources(folders: Folders, forgotten: Forgotten) -> int:
    """Clean all sources, and return how many files named a subject. DamagedError names a file that was changed."""
    count = sum(clean(path, forgotten) for path, clean in _list_files(folders))
    return count + _clean_runs(folders, forgotten)


_Record = tuple[Header, bytes | None]
"""A header and its body; None if it was pruned."""


def clean_answers(records: Iterable[Landed], forgotten: Forgotten) -> tuple[list[_Record], int]:
    """Return the records of a segment without forgotten subjects, and how many changed."""
    renamed: dict[str, str] = {}
    before = [(one.header, one.body if one.body_frame else None) for one in records]
    after = [_clean_answer(header, body, forgotten, renamed) for header, body in before]
    return after, sum(new != old for new, old in zip(after, before, strict=True))


def list_addresses(folders: Folders) -> set[Path]:
    """List the files with the addresses of copies. They are not cleaned: a cleaned address would lead nowhere."""
    return {path for pattern in ("archives.json", "exports/*.json") for path in folders.state.glob(pattern)}


def decode_line(line: bytes) -> tuple[str, str]:
    """Decode a line of a text as the intake does, as UTF-8 if it is valid, else Windows-1252; return text and encoding.

    With `surrogateescape` the encoding gives the same bytes back.
    """
    try:
        return line.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return line.decode("cp1252", "surrogateescape"), "cp1252"


def _list_files(folders: Folders) -> Iterator[tuple[Path, Callable[[Path, Forgotten], bool]]]:
    """List the files of `_SOURCES`, except the tombstones and the addresses of copies."""
    kept = {folders.tombstones, *list_addresses(folders)}
    for clean, patterns in _SOURCES:
        found = {path for pattern in patterns for path in folders.data.glob(pattern)}
        yield from ((path, clean) for path in sorted(found - kept) if path.is_file())


def _clean_text(path: Path, forgotten: Forgotten) -> bool:
    """Clean a text line by line; lines of forgotten companies are removed.

    A list that is not text, such as a workbook, is removed whoever it names; the user can supply it again.
    """
    content = path.read_bytes()
    if b"\0" in content:
        path.unlink()
        return False
    lines = content.splitlines(keepends=True)
    cleaned = [_clean_line(line, forgotten) for line in lines]
    if is_named := cleaned != lines:
        write_file(path, lambda aside: aside.write_bytes(b"".join(cleaned)))
    return is_named


def _clean_line(line: bytes, forgotten: Forgotten) -> bytes:
    text, encoding = decode_line(line)
    cleaned = forgotten.clean(text, None, has_contacts=True)
    if cleaned is None or (forgotten.has_companies and cleaned != text and forgotten.names_company(text)):
        return b"\n" if line.endswith(b"\n") else b""
    return cleaned.encode(encoding, "surrogateescape")


def _clean_document(path: Path, forgotten: Forgotten) -> bool:
    content = bytes(read_json(path, msgspec.Raw))
    if is_named := (cleaned := clean_record(content, forgotten)) != content:
        write_json(path, msgspec.Raw(cleaned))
    return is_named


def _clean_segment(path: Path, forgotten: Forgotten) -> bool:
    records, count = clean_answers(read_segment(path), forgotten)
    if count:
        rewrite_segment(path, records)
    return count > 0


def _clean_answer(header: Header, body: bytes | None, forgotten: Forgotten, renamed: dict[str, str]) -> _Record:
    """Clean an answer. The id of a request is a hash of its companies or contacts, so it changes with them.

    The checksum of the body as it was received is kept only as a keyed hash, so that nobody can test a guess.
    """
    content = (clean_record if header.kind in LOG else clean_json)(body, forgotten) if body else body
    companies = tuple(company for company in header.companies if not forgotten.has_company(company))
    if header.dataset == "contacts":
        if header.kind == "sending" and content and content != body:
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


def _clean_runs(folders: Folders, forgotten: Forgotten) -> int:
    """Clean list, targets and staged tables of each run. After a crash, either all old or all new files are in use."""
    lists: dict[Path, Path] = {}
    count = 0
    for run in list_runs(folders):
        stored = run.checked("list")
        if stored not in lists:
            lists[stored] = _clean_list(stored, forgotten)
        cleaned = _clean_targets(run, lists[stored], forgotten)
        count += (cleaned is not run) + _clean_staged(cleaned, forgotten)
    remove_unused_lists(folders)
    return count


def _clean_targets(run: Run, stored: Path, forgotten: Forgotten) -> Run:
    """Clean the targets of a run and name its cleaned list; return the same run if neither changed."""
    targets = pl.read_parquet(run.checked("targets"), glob=False)
    after = clean_frame(targets, forgotten)
    if stored == run.path("list") and after is targets:
        remove_rests(run)
        return run
    return begin(_recount(run, stored, targets, after), after)


def _clean_list(stored: Path, forgotten: Forgotten) -> Path:
    """Return the file of the cleaned list, the same if it names nobody."""
    columns = msgspec.json.encode(read_columns(stored))
    named = clean_record(columns, forgotten)
    if named == columns and all(clean_frame(lines, forgotten) is lines for lines in read_groups(stored)):
        return stored
    cleaned = (clean_frame(lines, forgotten) for lines in read_groups(stored))
    return store_lines(stored.parent, msgspec.json.decode(named, type=ListColumns), cleaned)


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


def _clean_staged(run: Run, forgotten: Forgotten) -> int:
    """Clean the staged tables of a run whose landed answers were pruned, and return how many changed."""
    manifest, folder = read_manifest(run), run.folders.staged(run.run_id)
    if not run.is_pruned or manifest is None:
        return 0
    files = [file for file in manifest.files if (folder / file.path).exists()]
    before = {file: pl.read_parquet(folder / file.path, glob=False) for file in files}
    after = {file: clean_frame(frame, forgotten) for file, frame in before.items()}
    count = sum(after[file] is not before[file] for file in files)
    if count:
        replace_staged(run, manifest, _without_traces(before, after, forgotten))
    return count


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


_SOURCES = (
    (_clean_text, ("state/inputs/**/*", "lists/*", "*.log", "*.jsonl", "*.prom", "logs/**/*")),
    (
        _clean_document,
        (
            "landing/service_lists/*/plan.json", "landing/contacts/*/plan.json", "plans/*.json",
            "landing/list_names/*.json", "state/*.json", "state/failed_work/*.json", "state/failures/*.json",
        ),
    ),
    (
        _clean_segment,
        (
            "landing/run=*/log/[0-9]*.zst", "landing/run=*/shard=*/[0-9]*.zst", "landing/service_lists/*/[0-9]*.zst",
            "landing/contacts/*/[0-9]*.zst",
        ),
    ),
)  # fmt: skip
"""All sources but the tables of runs: how a file is cleaned, and where the files are."""
