"""Find and remove personal data that is older than `privacy.keep_days` allows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import polars as pl

from firmlake.core.files import read_json, write_json
from firmlake.core.folders import Folders
from firmlake.core.settings import KeepDaysSettings, RunSettings
from firmlake.forget.generations import clean_generations
from firmlake.forget.place import Place
from firmlake.forget.staged import replace_staged, stage_again
from firmlake.intake.lines import read_columns, store_lines
from firmlake.landing.run import Run, begin, read_runs, remove_unused_lists
from firmlake.rebuild.replay import read_pruned
from firmlake.service_lists.contact_plan import ContactPlan
from firmlake.warehouse.generations import connect_to

__all__ = ["Expired", "apply_retention", "find_expired", "is_lookup"]

_LOOKUP = "firmlake company "
_REFUSED = pl.col("status") == "refused"
_HAS_TEXT = pl.col("given").is_not_null() | (pl.col("columns") != "{}")


class Expired(NamedTuple):
    """Data in one place that is older than `privacy.keep_days` allows.

    Attributes:
        kind: "refused_lines", "lists" or "contacts".
        path: The list, or the folder or file of a plan of contacts.
        row_count: The number of lines whose text is removed, or 1 for a plan.
        ended_at: When the data was made, UTC.
    """

    kind: str
    path: Path
    row_count: int
    ended_at: datetime


def is_lookup(run: Run) -> bool:
    """Return whether `firmlake company` started this run."""
    return run.plan.list_name.startswith(_LOOKUP)


def find_expired(folders: Folders, days: KeepDaysSettings, now: datetime) -> list[Expired]:
    """Find texts of refused lines, cells of lists, and plans of contacts that are too old, without changing them."""
    found = []
    for run in _ended(folders):
        if expired := _expired_lines(run, days, now):
            lines, is_blank, kind = expired
            count = lines.filter(is_blank & _HAS_TEXT).height
            found.append(Expired(kind, run.checked("list"), count, run.plan.started_at))
    for path, made_at, is_text_only in _expired_plans(folders, days, now):
        found.append(Expired("refused_lines" if is_text_only else "contacts", path, 1, made_at))
    return found


def apply_retention(folders: Folders, days: KeepDaysSettings, settings: RunSettings, now: datetime) -> None:
    """Remove the data that `find_expired` finds, and rebuild the staged tables and generations that hold it.

    If a call is killed, the next one finishes its work.
    """
    for run in _ended(folders):
        if expired := _expired_lines(run, days, now):
            lines, is_blank, _ = expired
            blank = lines.with_columns(
                pl.when(is_blank).then(pl.lit(empty, pl.String)).otherwise(name).alias(name)
                for name, empty in (("given", None), ("columns", "{}"))
            )
            stored = store_lines(folders.lists, read_columns(run.checked("list")), [blank])
            files = {**run.plan.files, "list": stored.stem}
            run = begin(Run(folders, msgspec.structs.replace(run.plan, files=files)))
            if not run.is_pruned and folders.staged(run.run_id).exists():
                stage_again(run)
            elif run.is_pruned:
                _blank_staged(run)
    remove_unused_lists(folders)
    for path, _, is_text_only in list(_expired_plans(folders, days, now)):
        if not is_text_only:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        else:
            _blank_refused(path)
    find = partial(_find_in_generation, runs=_expired_runs(folders, days, now), plans=_kept_plans(folders))
    for _ in clean_generations(folders, find, settings, write=True):
        pass


# ---------------------------------------------------------------------------------------------------------------------


def _ended(folders: Folders) -> Iterator[Run]:
    runs, _ = read_runs(folders)
    yield from (run for run in runs if run.outcome() is not None)


def _is_over(made_at: datetime, days: int, now: datetime) -> bool:
    return days >= 0 and now - made_at > timedelta(days=days)


def _expired_lines(run: Run, days: KeepDaysSettings, now: datetime) -> tuple[pl.DataFrame, pl.Expr, str] | None:
    """Return the lines of a run's list, which of them are too old, and the kind of data; None if no text is."""
    has_old_refusals = _is_over(run.plan.started_at, days.refused_lines, now)
    has_old_cells = _is_over(run.plan.started_at, days.lists, now)
    if not (has_old_refusals or has_old_cells):
        return None
    lines, is_blank = pl.read_parquet(run.checked("list"), glob=False), pl.lit(has_old_cells) | _REFUSED
    if lines.filter(is_blank & _HAS_TEXT).is_empty():
        return None
    return lines, is_blank, "lists" if has_old_cells else "refused_lines"


def _expired_plans(folders: Folders, days: KeepDaysSettings, now: datetime) -> Iterator[tuple[Path, datetime, bool]]:
    """Yield plans of contacts that are too old, and plans whose refused lines are too old."""
    for path in sorted([*folders.additions.glob("plan=*/plan.json"), *folders.plans.glob("*.json")]):
        plan = read_json(path, ContactPlan)
        made_at = plan.made_at.astimezone(UTC)
        if _is_over(made_at, days.contacts, now):
            is_applied = path.parent.name.startswith("plan=")
            yield path.parent if is_applied else path, made_at, False
        elif _is_over(made_at, days.refused_lines, now) and any(one.given for one in plan.refused):
            yield path, made_at, True


def _blank_refused(path: Path) -> None:
    plan = read_json(path, ContactPlan)
    refused = tuple(msgspec.structs.replace(one, given="") for one in plan.refused)
    write_json(path, msgspec.structs.replace(plan, refused=refused))


def _blank_staged(run: Run) -> None:
    """Remove the text of refused lines from the staged table of a run whose landed answers were pruned."""
    manifest = read_pruned(run)
    files = [file.path for file in manifest.files if file.table == "refused_lines"]
    frames = {file: pl.read_parquet(run.folders.staged(run.run_id) / file, glob=False) for file in files}
    blank = pl.lit(None, pl.String).alias("given")
    replace_staged(run, manifest, {file: frame.with_columns(blank) for file, frame in frames.items()})


def _expired_runs(folders: Folders, days: KeepDaysSettings, now: datetime) -> dict[str, list[str]]:
    runs = list(_ended(folders))
    return {
        "refused_lines": [
            run.run_id
            for run in runs
            if _is_over(run.plan.started_at, days.refused_lines, now) or _is_over(run.plan.started_at, days.lists, now)
        ],
        "lists": [run.run_id for run in runs if _is_over(run.plan.started_at, days.lists, now)],
    }


def _kept_plans(folders: Folders) -> list[str]:
    return [path.name.partition("=")[2] for path in folders.additions.glob("plan=*")]


def _find_in_generation(path: Path, runs: dict[str, list[str]], plans: list[str]) -> Iterator[Place]:
    refused, lists = runs["refused_lines"], runs["lists"]
    cells = "(given IS NOT NULL OR columns::VARCHAR <> '{}') AND run_id IN (SELECT unnest($1))"
    wanted = [
        ("refused_lines", "given IS NOT NULL AND run_id IN (SELECT unnest($1))", refused),
        ("contact_additions", "run_id NOT IN (SELECT unnest($1))", plans),
    ]
    with connect_to(path) as connection:
        known = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
        for table in sorted(name for name in known if name.startswith("list_members")):
            wanted += [(table, f"{cells} AND status = 'refused'", refused), (table, cells, lists)]
        for table, condition, names in wanted:
            if table in known:
                query = f"SELECT count(*) FROM {table} WHERE {condition}"  # noqa: S608 - our own names
                [(count,)] = connection.execute(query, [names]).fetchall()
                if count:
                    yield Place(path, table.removesuffix("_versions"), count)
