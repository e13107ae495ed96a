"""Find and remove personal data that is older than `privacy.keep_days` allows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec
import polars as pl

from firmlake.core.files import read_json, write_json
from firmlake.core.folders import Folders
from firmlake.core.settings import KeepDaysSettings, RunSettings
from firmlake.forget.sources import replace_staged
from firmlake.intake.lines import read_columns, store_lines
from firmlake.landing.run import Run, begin, read_runs, remove_unused_lists
from firmlake.rebuild.replay import begin_cleaning, derive_again, end_cleaning, read_pruned
from firmlake.service_lists.contacts import ContactPlan

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
    found = [
        Expired(kind, run.checked("list"), lines.filter(is_blank & _HAS_TEXT).height, run.plan.started_at)
        for run, lines, is_blank, kind in _expired_lists(folders, days, now)
    ]
    for path, made_at, is_text_only in _expired_plans(folders, days, now):
        found.append(Expired("refused_lines" if is_text_only else "contacts", path, 1, made_at))
    return found


def apply_retention(folders: Folders, days: KeepDaysSettings, settings: RunSettings, now: datetime) -> None:
    """Remove the data that `find_expired` finds, and derive staged tables and generations again.

    If a call is killed, the next one finishes its work.
    """
    lists, plans = list(_expired_lists(folders, days, now)), list(_expired_plans(folders, days, now))
    if not (begin_cleaning(folders) or lists or plans):
        end_cleaning(folders)
        return
    for run, lines, is_blank, _ in lists:
        _blank_list(run, lines, is_blank)
    remove_unused_lists(folders)
    for path, _, is_text_only in plans:
        if is_text_only:
            _blank_refused(path)
        else:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    derive_again(folders, lambda: now, settings)
    end_cleaning(folders)


def _expired_lists(
    folders: Folders, days: KeepDaysSettings, now: datetime
) -> Iterator[tuple[Run, pl.DataFrame, pl.Expr, str]]:
    """Yield runs that ended, the lines of their lists, which of these are too old, and the kind of data."""
    for run in read_runs(folders)[0]:
        has_old_refusals = _is_over(run.plan.started_at, days.refused_lines, now)
        has_old_cells = _is_over(run.plan.started_at, days.lists, now)
        if run.outcome() is None or not (has_old_refusals or has_old_cells):
            continue
        lines, is_blank = pl.read_parquet(run.checked("list"), glob=False), pl.lit(has_old_cells) | _REFUSED
        if not lines.filter(is_blank & _HAS_TEXT).is_empty():
            yield run, lines, is_blank, "lists" if has_old_cells else "refused_lines"


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


def _is_over(made_at: datetime, days: int, now: datetime) -> bool:
    return days >= 0 and now - made_at > timedelta(days=days)


def _blank_list(run: Run, lines: pl.DataFrame, is_blank: pl.Expr) -> None:
    """Remove text and cells of lines, and the text of a pruned run's refused lines from its staged table."""
    blank = lines.with_columns(
        pl.when(is_blank).then(pl.lit(empty, pl.String)).otherwise(name).alias(name)
        for name, empty in (("given", None), ("columns", "{}"))
    )
    if run.is_pruned:
        manifest, folder = read_pruned(run), run.folders.staged(run.run_id)
        paths = [file.path for file in manifest.files if file.table == "refused_lines"]
        frames = {path: pl.read_parquet(folder / path, glob=False) for path in paths}
        no_text = pl.lit(None, pl.String).alias("given")
        replace_staged(run, manifest, {path: frame.with_columns(no_text) for path, frame in frames.items()})
    stored = store_lines(run.folders.lists, read_columns(run.checked("list")), [blank])
    begin(Run(run.folders, msgspec.structs.replace(run.plan, files={**run.plan.files, "list": stored.stem})))


def _blank_refused(path: Path) -> None:
    plan = read_json(path, ContactPlan)
    refused = tuple(msgspec.structs.replace(one, given="") for one in plan.refused)
    write_json(path, msgspec.structs.replace(plan, refused=refused))
