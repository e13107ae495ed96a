"""Clean frozen files: logs and lists of runs, plans of contacts, and records of the last failure and of exports."""

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
from firmlake.intake.company_list import identity_of
from firmlake.landing.run import Run, RunPlan, freeze_again, list_runs, remove_rests
from firmlake.landing.segments import list_segments
from firmlake.privacy.cleaning import clean_record
from firmlake.privacy.forgotten import Forgotten
from firmlake.privacy.frames import LINE_FORGOTTEN, clean_frame

__all__ = ["clean_documents", "clean_inputs", "clean_runs", "documents", "list_addresses", "remove_parts"]

_DOCUMENTS = (
    "landing/service_lists/*/plan.json", "landing/contacts/*/plan.json", "plans/*.json",
    "state/*.json", "state/exports/*.json", "state/failed_work/*.json", "state/failures/*.json",
)  # fmt: skip
_ADDRESSES = ("archives.json", "exports/*.json")
"""Files of `state/` with addresses of copies. They are not cleaned, because a cleaned address would lead nowhere."""
_INPUTS = ("state/inputs/**/*", "lists/*", "*.log", "*.jsonl", "*.prom", "logs/**/*")


def clean_runs(folders: Folders, forgotten: Forgotten, *, write: bool) -> Iterator[Place]:
    """Clean the log and the frozen tables of each run. After a crash, either all old or all new files are in use.

    Yields:
        A place for each table or record of a log that names a forgotten subject.

    Raises:
        DamagedError: The contents of a table or plan do not match its checksum. Restore the file.
    """
    for run in list_runs(folders):
        places, plan, tables = _clean_run(run, forgotten)
        if write and tables:
            run = freeze_again(run, plan, tables)
        if write:
            remove_rests(run)
        yield from places
        yield from clean_segments(list_segments(folders.log(run.run_id)), forgotten, "record", write=write)


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


def _clean_run(run: Run, forgotten: Forgotten) -> tuple[list[Place], RunPlan, dict[str, pl.DataFrame]]:
    """Return the places in a run that name a forgotten subject, with the plan and the tables to change."""
    places, tables, frames = [], {}, {}
    for name in sorted(run.plan.sha256):
        path = run.checked(name)
        before = pl.read_parquet(path, glob=False)
        frames[name] = after = clean_frame(before, forgotten)
        if after is not before:
            tables[name] = after
            places.append(Place(path, "list" if name != "targets" else name, count_changed(before, after)))
    if "held_hash" in frames.get("targets", pl.DataFrame()).columns:
        targets = frames["targets"]
        if targets["held_hash"].null_count() < targets.height:  # without a key, anybody could test a guess
            tables["targets"] = targets.with_columns(pl.lit(None, pl.UInt64).alias("held_hash"))
    plan = run.plan
    if "companies" in tables:
        plan, tables["refused_lines"] = _recount(run, plan, frames)
    return places, plan, tables


def _recount(run: Run, plan: RunPlan, frames: dict[str, pl.DataFrame]) -> tuple[RunPlan, pl.DataFrame]:
    """Turn lines of forgotten companies into refused lines, so that every line is still accounted for."""
    companies, refused = frames["companies"], frames["refused_lines"]
    before = run.table("companies")
    key = ["country", "company_number"]
    asked = frames["targets"].select(key).unique()
    bought = pl.scan_parquet(run.checked("targets"), glob=False).filter((pl.col("shard") > 0) & ~pl.col("is_paid"))
    forgotten = bought.select(key).unique().collect().join(asked, on=key, how="anti")
    if "line" in before.columns:
        gone = before.join(companies, on="line", how="anti").select(
            "line", given=pl.lit(None, pl.String), reason=pl.lit(LINE_FORGOTTEN)
        )
        refused = pl.concat([refused, gone.cast(dict(refused.schema))]).sort("line")  # type: ignore[arg-type]
    count = before.height - companies.height
    return msgspec.structs.replace(
        plan,
        list_sha256=identity_of(companies),
        company_count=plan.company_count - count,
        refused_count=plan.refused_count + count,
        target_count=asked.height,
        fresh_count=plan.company_count - count - asked.height,
        forgotten_count=plan.forgotten_count + forgotten.height,
    ), refused


def _clean_line(line: bytes, forgotten: Forgotten) -> bytes:
    text, encoding = decode_line(line)
    cleaned = forgotten.clean(text, None, has_contacts=True)
    if cleaned is None or (forgotten.has_companies and cleaned != text and forgotten.names_company(text)):
        return b"\n" if line.endswith(b"\n") else b""
    return cleaned.encode(encoding, "surrogateescape")
