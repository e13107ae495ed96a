"""Is everything that a run would load in the warehouse already, from the last run of its list; and when was that seen?

A run over companies that are all fresh has no answers. If its list, its rules and its settings are those of the last
run too, a generation of its own would hold the same rows, so none is written.

state/unchanged.json   by the last published run of a list: the newest run since then that had nothing to load
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import duckdb
import msgspec

from firmlake.core.errors import DamagedError, FirmlakeError
from firmlake.core.files import read_json, write_json
from firmlake.core.folders import Folders
from firmlake.landing.run import Run, RunPlan, open_run
from firmlake.warehouse.generations import newest_of_all, open_warehouse
from firmlake.warehouse.lists import held_name
from firmlake.warehouse.loads import loaded_runs

__all__ = ["Unchanged", "find_same_run", "note_unchanged", "read_unchanged"]

_OF_THE_ATTEMPT: Final[dict[str, Any]] = {
    "run_id": "", "started_at": datetime.min, "fresh_count": 0, "target_count": 0, "shard_count": 0,
    "refresh_count": 0, "budget": "", "credits_before": 0, "resume": "", "files": {}, "sha256": {},
}  # fmt: skip
"""Fields of a plan that say what it asks for and when, but not what is loaded besides the answers."""


class Unchanged(msgspec.Struct, frozen=True):
    """A run that had nothing to load: its name, and when it was planned and ended (UTC)."""

    run_id: str
    started_at: datetime
    finished_at: datetime


def find_same_run(run: Run) -> Run | None:
    """Find the last published run of the same list if it left the warehouse as this run would; None if there is none.

    Args:
        run: A frozen run. One that asks for anything, or has answers, is never the same.
    """
    if run.shards() or run.has_landed or run.outcome() or newest_of_all(run.folders) is None:
        return None
    with open_warehouse(run.folders, with_held=True) as connection:
        name = held_name(run)
        query, subject = (_OF_LIST, name) if run.plan.company_list else (_WITHOUT_LIST, run.plan.list_name)
        found = connection.execute(query, [subject]).fetchall()
        loaded = loaded_runs(connection)
    if not found:
        return None
    try:
        last, newest_run = open_run(run.folders, found[0][0]), open_run(run.folders, loaded[-1])
    except FirmlakeError:  # a load works without the plans of earlier runs
        return None
    is_same = _content(last.plan) == _content(run.plan) and newest_run.plan.alert_rules == run.plan.alert_rules
    return last if is_same else None


def note_unchanged(last: Run, unchanged: Unchanged) -> None:
    """Record that a run had nothing to load.

    Args:
        last: The last published run of the same list.
        unchanged: The run.
    """
    with open_warehouse(last.folders, with_held=True) as connection:
        listed = _listed(connection)
    noted = {run_id: each for run_id, each in read_unchanged(last.folders).items() if run_id in listed}
    write_json(last.folders.unchanged, {**noted, last.run_id: unchanged})


def read_unchanged(folders: Folders) -> dict[str, Unchanged]:
    """Read the newest run that had nothing to load, by the last published run of its list; nothing if it is damaged."""
    try:
        return read_json(folders.unchanged, dict[str, Unchanged]) if folders.unchanged.exists() else {}
    except DamagedError:
        return {}


# ---------------------------------------------------------------------------------------------------------------------

_OF_LIST = "SELECT run_id FROM company_lists WHERE lower(list_name) = lower(?)"
_WITHOUT_LIST = "SELECT run_id FROM runs WHERE list_name = ? ORDER BY started_at DESC LIMIT 1"


def _content(plan: RunPlan) -> tuple[RunPlan, dict[str, str]]:
    """Return what a plan says about the rows to load, without the answers."""
    tables = {name: sha256 for name, sha256 in plan.sha256.items() if name != "targets"}
    return msgspec.structs.replace(plan, **_OF_THE_ATTEMPT), tables


def _listed(connection: duckdb.DuckDBPyConnection) -> set[str]:
    return {run_id for (run_id,) in connection.execute("SELECT run_id FROM company_lists").fetchall()}
