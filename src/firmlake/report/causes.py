"""Causes: what is said about the end of a run, by a table of conditions, sentences and exit codes, `causes.toml`.

The last line of a run, `firmlake status`, the report, Prefect's page and a webhook show these sentences.
"""

# ruff: noqa: S608 - statements are put together from our own names, never from data

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Set
from pathlib import Path
from shlex import quote
from string import Formatter
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import msgspec

from firmlake.api.contract import DATASETS, FieldKind
from firmlake.core.company import ADJECTIVES
from firmlake.core.errors import EXIT_DONE, EXIT_SOME_FAILED, EXIT_STOPPED
from firmlake.core.settings import Settings
from firmlake.core.sql import fetch_dicts, read_queries
from firmlake.core.text import count_of, shown
from firmlake.landing.progress import read_landed
from firmlake.landing.run import Run, RunPlan
from firmlake.tables.leaves import can_rename, leaves_of, renames_of, setting_of
from firmlake.tables.schemas import TABLES, polars_schema
from firmlake.warehouse.generations import newest, open_warehouse
from firmlake.warehouse.lists import held_name
from firmlake.warehouse.versions import count_rows

OUTCOMES = {"done": EXIT_DONE, "some_failed": EXIT_SOME_FAILED, "stopped": EXIT_STOPPED}
"""The exit code of a run by its outcome, which is that of its most serious cause."""
_UNREAD_SHARE_MAX = 0.1
"""Single odd values are rarer. If this share does not fit, such as all negatives, the service uses another form."""
_ABSENT_MIN = 100
"""Fewer records, as of a lookup or a small list, may all lack a field by chance."""
_NAMED_MAX = 3
_EXAMPLE_MAX = 40
_OF_SCALE = ("beyond_one", "unknown_scale")
"""Reasons of discarded values that the doubt about scales tells of."""
_SQL = read_queries(__file__)
if TYPE_CHECKING:  # a name for its type at run time would be a leak in the eyes of DuckDB when the process ends
    _Connection = duckdb.DuckDBPyConnection
_Facts = dict[str, Any]


class Cause(NamedTuple):
    """Why a run is not complete, or what a person should look at in it, and what helps, step by step.

    `code` is its row in `causes.toml`; `is_loss` says that values were discarded.
    """

    code: str
    exit_code: int
    text: str
    steps: tuple[str, ...]
    is_loss: bool = False

    @property
    def next_step(self) -> str:
        """What helps."""
        return "; ".join(self.steps)

    def __str__(self) -> str:
        return f"{self.text}. {self.next_step}"


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How causes of one kind are found and told, as `causes.toml` explains."""

    text: str | dict[str, str]
    steps: dict[str, str]
    query: str = ""
    signs: frozenset[str] = frozenset()
    exit: tuple[int, ...] = (EXIT_SOME_FAILED,)


RULES = msgspec.convert(tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")), dict[str, Rule])


def find_causes(settings: Settings, run: Run, staged: _Connection) -> list[Cause]:
    """Find why a staged run is not complete; nothing if it is."""
    plan, party = run.plan, "related_company_number"
    held_count, held_refused = plan.list_before or (plan.company_count, plan.refused_count)
    facts = {
        **{name: getattr(plan, name) for name in ("list_name", "line_count", "company_count", "refused_count")},
        **{"settings": settings, "run": run, "run_id": run.run_id, "besides": ()},
        "list": quote(held_name(run)),
        "held_count": held_count,
        "held_refused": held_refused,
        "too_many": settings.run.fail_share * plan.company_count,
        "records_min": 1 if _misses_a_rename(run) else settings.run.vanished_records_min,
        "required": [leaf.path for name in plan.datasets for leaf in leaves_of(name, plan.contract) if leaf.required],
        "may_be_unknown": setting_of(plan.contract.values, "relationships", party) is not None,
    }
    return list(_find(staged, facts, {EXIT_SOME_FAILED, EXIT_STOPPED}))


def find_doubts(connection: _Connection, run_id: str) -> list[Cause]:
    """List what a person should look at in a published run; empty if the answers are as assumed."""
    facts = {"run_id": run_id, "besides": _OF_SCALE}
    return list(_find(connection, facts, {EXIT_DONE}))


def left_out(settings: Settings, plan: RunPlan, count: int) -> Cause:
    """Return the cause for companies that the budget leaves out."""
    return _tell("left_out", _about_budget(settings, plan, count))


def join_causes(causes: Iterable[Cause]) -> tuple[str, str, str]:
    """Join causes into the outcome of their run, one reason and one next step."""
    causes = list(causes)
    exit_code = max((cause.exit_code for cause in causes), default=EXIT_DONE)
    outcome = next(name for name, code in OUTCOMES.items() if code == exit_code)
    steps = dict.fromkeys(step for cause in causes for step in cause.steps)
    return outcome, "; ".join(cause.text for cause in causes), "; ".join(steps)


def _find(connection: _Connection, facts: _Facts, exit_codes: Set[int]) -> Iterator[Cause]:
    signs = {sign for (sign,) in connection.execute(_SQL["signs"]).fetchall()}
    for code, rule in RULES.items():
        if not exit_codes.isdisjoint(rule.exit) and not (rule.signs and signs.isdisjoint(rule.signs)):
            causes = (_tell(code, facts | row) for row in _FINDERS.get(code, _rows)(connection, rule.query, facts))
            yield from (cause for cause in causes if cause.exit_code in exit_codes)


def _rows(connection: _Connection, query: str, facts: _Facts) -> list[_Facts]:
    return fetch_dicts(connection.execute(query, {name: facts[name] for name in set(re.findall(r"\$(\w+)", query))}))


def _tell(code: str, facts: _Facts) -> Cause:
    rule = RULES[code]
    text = rule.text if isinstance(rule.text, str) else rule.text[facts["said"]]
    steps = facts.get("step") or list(rule.steps)
    told = (_TELL(rule.steps[name], **facts) for name in ([steps] if isinstance(steps, str) else steps))
    return Cause(code, facts.get("exit", rule.exit[0]), _TELL(text, **facts), tuple(told), facts.get("is_loss", False))


class _Told(Formatter):
    """Formats a number with its noun for `{count:company}`."""

    def format_field(self, value: Any, form: str) -> str:
        return count_of(value, form) if form.isalpha() else super().format_field(value, form)


_TELL = _Told().format


def _find_left_out(staged: _Connection, query: str, facts: _Facts) -> Iterator[_Facts]:
    for row in _rows(staged, query, facts):
        yield _about_budget(facts["settings"], facts["run"].plan, row["count"])


def _about_budget(settings: Settings, plan: RunPlan, count: int) -> _Facts:
    limit = settings.run.max_credits
    facts = {"count": count, "budget": plan.budget, "max_credits": limit, "again": plan.again}
    if plan.budget:
        return facts | {"said": "month", "step": "month"}
    # Below 0 it is resumed without the budget that it was planned with.
    return facts | {"said": "run" if limit >= 0 else "begun", "step": "run" if limit else "none"}


def _find_none_found(connection: _Connection, query: str, facts: _Facts) -> Iterator[_Facts]:
    """Find the countries of which the service knows no company; the warehouse may know one of an earlier run."""
    rows, known = _rows(connection, query, facts), set[str]()
    if rows and "run" in facts and newest(folders := facts["run"].folders):
        with open_warehouse(folders, memory_limit=facts["settings"].run.duckdb_memory) as warehouse:
            known = {country for (country,) in warehouse.execute(_SQL["known_countries"]).fetchall()}
    for row in rows:
        if row["country"] not in known:
            yield row | {"adjective": ADJECTIVES.get(row["country"], row["country"])}


class _Unread(NamedTuple):
    """A field, or an object of fields, with values that a run discarded.

    Attributes:
        column: Its column; of an object, the first of its columns; empty where a record was expected.
        name: What it is called: dataset and column, or dataset and path.
        step: What helps with most of these values, or with a frequent one; see `causes.toml`.
        lost: How many they are.
        total: The values of the field that the run received; 0 where a record was expected.
        example: One of them, as received; empty where it may be a text.
    """

    dataset: str
    column: str
    path: str
    name: str
    step: str
    lost: int
    total: int
    example: str


def _read_unread(connection: _Connection, query: str, facts: _Facts) -> Iterator[_Unread]:
    """Read the fields with values that a run discarded, the worst first."""
    for row in _rows(connection, query, facts):
        dataset, path, lost = row["dataset"], row["field"], row["lost"]
        fields = DATASETS[dataset].fields.items()
        inside = [(name, each) for name, each in fields if each.path == path or each.path.startswith(f"{path}.")]
        total, column, kind = 0, "", "text"
        if inside:
            column, kind = inside[0][0], inside[0][1].kind
            # A list of codes has a table of its own; each record counts as one value.
            values = f'count("{column}")' if column in polars_schema(TABLES[dataset]) else f"count(*) - {lost}"
            total = lost + count_rows(connection, _SQL["read"].format(dataset=dataset, values=values), facts["run_id"])
        name = column if inside and inside[0][1].path == path else path
        example = "" if kind in ("text", "codes") else shown(row["example"])[:_EXAMPLE_MAX]
        step = "scale" if row["code"] in _OF_SCALE else row["code"] if row["code"] in RULES["unread"].steps else "other"
        yield _Unread(dataset, column, path, f"{dataset}.{name}", step, lost, total, example)


def _find_unread(connection: _Connection, query: str, facts: _Facts) -> Iterator[_Facts]:
    """Find what a run could not read: at its end much of a field, later all that there is. One cause for each step."""
    by_step: dict[tuple[str, str], list[_Unread]] = {}
    for each in _read_unread(connection, query, facts):
        if "run" not in facts or _is_much(facts["settings"], facts["run"].plan, each):
            field = f'"{each.dataset}.{each.column}"' if each.step in ("scale", "not_whole") else ""
            by_step.setdefault((each.step, field), []).append(each)
    for (step, field), found in by_step.items():
        row = {"step": step, "field": field, "is_loss": True, **found[0]._asdict()}
        if "run" in facts:
            more = f", and many values of {len(found) - 1} more fields" if len(found) > 1 else ""
            yield row | {"said": "much", "more": more}
        else:
            more = f", and {len(found) - _NAMED_MAX} more fields" if len(found) > _NAMED_MAX else ""
            fields = ", ".join(map(_describe_unread, found[:_NAMED_MAX]))
            yield row | {"said": "any", "fields": fields, "more": more, "exit": EXIT_DONE}


def _is_much(settings: Settings, plan: RunPlan, each: _Unread) -> bool:
    is_chosen = setting_of(plan.contract.values, each.dataset, each.column, each.path) is not None
    is_enough = each.total > 0 and each.lost >= settings.run.vanished_records_min
    return is_enough and each.lost > _UNREAD_SHARE_MAX * each.total and not is_chosen


def _describe_unread(each: _Unread) -> str:
    such = f" (such as {each.example})" if each.example else ""
    of_all = f"{each.lost:,} of {each.total:,} values" if each.total else count_of(each.lost, "record")
    return f"{each.name} in {of_all}{such}"


def _find_other_scale(connection: _Connection, query: str, facts: _Facts) -> Iterator[_Facts]:
    """Find fields with values beyond 1 where shares or scores of 1 were expected."""
    for row in _rows(connection, query, facts):
        column, kind = _field(row["dataset"], row["path"])
        in_part = "discarded" if row["withheld"] else "discarded if above 2, or a finding"
        became = "kept as received" if kind == "score" else in_part
        yield row | {"column": column, "became": became, "is_loss": kind != "score"}


def _field(dataset: str, path: str) -> tuple[str, FieldKind]:
    """Return the column and the kind of a field; of an object that is no field, an empty text."""
    fields = DATASETS[dataset].fields.items()
    return next(((name, field.kind) for name, field in fields if path == field.path), ("", "text"))


def _find_absent(staged: _Connection, _query: str, facts: _Facts) -> Iterator[_Facts]:
    """Find documented fields whose key is in none of the records of a run: they may have another name."""
    run: Run = facts["run"]
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
            yield {"dataset": dataset, "count": count, **_describe_absent(dataset, absent, leaves.values(), others)}


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


def _describe_absent(dataset: str, absent: list[str], known: Iterable[str], others: list[str]) -> _Facts:
    """Name the absent fields, or the object of which all are absent, and the unknown fields that all records have."""
    objects = {path.rpartition(".")[0] for path in absent if "." in path}
    whole = {name for name in objects if {path for path in known if path.startswith(f"{name}.")} <= set(absent)}
    names = sorted(whole) + [path for path in absent if path.rpartition(".")[0] not in whole]
    theirs = next((path for path in others if can_rename(f"{dataset}.{path}", names[0])), None)
    return {
        "names": _listed(names),
        "instead": f", and {_listed(others)} is in all" * bool(others),
        "keep": f'contract.values = {{"{dataset}.{names[0]}{".*" * (names[0] in whole)}" = "discard_value"}}',
        "rename": f'contract.rename = {{"{dataset}.{theirs}" = "{names[0]}"}}',
        "step": "ask" if theirs is None else "rename",
    }


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return ", ".join(names[:_NAMED_MAX]) + more


_FINDERS: dict[str, Callable[[_Connection, str, _Facts], Iterable[_Facts]]] = {
    "left_out": _find_left_out,
    "other_scale": _find_other_scale,
    "none_found": _find_none_found,
    "unread": _find_unread,
    "absent": _find_absent,
}
