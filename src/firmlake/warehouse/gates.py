"""Whether a run makes a generation, and whether gates let it be published.

A run over companies that are all fresh has no answers. If its list, its rules and its settings are those of the last
run too, a generation of its own would hold the same rows, so none is made. The log of the last run says when.

A gate counts the rows of a relation that meet its condition, or takes their share. If one of the gates of the newest
run fails, the generation is held back, see `firmlake.warehouse.generations`. What was measured is kept in the table
`loads`; the view `generation_quality` shows it: gates and findings, and fill rates also without gates.
"""

# ruff: noqa: S608 - statements are put together from our own names and from checked rules
from __future__ import annotations

import operator
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from fractions import Fraction
from typing import Any, Final

import duckdb
import msgspec
import polars as pl

from firmlake.core.errors import DamagedError, FirmlakeError, HeldError
from firmlake.core.folders import Folders
from firmlake.core.sql import quote_text
from firmlake.landing.run import UNCHANGED, Gate, Run, RunPlan, open_run, read_log
from firmlake.tables.schemas import TABLES
from firmlake.warehouse.generations import find_held, generation_number, newest, newest_of_all, open_warehouse
from firmlake.warehouse.lists import comment_list_views, held_name
from firmlake.warehouse.loads import loaded_runs
from firmlake.warehouse.rules import PUBLISH_IF, column_kinds, to_sql

_OPERATORS: Final = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "!=": operator.ne,
}  # fmt: skip

_OF_THE_ATTEMPT: Final[dict[str, Any]] = {
    "run_id": "", "started_at": datetime.min, "fresh_count": 0, "target_count": 0, "shard_count": 0,
    "refresh_count": 0, "list_before": None, "budget": "", "resume": "", "files": {},
}  # fmt: skip
"""Fields of a plan that say what it asks for and when, but not what is loaded besides the answers."""
_KEY = ["country", "company_number", "dataset"]
_WAITING = f"SELECT {', '.join(_KEY)} FROM company_state WHERE status = 'waiting'"
_OF_LIST = "SELECT run_id FROM company_lists WHERE lower(list_name) = lower(?)"
_WITHOUT_LIST = "SELECT run_id FROM runs WHERE list_name = ? ORDER BY started_at DESC LIMIT 1"
_FINDINGS = """
    SELECT severity, count(f.severity) FROM (SELECT DISTINCT severity FROM checks)
    LEFT JOIN findings f USING (severity) GROUP BY ALL ORDER BY ALL
"""
_FILLED = """
    SELECT [round(100 * filled / nullif(total, 0), 2) FOR filled IN counts]
    FROM (SELECT count(*) AS total, [{}] AS counts FROM financials)
"""
_LAST_MEASURES = "SELECT arg_max(measurements, generation) FROM loads"


class Measure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was measured of a generation; the view `generation_quality` explains the fields."""

    kind: str
    name: str
    value: float | None
    list_name: str | None = None
    says: str | None = None
    publish_if: str | None = None
    last_value: float | None = None
    is_failed: bool = False


class Unchanged(msgspec.Struct, frozen=True):
    """A run that had nothing to load: its name, when it was planned and ended (UTC), and how, see `Outcome`."""

    run_id: str
    started_at: datetime
    finished_at: datetime
    outcome: str = "done"
    reason: str = ""
    next_step: str = ""
    waiting_count: int = 0  # companies that a budget left out, as it did before


def find_same_run(run: Run) -> Run | None:
    """Find the last published run of the same list if it left the warehouse as this run would; None if there is none.

    A run that asks for anything, or has answers, is never the same. One whose budget leaves out companies is, if a
    budget left out the same ones before.
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


def judge(connection: duckdb.DuckDBPyConnection, folders: Folders, gates: Sequence[Gate] | None, number: int) -> bool:
    """Measure a generation, record what was measured, and return whether a gate failed, so that it must be held back.

    The connection is in a transaction on an unpublished generation with its views. The gates are those of the newest
    run; None measures fill rates alone, which takes hundredths of a second.
    """
    measures = list(_fill_rates(connection))
    if gates is not None:
        found = connection.execute(_FINDINGS).fetchall()
        measures += [Measure(kind="findings", name=severity, value=count) for severity, count in found]
        measures += _measure_gates(connection, folders, gates)
    text = msgspec.json.encode(measures).decode()
    connection.execute("UPDATE loads SET measurements = ? WHERE generation = ?", [text, number])
    if is_failed := any(each.is_failed for each in measures):
        comment_list_views(connection)  # it says why a list is not complete
    return is_failed


def judge_held(folders: Folders, gates: Sequence[Gate] | None, memory_limit: str) -> HeldError | None:
    """Judge the generation that is held back by the gates as they are now; without gates, its verdict stands."""
    if gates is None:
        return why_held(folders)
    with open_warehouse(folders, with_held=True, memory_limit=memory_limit) as connection:
        failed = [each for each in _measure_gates(connection, folders, gates) if each.is_failed]
    if not failed:
        return None
    return HeldError(f"Still held back: {_describe(failed)}", "`firmlake publish --anyway` releases it")


def why_held(folders: Folders) -> HeldError | None:
    """Return which gates hold the newest generation back, and what to do, as an error; None if it is published."""
    held = find_held(folders)
    if held is None:
        return None
    with open_warehouse(folders, of_any_version=True, with_held=True) as connection:
        ((text,),) = connection.execute(_LAST_MEASURES).fetchall()
    failed = [each for each in msgspec.json.decode(text or "[]", type=list[Measure]) if each.is_failed]
    return HeldError(
        f"Generation {generation_number(held)} is held back from readers, exports and --out: {_describe(failed)}",
        "Look at it with `firmlake query --held SQL`, then release it with `firmlake publish --anyway`, or run again: "
        "the next generation starts from it and is judged anew",
    )


def _content(plan: RunPlan) -> tuple[RunPlan, str]:
    """Return what a plan says about the rows to load, without the answers."""
    return msgspec.structs.replace(plan, **_OF_THE_ATTEMPT), plan.files["list"]


def _fill_rates(connection: duckdb.DuckDBPyConnection) -> list[Measure]:
    """Measure in how many of the held periods each figure has a value, in per cent."""
    names = [column.name for column in TABLES["financials"].columns if column.null and column.source]
    counted = ", ".join(f'count("{name}")' for name in names)
    ((values,),) = connection.execute(_FILLED.format(counted)).fetchall()
    return [Measure(kind="fill", name=name, value=value) for name, value in zip(names, values, strict=True)]


def _measure_gates(connection: duckdb.DuckDBPyConnection, folders: Folders, gates: Sequence[Gate]) -> list[Measure]:
    """Measure each gate; the generation published last is opened only if a gate compares with it."""
    last: dict[str, Fraction | None] = {}
    if compared := [gate for gate in gates if "last" in gate.publish_if] if newest(folders) else []:
        with suppress(FirmlakeError, duckdb.CatalogException), open_warehouse(folders) as published:
            last = {gate.name: _measure(published, gate) for gate in compared}
    return [_judged(gate, _measure(connection, gate), last.get(gate.name)) for gate in gates]


def _measure(connection: duckdb.DuckDBPyConnection, gate: Gate) -> Fraction | None:
    """Return the number of rows that meet a gate, or their share in per cent; None if there is no such list."""
    members = ""
    if gate.list_name:
        named = f"lower(list_name) = lower({quote_text(gate.list_name)})"
        if not connection.execute(f"SELECT 1 FROM company_lists WHERE {named}").fetchall():
            return None
        is_of_list = "list_name" in column_kinds(gate.view)
        listed = f"SELECT (country, company_number) FROM list_members WHERE {named}"
        members = f"WHERE {named}" if is_of_list else f"WHERE (country, company_number) IN ({listed})"
    query = f"SELECT count(*) FILTER ({to_sql(gate)}), count(*) FROM {gate.view} {members}"
    ((count, whole),) = connection.execute(query).fetchall()
    return Fraction(100 * count, whole or 1) if gate.publish_if.endswith("%") else Fraction(count)


def _judged(gate: Gate, value: Fraction | None, last: Fraction | None) -> Measure:
    """Compare a value with its limit. A gate passes if its list, or what it compares with, is not there yet."""
    limit = PUBLISH_IF.fullmatch(gate.publish_if)
    assert limit, gate.publish_if  # it was checked when the gate was read
    wanted = Fraction(limit["number"]) if limit["number"] else None
    if wanted is None and last is not None:
        wanted = last + Fraction((limit["change"] or "0").replace(" ", ""))
    is_failed = value is not None and wanted is not None and not _OPERATORS[limit["operator"]](value, wanted)
    return Measure(
        kind="gate",
        name=gate.name,
        value=None if value is None else round(float(value), 4),
        list_name=gate.list_name or None,
        says=gate.says,
        publish_if=gate.publish_if,
        last_value=None if last is None else round(float(last), 4),
        is_failed=is_failed,
    )


def _describe(failed: Sequence[Measure]) -> str:
    """Say which gates failed, with the value that was measured and the one that was wanted."""
    return "; ".join(
        f"{each.says}{f' in {each.list_name}' if each.list_name else ''}: {_shown(each.value, each)}, not "
        f"{each.publish_if}" + (f" (last {_shown(each.last_value, each)})" if each.last_value is not None else "")
        for each in failed
    )


def _shown(value: float | None, measure: Measure) -> str:
    return "-" if value is None else f"{value:,.6g}{' %' if (measure.publish_if or '').endswith('%') else ''}"
