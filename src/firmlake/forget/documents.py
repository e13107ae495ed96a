"""Clean what is neither answer nor table: logs and lists of runs, plans of contacts, records of failures."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import polars as pl

from firmlake.core.files import read_json, write_file, write_json
from firmlake.core.folders import Folders
from firmlake.forget.landed import clean_segments
from firmlake.forget.packed import decode_line, may_name
from firmlake.forget.place import Place, count_changed
from firmlake.intake.lines import ListColumns, identity_of, read_columns, store_lines
from firmlake.landing.run import Run, begin, list_runs, remove_rests, remove_unused_lists
from firmlake.landing.segments import list_segments
from firmlake.privacy.cleaning import clean_record
from firmlake.privacy.forgotten import Forgotten
from firmlake.privacy.frames import clean_frame

__all__ = ["clean_documents", "clean_inputs", "clean_runs", "documents", "list_addresses", "remove_parts"]

_DOCUMENTS = (
    "landing/service_lists/*/plan.json", "landing/contacts/*/plan.json", "landing/list_names/*.json", "plans/*.json",
    "state/*.json", "state/exports/*.json", "state/failed_work/*.json", "state/failures/*.json",
)  # fmt: skip
_ADDRESSES = ("archives.json", "exports/*.json")
"""Files of `state/` with addresses of copies. They are not cleaned, because a cleaned address would lead nowhere."""
_INPUTS = ("state/inputs/**/*", "lists/*", "*.log", "*.jsonl", "*.prom", "logs/**/*")


def clean_runs(folders: Folders, forgotten: Forgotten, *, write: bool) -> Iterator[Place]:
    """Clean the log, the list and the targets of each run. After a crash, either all old or all new files are in use.

    Yields:
        A place for each list, table of targets and record of a log that names a forgotten subject.

    Raises:
        DamagedError: The contents of a file do not match its checksum. Restore the file.
    """
    cleaned: dict[Path, Path | None] = {}
    for run in list_runs(folders):
        stored = run.checked("list")
        if stored not in cleaned:
            cleaned[stored], count = _clean_list(stored, forgotten, write=write)
            if count:
                yield Place(stored, "list", count)
        targets = pl.read_parquet(run.checked("targets"), glob=False)
        after = clean_frame(targets, forgotten)
        if after is not targets:
            yield Place(run.checked("targets"), "targets", count_changed(targets, after))
        if write and (cleaned[stored] or after is not targets):
            run = begin(_recount(run, cleaned[stored] or stored, targets, after), after)
        elif write:
            remove_rests(run)
        yield from clean_segments(list_segments(folders.log(run.run_id)), forgotten, "record", write=write)
    if write:
        remove_unused_lists(folders)


def documents(folders: Folders) -> list[Path]:
    """List the JSON files of a data folder that are neither plans of runs nor tombstones."""
    found = sorted(path for pattern in _DOCUMENTS for path in folders.data.glob(pattern))
    return [path for path in found if path != folders.tombstones]


def list_addresses(folders: Folders) -> set[Path]:
    """List the files with the addresses of copies, which `forget` does not clean."""
    return {path for pattern in _ADDRESSES for path in folders.state.glob(pattern)}


def clean_documents(folders: Folders, forgotten: Forgotten, *, write: bool) -> Iterator[Place]:
    """Clean the JSON files of the data folder that are neither plans of runs nor addresses of copies.

    Raises:
        DamagedError: A file cannot be read. Restore it.
    """
    addresses = list_addresses(folders)
    for path in documents(folders):
        if path in addresses:
            continue
        content = bytes(read_json(path, msgspec.Raw))
        cleaned = clean_record(content, forgotten)
        if cleaned != content:
            if write:
                write_json(path, msgspec.Raw(cleaned))
            yield Place(path, "plan" if path.name == "plan.json" or "plans" in path.parts else "record", 1)


def clean_inputs(folders: Folders, forgotten: Forgotten, *, write: bool) -> Iterator[Place]:
    """Clean kept copies of lists that came from a pipe or were divided; lines of forgotten companies are removed.

    A list that is not text, such as a workbook, is removed if it may name a forgotten subject; the user can supply it
    again. Log files and metrics in the data folder are cleaned as text.
    """
    for path in sorted(path for pattern in _INPUTS for path in folders.data.glob(pattern) if path.is_file()):
        content = path.read_bytes()
        if b"\0" in content:
            if may_name(content, forgotten):
                if write:
                    path.unlink()
                yield Place(path, "list, removed because it is not a text file", 1)
            continue
        lines = content.splitlines(keepends=True)
        cleaned = [_clean_line(line, forgotten) for line in lines]
        if cleaned != lines:
            if write:
                kept = b"".join(cleaned)
                write_file(path, lambda aside, kept=kept: aside.write_bytes(kept))  # type: ignore[misc]
            yield Place(path, "list", sum(new != old for new, old in zip(cleaned, lines, strict=True)))


def remove_parts(folder: Path) -> None:
    """Remove unfinished files, and folders of unfinished sheets, that killed processes left."""
    for path in list(folder.rglob(".*.part")):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


# ---------------------------------------------------------------------------------------------------------------------


def _clean_list(stored: Path, forgotten: Forgotten, *, write: bool) -> tuple[Path | None, int]:
    """Return the file of a cleaned list, None if nothing was written; and how many lines, or its names, changed."""
    lines, columns = pl.read_parquet(stored, glob=False), msgspec.json.encode(read_columns(stored))
    after, named = clean_frame(lines, forgotten), clean_record(columns, forgotten)
    count = (count_changed(lines, after) if after is not lines else 0) + (named != columns)
    if not (write and count):
        return None, count
    return store_lines(stored.parent, msgspec.json.decode(named, type=ListColumns), [after]), count


def _recount(run: Run, stored: Path, before: pl.DataFrame, after: pl.DataFrame) -> Run:
    """Name the cleaned list of a run, whose lines of forgotten companies are refused now, and count again."""
    key = ["country", "company_number"]
    again = Run(run.folders, msgspec.structs.replace(run.plan, files={**run.plan.files, "list": stored.stem}))
    companies, asked = again.companies(), after.select(key).unique()
    bought = before.filter((pl.col("shard") > 0) & ~pl.col("is_paid")).select(key).unique()
    plan, count = again.plan, run.companies().height - companies.height
    plan = msgspec.structs.replace(
        plan,
        list_sha256=identity_of(companies),
        company_count=plan.company_count - count,
        refused_count=plan.refused_count + count,
        target_count=asked.height,
        fresh_count=plan.company_count - count - asked.height,
        forgotten_count=plan.forgotten_count + bought.join(asked, on=key, how="anti").height,
    )
    return again if not count else Run(run.folders, plan)


def _clean_line(line: bytes, forgotten: Forgotten) -> bytes:
    text, encoding = decode_line(line)
    cleaned = forgotten.clean(text, None, has_contacts=True)
    if cleaned is None or (forgotten.has_companies and cleaned != text and forgotten.names_company(text)):
        return b"\n" if line.endswith(b"\n") else b""
    return cleaned.encode(encoding, "surrogateescape")
