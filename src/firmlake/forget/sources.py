"""Clean the sources of a data folder, or of a copy of one: what tables and generations are made from.

Lists, targets, plans, logs, landed answers, and the staged tables of runs whose answers were pruned. The tombstones
alone tell what to remove, and each file is replaced in one rename, so a killed call is simply made again.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
import polars as pl

from firmlake.core.files import read_json, sha256_of, write_file, write_json, write_parquet
from firmlake.core.folders import Folders
from firmlake.forget.proof import Place, decode_line, list_addresses, may_name
from firmlake.intake.lines import ListColumns, identity_of, read_columns, store_lines
from firmlake.landing.pages import Page, request_id
from firmlake.landing.run import LOG, Run, begin, list_runs, remove_rests, remove_unused_lists
from firmlake.landing.segments import Header, list_segments, read_segment, rewrite_segment
from firmlake.privacy.cleaning import clean_frame, clean_json, clean_record, count_changed
from firmlake.privacy.forgotten import Forgotten
from firmlake.service_lists import apply
from firmlake.tables.stage import Manifest, StagedFile, read_manifest

_COMPANY = ["country", "company_number"]
_DOCUMENTS = (
    "landing/service_lists/*/plan.json", "landing/contacts/*/plan.json", "landing/list_names/*.json", "plans/*.json",
    "state/*.json", "state/exports/*.json", "state/failed_work/*.json", "state/failures/*.json",
)  # fmt: skip
_TEXTS = ("state/inputs/**/*", "lists/*", "*.log", "*.jsonl", "*.prom", "logs/**/*")


def check_sources(folders: Folders) -> None:
    """Check that lists, targets, landed answers and documents are unchanged.

    Raises:
        DamagedError: A file was changed. The message names the file and says how to restore it.
    """
    for run in list_runs(folders):
        run.check()
    for path in _documents(folders):
        read_json(path, msgspec.Raw)
    for path in _segments(folders):
        for _ in read_segment(path):
            pass


def clean_sources(folders: Folders, forgotten: Forgotten) -> list[Place]:
    """Clean all sources, and return a place for each file that named a forgotten subject.

    Raises:
        DamagedError: The contents of a file do not match its checksum. Restore the file.
    """
    cleaners = (_clean_texts, _clean_documents, _clean_runs, _clean_answers, _clean_pruned)
    return [place for clean in cleaners for place in clean(folders, forgotten)]


def replace_staged(run: Run, manifest: Manifest, frames: Mapping[str, pl.DataFrame]) -> None:
    """Replace staged files by files with new names. After a crash, either all old or all new files are in use."""
    folder, mark = run.folders.staged(run.run_id), secrets.token_hex(3)
    files = []
    for file in manifest.files:
        if (frame := frames.get(file.path)) is not None:
            path = folder / Path(file.path).with_stem(f"{Path(file.path).stem.partition('~')[0]}~{mark}")
            write_parquet(path, frame)
            name, size = path.relative_to(folder).as_posix(), path.stat().st_size
            file = StagedFile(file.table, name, frame.height, size, sha256_of(path))
        files.append(file)
    write_json(folder / "manifest.json", msgspec.structs.replace(manifest, files=tuple(files)))
    named = {folder / file.path for file in files}
    for path in [*folder.rglob("*.parquet"), *folder.glob("shard=*.json")]:
        if path not in named:
            path.unlink()


def remove_parts(folder: Path) -> None:
    """Remove unfinished files, and folders of unfinished sheets, that killed processes left."""
    for path in list(folder.rglob(".*.part")):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _clean_texts(folders: Folders, forgotten: Forgotten) -> Iterator[Place]:
    """Clean log files, metrics, and kept copies of lists; lines of forgotten companies are removed.

    A list that is not text, such as a workbook, is removed if it may name a forgotten subject; the user can supply it
    again.
    """
    for path in sorted(path for pattern in _TEXTS for path in folders.data.glob(pattern) if path.is_file()):
        content = path.read_bytes()
        if b"\0" in content:
            if may_name(content, forgotten):
                path.unlink()
                yield Place(path, "list, removed because it is not a text file", 1)
            continue
        lines = content.splitlines(keepends=True)
        cleaned = [_clean_line(line, forgotten) for line in lines]
        if cleaned != lines:
            _write(path, b"".join(cleaned))
            yield Place(path, "list", sum(new != old for new, old in zip(cleaned, lines, strict=True)))


def _clean_line(line: bytes, forgotten: Forgotten) -> bytes:
    text, encoding = decode_line(line)
    cleaned = forgotten.clean(text, None, has_contacts=True)
    if cleaned is None or (forgotten.has_companies and cleaned != text and forgotten.names_company(text)):
        return b"\n" if line.endswith(b"\n") else b""
    return cleaned.encode(encoding, "surrogateescape")


def _write(path: Path, content: bytes) -> None:
    write_file(path, lambda aside: aside.write_bytes(content))


def _documents(folders: Folders) -> list[Path]:
    """List the JSON files of a data folder, except the tombstones."""
    found = sorted(path for pattern in _DOCUMENTS for path in folders.data.glob(pattern))
    return [path for path in found if path != folders.tombstones]


def _clean_documents(folders: Folders, forgotten: Forgotten) -> Iterator[Place]:
    addresses = list_addresses(folders)
    for path in (path for path in _documents(folders) if path not in addresses):
        content = bytes(read_json(path, msgspec.Raw))
        cleaned = clean_record(content, forgotten)
        if cleaned != content:
            write_json(path, msgspec.Raw(cleaned))
            yield Place(path, "plan" if path.name == "plan.json" or "plans" in path.parts else "record", 1)


def _clean_runs(folders: Folders, forgotten: Forgotten) -> Iterator[Place]:
    """Clean log, list and targets of each run. After a crash, either all old or all new files are in use."""
    cleaned: dict[Path, Path | None] = {}
    for run in list_runs(folders):
        stored = run.checked("list")
        if stored not in cleaned:
            cleaned[stored], count = _clean_list(stored, forgotten)
            if count:
                yield Place(stored, "list", count)
        targets = pl.read_parquet(run.checked("targets"), glob=False)
        after = clean_frame(targets, forgotten)
        if after is not targets:
            yield Place(run.checked("targets"), "targets", count_changed(targets, after))
        if cleaned[stored] or after is not targets:
            run = begin(_recount(run, cleaned[stored] or stored, targets, after), after)
        else:
            remove_rests(run)
        yield from _clean_segments(list_segments(folders.log(run.run_id)), forgotten, "record")
    remove_unused_lists(folders)


def _clean_list(stored: Path, forgotten: Forgotten) -> tuple[Path | None, int]:
    """Return the file of a cleaned list, None if nothing changed; and how many lines, or its names, changed."""
    lines, columns = pl.read_parquet(stored, glob=False), msgspec.json.encode(read_columns(stored))
    after, named = clean_frame(lines, forgotten), clean_record(columns, forgotten)
    count = count_changed(lines, after) + (named != columns)
    if not count:
        return None, 0
    return store_lines(stored.parent, msgspec.json.decode(named, type=ListColumns), [after]), count


def _recount(run: Run, stored: Path, before: pl.DataFrame, after: pl.DataFrame) -> Run:
    """Name the cleaned list of a run, whose lines of forgotten companies are refused now, and count again."""
    again = Run(run.folders, msgspec.structs.replace(run.plan, files={**run.plan.files, "list": stored.stem}))
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


def _segments(folders: Folders) -> list[Path]:
    """List the segments of runs, overviews and contacts."""
    return sorted(path for path in folders.landed.rglob("*.zst") if path.stem.isdecimal())


def _clean_answers(folders: Folders, forgotten: Forgotten) -> Iterator[Place]:
    """Clean answers of runs, overviews of service lists, and answers about contacts."""
    answers = (path for path in _segments(folders) if path.parent.name != "log")
    yield from _clean_segments(answers, forgotten, "answers")


def _clean_segments(paths: Iterable[Path], forgotten: Forgotten, what: str) -> Iterator[Place]:
    for path in paths:
        renamed: dict[str, str] = {}
        before = [(one.header, one.body) for one in read_segment(path)]
        after = [_clean_answer(header, body, forgotten, renamed) for header, body in before]
        if count := sum(new != old for new, old in zip(after, before, strict=True)):
            rewrite_segment(path, after)
            yield Place(path, what, count)


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


def _clean_pruned(folders: Folders, forgotten: Forgotten) -> Iterator[Place]:
    """Clean the staged tables of runs whose landed answers were pruned."""
    for run in list_runs(folders):
        folder, manifest = folders.staged(run.run_id), read_manifest(run)
        if not run.is_pruned or manifest is None:
            continue
        paths = [file.path for file in manifest.files if (folder / file.path).exists()]
        before = {path: pl.read_parquet(folder / path, glob=False) for path in paths}
        after = {path: clean_frame(frame, forgotten) for path, frame in before.items()}
        changed = [path for path in paths if after[path] is not before[path]]
        if changed:
            tables = {file.path: file.table for file in manifest.files}
            replace_staged(run, manifest, _without_traces(before, after, tables, forgotten))
        for path in changed:
            yield Place(folder / path, "staged", count_changed(before[path], after[path]))


def _without_traces(
    before: Mapping[str, pl.DataFrame],
    after: Mapping[str, pl.DataFrame],
    tables: Mapping[str, str],
    forgotten: Forgotten,
) -> dict[str, pl.DataFrame]:
    """Return cleaned tables without the hashes of what they were made from, so that nobody can test a guess.

    The hashes of answers change for companies whose rows changed. The ids of requests, which are hashes of their
    companies, change for all once a company was removed, because the tables do not show which requests named it.
    """
    parts = [
        before[path].join(after[path], on=before[path].columns, how="anti", nulls_equal=True).select(_COMPANY)
        for path in before
        if after[path] is not before[path] and set(_COMPANY) <= set(before[path].columns)
    ]
    changed = pl.concat(parts).unique() if parts else None
    is_shorter = any(before[path].height > after[path].height for path in before)

    def keyed(column: str, times: int = 1) -> pl.Expr:
        return pl.col(column).map_elements(lambda value: value and forgotten.keyed(value) * times, pl.String)

    found = {}
    for path, frame in after.items():
        if changed is not None and tables[path] == "company_state":
            marked = frame.join(changed.with_columns(is_changed=True), on=_COMPANY, how="left", maintain_order="left")
            hashes = pl.when("is_changed").then(keyed("payload_hash", times=2)).otherwise("payload_hash")
            frame = marked.with_columns(payload_hash=hashes).drop("is_changed")
        if is_shorter and "request_id" in frame.columns:
            frame = frame.with_columns(keyed("request_id"))
        if frame is not before[path]:
            found[path] = frame
    return found
