"""Finish a staged run: decide its outcome and its causes, then publish it as the next generation of the warehouse.

The last line of a run, `firmlake status`, the report, Prefect's page and a webhook show the sentences of these causes.
"""

# ruff: noqa: S608 - statements are put together from our own names and paths, never from data

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from shlex import quote
from string import Formatter
from typing import Any, NamedTuple

import duckdb
import msgspec

from firmlake.api.contract import DATASETS
from firmlake.core.errors import DriftError, Stopped
from firmlake.core.process import give_back
from firmlake.core.settings import Settings
from firmlake.core.sql import quote_text, read_queries
from firmlake.core.text import count_of
from firmlake.landing.progress import read_landed
from firmlake.landing.run import Outcome, Run, RunPlan
from firmlake.report.status import REJECTED
from firmlake.report.summary import NONE_FOUND_MIN, read_unread, tell_none_found
from firmlake.tables.leaves import can_rename, leaves_of, renames_of, setting_of
from firmlake.tables.schemas import TABLES, duckdb_type
from firmlake.tables.stage import Manifest, StagedFile
from firmlake.warehouse.doubtful_fields import Vanished
from firmlake.warehouse.gates import judge
from firmlake.warehouse.generations import newest, newest_of_all, open_warehouse, publish
from firmlake.warehouse.lists import held_name
from firmlake.warehouse.load import load_run
from firmlake.warehouse.loads import Load
from firmlake.warehouse.views import create_views


def decide_outcome(
    settings: Settings,
    run: Run,
    manifest: Manifest,
    stopped: Stopped | None,
    now: datetime,
) -> Outcome:
    """Decide the outcome of a staged run by `run.fail_on`, and record it; `stopped` says why fetching stopped early.

    Raises:
        DriftError: The run holds a value or field that the settings under `contract` do not allow. Nothing was
            published.
    """
    with open_staged(settings, run, manifest.files) as staged:
        refuse_unwanted(run, staged, now)
        causes = find_causes(settings, run, staged)
        kind = "some_failed" if causes else "done"
        if stopped:
            kind, causes = "stopped", [Cause(stopped.message, (stopped.next_step,)), *causes]
        elif count := _one(staged, _SQL["waiting"]):
            kind, causes = "stopped", [left_out(settings, run.plan, count), *causes]
    reason, next_step = join_causes(causes)
    return run.finish(kind, reason, now, next_step=next_step)


def publish_run(settings: Settings, run: Run, manifest: Manifest, outcome: Outcome, now: datetime) -> Path:
    """Load a staged run into the next generation of the warehouse; return that, published or held back by a gate.

    Raises:
        DriftError: More records than the settings allow would lose the value of a field. Nothing was published.
    """
    give_back()

    def load(connection: duckdb.DuckDBPyConnection, number: int) -> bool:
        mark = Load(number, run.run_id, now, now)
        load_run(connection, run, manifest, outcome, mark, refuse_vanished(settings, run, now))
        if run.plan.alert_rules is None:  # otherwise the rules needed the views
            create_views(connection)
        return judge(connection, run.folders, run.plan.gates, number)

    return publish(
        run.folders,
        load,
        memory_limit=settings.run.duckdb_memory,
        keep=settings.run.keep_generations,
        start=newest_of_all(run.folders),
        storage_version=settings.run.storage_version,
    )


_SQL = read_queries(__file__)
Staged = duckdb.DuckDBPyConnection
"""The staged tables of a run, by their names in the warehouse."""


@contextmanager
def open_staged(settings: Settings, run: Run, staged_files: Iterable[StagedFile]) -> Iterator[Staged]:
    """Open the staged tables of a run, which is not in the warehouse yet."""
    folder, staged_files = run.folders.staged(run.run_id), [*staged_files]
    limits: dict[str, Any] = {"memory_limit": settings.run.duckdb_memory, "threads": 1, "temp_directory": str(folder)}
    with duckdb.connect(config=limits) as staged:
        for name, table in TABLES.items():
            paths = [quote_text(str(folder / file.path)) for file in staged_files if file.table == name]
            columns = ", ".join(f'NULL::{duckdb_type(column)} AS "{column.name}"' for column in table.columns)
            source = f"* FROM read_parquet([{', '.join(paths)}], hive_partitioning = false)" if paths else columns
            staged.execute(f"CREATE VIEW {name} AS SELECT {source}{'' if paths else ' LIMIT 0'}")
        yield staged


def _one(staged: Staged, query: str) -> Any:
    ((value,),) = staged.execute(query).fetchall()
    return value


_ALWAYS = 2.0
"""A share above every allowed setting, so that this run is never published and the next run asks again."""


def refuse_unwanted(run: Run, staged: Staged, now: datetime) -> None:
    """Refuse to publish a run with a value or field that `contract.values` or `contract.new_fields` forbids.

    The outcome is then recorded as refused. The DriftError names the value or field, and the setting to change.
    """
    stopping = staged.execute(_SQL["stopping"]).fetchall()
    seen = staged.execute(_SQL["new_fields"]).fetchall()
    frozen = run.plan.contract.new_fields
    new = [(dataset, path) for dataset, path in seen if setting_of(frozen, dataset, path) == "freeze"]
    if stopping:
        dataset, path, what = stopping[0]
        setting, helps = "contract.values", "discard_value"
    elif new:
        (dataset, path), what, setting = new[0], "a field that the contract does not know", "contract.new_fields"
        helps = "keep"
    else:
        return
    reason = f"{dataset} {path}: {what}"
    # A pattern cannot spell the brackets of parents[].
    pattern = f"{dataset}.{path.replace('[]', '*')}"
    next_step = (
        f'Add "{pattern}" = "{helps}" at the end of {setting}, or remove the entry that covers it, and '
        f"{run.plan.again}; within the paid window no company is charged twice"
    )
    run.finish("refused", reason, now, vanished_share=_ALWAYS, next_step=next_step)
    raise DriftError(f"{reason}; {setting} stops the run, so nothing was published", next_step)


def refuse_vanished(settings: Settings, run: Run, now: datetime) -> Callable[[Sequence[Vanished]], None]:
    """Make the check that a load calls before it replaces rows by rows that lack a field.

    If more records lost a field than the settings allow, it raises `DriftError`. Then nothing is published, old rows
    stay, and the outcome is recorded as refused, so that the next run asks again.
    """

    def check(found: Sequence[Vanished]) -> None:
        most, least = settings.run.vanished_share_max, settings.run.vanished_records_min
        refused = [each for each in found if each.share > most and each.lost >= least]
        if not refused:
            return
        worst = refused[0]
        more = f" (and {len(refused) - 1} more fields)" if len(refused) > 1 else ""
        again = run.plan.again
        helps = "the service sends the field again"
        if worst.reason:
            helps = "a setting under contract makes the values fit, or the service sends them as before"
        step = (
            f"{again[0].upper()}{again[1:]} once {helps}; within the paid window no "
            f"company is charged twice; --set run.vanished_share_max={math.ceil(worst.share * 100) / 100:g} publishes "
            f"run {run.run_id} as it is"
        )
        run.finish("refused", f"{worst}{more}", now, vanished_share=worst.share, next_step=step)
        raise DriftError(f"{worst}{more}: nothing was published, and the rows in the warehouse stay as they are", step)

    return check


class Cause(NamedTuple):
    """Why a run is not complete, and what to do about it, step by step."""

    text: str
    steps: tuple[str, ...]


def left_out(settings: Settings, plan: RunPlan, count: int) -> Cause:
    """Return the cause for companies that the budget leaves out."""
    if plan.budget:
        step = f"To fetch them, raise run.max_credits_per_month or wait for the next month, and {plan.again}"
        return Cause(f"{plan.budget} leaves out {count_of(count, 'company')}", (step,))
    limit, step = f"run.max_credits = {settings.run.max_credits}", f"To go on, {plan.again}"
    if settings.run.max_credits < 0:  # resumed without the budget that the run was planned with
        limit = "The budget that the run began with"
    elif settings.run.max_credits == 0:
        step = f"To fetch them, set run.max_credits higher and {plan.again}"
    return Cause(f"{limit} leaves out {count_of(count, 'company')}", (step,))


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How causes of one kind are found and told, as `causes.toml` explains."""

    query: str
    text: str
    steps: dict[str, str]

    def find(self, staged: Staged, given: dict[str, Any]) -> Iterator[Cause]:
        """Find the causes in the staged tables of a run, of which some facts are given."""
        rows = staged.execute(self.query, {name: given[name] for name in given if f"${name}" in self.query})
        names = [column[0] for column in rows.description or ()]
        for row in rows.fetchall():
            told = given | dict(zip(names, row, strict=True))
            steps = told.get("step") or list(self.steps)
            named = [steps] if isinstance(steps, str) else steps
            yield Cause(_TELL(self.text, **told), tuple(_TELL(self.steps[name], **told) for name in named))


class _Told(Formatter):
    """Formats a number with its noun for `{count:company}`."""

    def format_field(self, value: Any, form: str) -> str:
        return count_of(value, form) if form.isalpha() else super().format_field(value, form)


_TELL = _Told().format
_RULES = msgspec.convert(
    tomllib.loads(files("firmlake.enrich").joinpath("causes.toml").read_text("utf-8")), dict[str, Rule]
)


def find_causes(settings: Settings, run: Run, staged: Staged) -> list[Cause]:
    """Find why a run is not complete; nothing if it is."""
    plan, party = run.plan, "related_company_number"
    held_count, held_refused = plan.list_before or (plan.company_count, plan.refused_count)
    given = {
        **{name: getattr(plan, name) for name in ("list_name", "line_count", "company_count", "refused_count")},
        "list": quote(held_name(run)),
        "held_count": held_count,
        "held_refused": held_refused,
        "too_many": settings.run.fail_share * plan.company_count,
        "records_min": 1 if _misses_a_rename(run) else settings.run.vanished_records_min,
        "required": [leaf.path for name in plan.datasets for leaf in leaves_of(name, plan.contract) if leaf.required],
        "rejected": REJECTED,
        "may_be_unknown": setting_of(plan.contract.values, "relationships", party) is not None,
    }
    return [
        *(cause for rule in _RULES.values() for cause in rule.find(staged, given)),
        *find_none_found(settings, run, staged),
        *find_unread(settings, run, staged),
        *find_absent(run, staged),
    ]


def join_causes(causes: Iterable[Cause]) -> tuple[str, str]:
    """Join causes into one reason and one next step."""
    causes = list(causes)
    steps = dict.fromkeys(step for cause in causes for step in cause.steps)
    return "; ".join(cause.text for cause in causes), "; ".join(steps)


def find_none_found(settings: Settings, run: Run, staged: Staged) -> Iterator[Cause]:
    """Find the countries of which the service knows no company, although at least ten were asked for.

    A country of which the warehouse knows a company is left out.
    """
    rows = staged.execute(_SQL["none_found"], [NONE_FOUND_MIN]).fetchall()
    known = set[str]()
    if rows and newest(run.folders):
        with open_warehouse(run.folders, memory_limit=settings.run.duckdb_memory) as connection:
            known = {country for (country,) in connection.execute(_SQL["known_countries"]).fetchall()}
    for text, step in (tell_none_found(country, count) for country, count in rows if country not in known):
        yield Cause(text, (step,))


_UNREAD_SHARE_MAX = 0.1
"""Single odd values are rarer. If this share does not fit, such as all negatives, the service uses another form."""


def find_unread(settings: Settings, run: Run, staged: Staged) -> list[Cause]:
    """Find the fields in which more than a tenth of the values was discarded, and at least `run.vanished_records_min`.

    Fields that `contract.values` names are left out, because their values are discarded on purpose.

    Returns:
        One cause for each next step, with the field that lost most values and the number of other fields.
    """
    by_step: dict[str, list[str]] = {}
    for each in read_unread(staged, run.run_id):
        chosen = setting_of(run.plan.contract.values, each.dataset, each.column, each.path)
        is_much = each.lost >= settings.run.vanished_records_min and each.lost > _UNREAD_SHARE_MAX * each.total
        if chosen is None and is_much and each.total:
            text = f"{each.name} could not be read in {each.lost:,} of {each.total:,} values"
            by_step.setdefault(each.step, []).append(text)
    return [
        Cause(texts[0] + (f", and many values of {len(texts) - 1} more fields" if texts[1:] else ""), (step,))
        for step, texts in by_step.items()
    ]


_ABSENT_MIN = 100
"""Fewer records, as of a lookup or a small list, may all lack a field by chance."""
_NAMED_MAX = 3


def find_absent(run: Run, staged: Staged) -> list[Cause]:
    """Find documented fields whose key is in none of the records of a run, at least 100: they may have another name.

    A field that is null in all of them is present. One that `contract.values` names is known to be absent. Related
    parties are left out, because their shape is open.
    """
    causes = []
    for dataset in run.plan.datasets:
        if any(group.is_open for group in DATASETS[dataset].groups.values()):
            continue
        leaves = {
            leaf.name: leaf.path
            for leaf in leaves_of(dataset, run.plan.contract)
            if leaf.kind != "codes" and setting_of(run.plan.contract.values, dataset, leaf.name, leaf.path) is None
        }
        filled = ", ".join(f'count("{name}")' for name in leaves)
        ((count, *counts),) = staged.execute(f"SELECT count(*), {filled} FROM {dataset}").fetchall()
        empty = [path for path, is_filled in zip(leaves.values(), counts, strict=True) if not is_filled]
        if count >= _ABSENT_MIN and (absent := _never_sent(run, dataset, empty)):
            others = [path for (path,) in staged.execute(_SQL["in_all_records"], [dataset, count]).fetchall()]
            causes.append(_describe_absent(dataset, absent, count, leaves.values(), others))
    return causes


def _never_sent(run: Run, dataset: str, paths: list[str]) -> list[str]:
    """Return the paths of which a key is missing from each landed answer."""
    for shard in run.shards() if paths else ():
        for landed in read_landed(run, shard):
            if landed.header.dataset == dataset and landed.header.is_success:
                body = landed.body
                paths = [path for path in paths if any(b'"%b"' % key.encode() not in body for key in path.split("."))]
            if not paths:
                return []
    return paths


def _misses_a_rename(run: Run) -> bool:
    """Return whether a place of `contract.rename` is in no answer about relationships: it may be mistyped."""
    return bool(_never_sent(run, "relationships", [*renames_of("relationships", run.plan.contract)]))


def _describe_absent(dataset: str, absent: list[str], count: int, known: Iterable[str], others: list[str]) -> Cause:
    """Name the absent fields, or the object of which all are absent, and the unknown fields that all records have."""
    objects = {path.rpartition(".")[0] for path in absent if "." in path}
    whole = {name for name in objects if {path for path in known if path.startswith(f"{name}.")} <= set(absent)}
    names = sorted(whole) + [path for path in absent if path.rpartition(".")[0] not in whole]
    text = f"{dataset}: {_listed(names)} is in none of {count:,} records"
    keep = f'contract.values = {{"{dataset}.{names[0]}{".*" * (names[0] in whole)}" = "discard_value"}}'
    text += f", and {_listed(others)} is in all" * bool(others)
    theirs = next((path for path in others if can_rename(f"{dataset}.{path}", names[0])), None)
    if theirs is None:
        return Cause(text, (f"Ask the service for it; if it has no such field, {keep} says so",))
    rename = f'contract.rename = {{"{dataset}.{theirs}" = "{names[0]}"}}'
    step = f"If they are the same, set {rename}, then `firmlake replay`; if not, {keep} says so"
    return Cause(text, (step,))


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return ", ".join(names[:_NAMED_MAX]) + more
