"""Find and remove personal data that is older than `privacy.keep_days` allows."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import polars as pl

from firmlake.core.files import read_json, write_json
from firmlake.core.folders import Folders
from firmlake.core.settings import KeepDaysSettings, RunSettings
from firmlake.intake.lines import read_columns, store_lines
from firmlake.landing.run import LOOKUP, Run, begin, read_runs, remove_unused_lists
from firmlake.rebuild.replay import begin_cleaning, derive_again, end_cleaning, read_pruned
from firmlake.service_lists.contacts import ContactPlan
from firmlake.tables.stage import replace_staged

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
    return run.plan.list_name.startswith(LOOKUP)


def find_expired(folders: Folders, days: KeepDaysSettings, now: datetime) -> list[Expired]:
    """Find texts of refused lines, cells of lists, and plans of contacts that are too old, without changing them."""
    return [expired for expired, _ in _find(folders, days, now)]


def apply_retention(folders: Folders, days: KeepDaysSettings, settings: RunSettings, now: datetime) -> None:
    """Remove the data that `find_expired` finds, and derive staged tables and generations again.

    If a call is killed, the next one finishes its work.
    """
    found = list(_find(folders, days, now))
    if begin_cleaning(folders) or found:
        for _, remove in found:
            remove()
        remove_unused_lists(folders)
        derive_again(folders, lambda: now, settings)
    end_cleaning(folders)


def _find(folders: Folders, days: KeepDaysSettings, now: datetime) -> Iterator[tuple[Expired, Callable[[], object]]]:
    """Yield what is too old in lists of runs that ended and in plans of contacts, each with what removes it."""
    for run in read_runs(folders)[0]:
        started_at = run.plan.started_at
        has_old_refusals = _is_over(started_at, days.refused_lines, now)
        has_old_cells = _is_over(started_at, days.lists, now)
        if run.outcome() is None or not (has_old_refusals or has_old_cells):
            continue
        lines, is_blank = pl.read_parquet(run.checked("list"), glob=False), pl.lit(has_old_cells) | _REFUSED
        if count := lines.filter(is_blank & _HAS_TEXT).height:
            kind = "lists" if has_old_cells else "refused_lines"
            yield Expired(kind, run.checked("list"), count, started_at), partial(_blank_list, run, lines, is_blank)
    for path in sorted([*folders.additions.glob("plan=*/plan.json"), *folders.plans.glob("*.json")]):
        plan = read_json(path, ContactPlan)
        made_at = plan.made_at.astimezone(UTC)
        if _is_over(made_at, days.contacts, now):
            is_applied = path.parent.name.startswith("plan=")
            remove = partial(shutil.rmtree, path.parent) if is_applied else path.unlink
            yield Expired("contacts", path.parent if is_applied else path, 1, made_at), remove
        elif _is_over(made_at, days.refused_lines, now) and any(one.given for one in plan.refused):
            yield Expired("refused_lines", path, 1, made_at), partial(_blank_refused, path, plan)


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
        refused = [file for file in manifest.files if file.table == "refused_lines"]
        frames = {file: pl.read_parquet(folder / file.path, glob=False) for file in refused}
        no_text = pl.lit(None, pl.String).alias("given")
        replace_staged(run, manifest, {file: frame.with_columns(no_text) for file, frame in frames.items()})
    begin(run.with_list(store_lines(run.folders.lists, read_columns(run.checked("list")), [blank])))


def _blank_refused(path: Path, plan: ContactPlan) -> None:
    refused = tuple(msgspec.structs.replace(one, given="") for one in plan.refused)
    write_json(path, msgspec.structs.replace(plan, refused=refused))
