"""Is everything that a run would load in the warehouse already, from the last run of its list; and when was that seen?

A run over companies that are all fresh has no answers. If its list, its rules and its settings are those of the last
run too, a generation of its own would hold the same rows, so none is written. The log of the last run says when.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import msgspec
import polars as pl

from firmlake.core.errors import DamagedError, FirmlakeError
from firmlake.core.folders import Folders
from firmlake.landing.run import UNCHANGED, Run, RunPlan, open_run, read_log
from firmlake.warehouse.generations import newest_of_all, open_warehouse
from firmlake.warehouse.lists import held_name
from firmlake.warehouse.loads import loaded_runs

__all__ = ["Unchanged", "find_same_run", "read_unchanged"]

_OF_THE_ATTEMPT: Final[dict[str, Any]] = {
    "run_id": "", "started_at": datetime.min, "fresh_count": 0, "target_count": 0, "shard_count": 0,
    "refresh_count": 0, "budget": "", "credits_before": 0, "resume": "", "files": {},
}  # fmt: skip
"""Fields of a plan that say what it asks for and when, but not what is loaded besides the answers."""


class Unchanged(msgspec.Struct, frozen=True):
    """A run that had nothing to load: its name, when it was planned and ended (UTC), and how, see `Outcome`.

    Attributes:
        waiting_count: Companies that a budget left out, as it did before.
    """

    run_id: str
    started_at: datetime
    finished_at: datetime
    outcome: str = "done"
    reason: str = ""
    next_step: str = ""
    waiting_count: int = 0


def find_same_run(run: Run) -> Run | None:
    """Find the last published run of the same list if it left the warehouse as this run would; None if there is none.

    Args:
        run: A run. One that asks for anything, or has answers, is never the same. One whose budget leaves out companies
            is, if a budget left out the same ones before.
    """
    if run.plan.shard_count or run.has_landed or run.outcome() or newest_of_all(run.folders) is None:
        return None
    with open_warehouse(run.folders, with_held=True) as connection:
        name = held_name(run)
        query, subject = (_OF_LIST, name) if run.plan.company_list else (_WITHOUT_LIST, run.plan.list_name)
        found = connection.execute(query, [subject]).fetchall()
        loaded = loaded_runs(connection)
        left_out = run.scan_targets().select(_KEY).collect()
        if left_out.height:
            waiting = pl.DataFrame(connection.sql(_WAITING).to_arrow_table()).cast(pl.Schema(left_out.schema))
            if left_out.join(waiting, on=_KEY, how="anti").height:
                return None
    if not found:
        return None
    try:
        last, newest_run = open_run(run.folders, found[0][0]), open_run(run.folders, loaded[-1])
    except FirmlakeError:  # a load works without the plans of earlier runs
        return None
    is_same = _content(last.plan) == _content(run.plan) and newest_run.plan.alert_rules == run.plan.alert_rules
    return last if is_same else None


def read_unchanged(folders: Folders, run_id: str) -> Unchanged | None:
    """Read the newest run since then over the list of a published run that had nothing to load; None if it is lost."""
    with suppress(DamagedError):
        noted = read_log(folders, run_id).get(UNCHANGED)
        return msgspec.json.decode(noted.body, type=Unchanged) if noted else None
    return None


# ---------------------------------------------------------------------------------------------------------------------

_KEY = ["country", "company_number", "dataset"]

_WAITING = f"SELECT {', '.join(_KEY)} FROM company_state WHERE status = 'waiting'"  # noqa: S608 - our own names

_OF_LIST = "SELECT run_id FROM company_lists WHERE lower(list_name) = lower(?)"
_WITHOUT_LIST = "SELECT run_id FROM runs WHERE list_name = ? ORDER BY started_at DESC LIMIT 1"


def _content(plan: RunPlan) -> tuple[RunPlan, str]:
    """Return what a plan says about the rows to load, without the answers."""
    return msgspec.structs.replace(plan, **_OF_THE_ATTEMPT), plan.files["list"]
