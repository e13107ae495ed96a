"""Finish a staged run: decide its outcome and its causes, then publish it as the next generation of the warehouse.

The last line of a run, `firmlake status`, the report, Prefect's page and a webhook show the sentences of these causes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Final, NamedTuple

import duckdb
import polars as pl

from firmlake.api.contract import DATASETS
from firmlake.core.errors import DriftError, Stopped
from firmlake.core.memory import give_back
from firmlake.core.settings import Settings
from firmlake.core.text import count_of
from firmlake.enrich.plan import tell_before
from firmlake.landing.progress import read_landed
from firmlake.landing.run import Outcome, Run, RunPlan
from firmlake.report.status import REJECTED
from firmlake.report.summary import NONE_FOUND_MIN, count_read, step_for, tell_none_found
from firmlake.tables.leaves import leaves_of, setting_of
from firmlake.tables.schemas import TABLES, polars_schema
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
    """Decide the outcome of a staged run, and record it.

    Args:
        settings: `run.fail_on` sets how many companies may fail before the run is not done.
        run: The run.
        manifest: Its staged files.
        stopped: Why fetching stopped early; None if it did not.
        now: UTC.

    Raises:
        DriftError: The run holds a value or field that the settings under `contract` do not allow. Nothing was
            published.
    """
    staged = partial(scan_staged, run, manifest.files)
    refuse_unwanted(run, staged, now)
    rules = (find_given_up, find_failed, find_cut, find_lost, find_none_found, find_unread, find_unknown, find_absent)
    causes = [cause for rule in rules for cause in rule(settings, run, staged)]
    kind = "some_failed" if causes else "done"
    if stopped:
        kind, causes = "stopped", [Cause(stopped.message, (stopped.next_step,)), *causes]
    elif count := _count(staged("company_state"), pl.col("status") == "waiting"):
        kind, causes = "stopped", [left_out(settings, run.plan, count), *causes]
    reason, next_step = join_causes(causes)
    return run.finish(kind, reason, now, next_step=next_step)


def publish_run(settings: Settings, run: Run, manifest: Manifest, outcome: Outcome, now: datetime) -> Path:
    """Load a staged run into the next generation of the warehouse.

    Returns:
        The generation, published or held back by a gate.

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


def scan_staged(run: Run, staged: Iterable[StagedFile], table: str) -> pl.LazyFrame:
    """Scan a staged table lazily, so that a million companies need not fit into memory."""
    folder = run.folders.staged(run.run_id)
    files = [folder / file.path for file in staged if file.table == table]
    if not files:
        return pl.LazyFrame(schema=polars_schema(TABLES[table]))
    return pl.scan_parquet(files, glob=False, hive_partitioning=False)


Staged = Callable[[str], pl.LazyFrame]
"""Returns the staged rows of a table of the run."""

_ALWAYS = 2.0
"""A share above every allowed setting, so that this run is never published and the next run asks again."""


def refuse_unwanted(run: Run, staged: Staged, now: datetime) -> None:
    """Refuse to publish a run with a value or field that `contract.values` or `contract.new_fields` forbids.

    Args:
        run: The run. If it is refused, its outcome is recorded as refused.
        staged: Its tables.
        now: UTC.

    Raises:
        DriftError: The run holds such a value or field. The message names it and the setting to change. Nothing was
            published.
    """
    stops = staged("rejects").filter(pl.col("effect") == "stop")
    stopping = stops.select("dataset", "path", "reason").first().collect()
    seen = (
        staged("drift")
        .filter(pl.col("kind") == "new_field")
        .select("dataset", "path")
        .unique()
        .sort(pl.all())
        .collect()
    )
    frozen = run.plan.contract.new_fields
    new = [(dataset, path) for dataset, path in seen.iter_rows() if setting_of(frozen, dataset, path) == "freeze"]
    if stopping.height:
        dataset, path, what = stopping.row(0)
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

    Args:
        settings: The share and the number of records that may lose a field.
        run: The run. If it is refused, its outcome is recorded as refused, so that the next run asks again.
        now: UTC.

    Returns:
        A function that raises `DriftError` if more records lost a field. Then nothing is published and old rows stay.
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


_REDRIVE = "`firmlake redrive` asks again"
_REASON_MAX = 300
_LACKING = "`firmlake redrive` asks again once the service sends what is missing"
_CHOSEN = "to keep such records, remove discard_record from contract.values, then run `firmlake replay`"
_PARTS = ("company_forbidden", "country_forbidden", "still_forbidden")
"""Codes of reasons that concern some companies of a dataset, not all."""
_REQUIRED = [field.path for each in DATASETS.values() for field in each.fields.values() if field.required]

_SETTINGS = {
    "wrong_page": "Write {limit} and {offset} in api.requests.financials where the service has its paging parameters; "
    "`firmlake check` finds them",
    "other_message": "If the message means that the company is unknown, set api.names.not_found_message to it; if it "
    "means success, set api.names.success_message",
    "country_refused": "Run `firmlake check LIST` with companies of that country; it finds the spelling of company "
    "numbers that the service expects",
    "empty_answer": "If the service leaves out companies that it does not know, run the whole list again with "
    "--refresh: beside companies that it knows, they are told from failed ones",
}
"""What to do first, by the code of the reason in dead_letters."""
_UNSAID = (
    "`firmlake check` shows how answers differ from our assumptions; ask the service what an element without data, "
    "message and name means, because such answers will fail again"
)


class Cause(NamedTuple):
    """Why a run is not complete, and what to do about it, step by step.

    Each rule below finds causes of one kind in the staged tables of a run, which is not in the warehouse yet.
    """

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
    return Cause(f"{limit}{tell_before(plan.credits_before)} leaves out {count_of(count, 'company')}", (step,))


def find_failed(settings: Settings, run: Run, staged: Staged) -> Iterator[Cause]:
    """Find companies that failed, then those with rejected records, if they are more than `run.fail_on` allows."""
    states, letters, rejects = staged("company_state"), staged("dead_letters"), staged("rejects")
    has_failed, is_unfit = pl.col("status") == "failed", pl.col("reject_count") > 0
    if _count(states, has_failed | is_unfit) > settings.run.fail_share * run.plan.company_count:
        if count := _count(states, has_failed):
            yield Cause(f"{count_of(count, 'company')} failed", _help(states.filter(has_failed), letters))
        if count := _count(states, is_unfit):
            has = "has" if count == 1 else "have"
            text = f"{count_of(count, 'company')} {has} records that do not fit{_most_rejected(rejects)}"
            yield Cause(text, _help_rejected(rejects))


def find_cut(_settings: Settings, _run: Run, staged: Staged) -> list[Cause]:
    """Find the datasets without pages for which the service sent fewer records than it says it has."""
    cut = staged("drift").filter((pl.col("kind") == "other_count") & (pl.col("path") == "[].pagination.total"))
    found = cut.group_by("dataset").agg(pl.col("record_count").sum(), pl.col("example").first()).sort("dataset")
    return [
        Cause(
            f"{dataset} are incomplete for {count_of(count, 'company')} (such as {example})",
            (f"Ask the service how to get all {dataset} at once: its specification has no pages for them",),
        )
        for dataset, count, example in found.collect().iter_rows()
    ]


def join_causes(causes: Iterable[Cause]) -> tuple[str, str]:
    """Join causes into one reason and one next step."""
    causes = list(causes)
    steps = dict.fromkeys(step for cause in causes for step in cause.steps)
    return "; ".join(cause.text for cause in causes), "; ".join(steps)


def find_given_up(_settings: Settings, _run: Run, staged: Staged) -> Iterator[Cause]:
    """Find each dataset, or part of its companies, that the run gave up, with the service's reason."""
    given_up = staged("company_state").filter(pl.col("status").is_in(["forbidden", "unavailable"]))
    key = ["country", "company_number", "dataset"]
    is_part = pl.col("reason_code").is_in(_PARTS).fill_null(value=False)
    is_country = is_part & (pl.col("reason_code") != "company_forbidden")
    found = (
        given_up.join(staged("dead_letters").select(*key, "reason_code", "reason"), on=key, how="left")
        .group_by(
            pl.when(is_part).then("reason_code").alias("part"),
            pl.when(is_country).then("country").alias("of"),
            pl.when(~is_part).then("dataset").alias("whole"),
            "status",
        )
        .agg(
            pl.col("dataset").cast(pl.String).unique().sort(),
            pl.struct("country", "company_number").n_unique().alias("company_count"),
            pl.col("reason").drop_nulls().min(),
        )
        .sort("dataset", "part", "of")
    )
    for part, _, _, status, datasets, count, reason in found.collect().iter_rows():
        said = (reason or "no reason recorded")[:_REASON_MAX]
        names = " and ".join(filter(None, [", ".join(datasets[:-1]), datasets[-1]]))
        step = f"once the service answers, {_REDRIVE}"
        if part:
            step = f"get a token that may ask about them, then {_REDRIVE}, or leave them out of the list"
        elif status == "forbidden":
            step = f"get a token that may use {names}, then {_REDRIVE}, or leave {names} out of run.datasets"
        are = "is" if len(datasets) == 1 else "are"
        yield Cause(f"{names} {are} {status} for {count_of(count, 'company')} ({said})", (step[0].upper() + step[1:],))


def _help(failed: pl.LazyFrame, letters: pl.LazyFrame) -> tuple[str, ...]:
    """Return the next steps for failed companies: correct a setting if it is the reason, then ask again."""
    found = failed.join(letters, on=["country", "company_number", "dataset"]).select("reason_code").unique().collect()
    codes = set(found["reason_code"])
    steps = [step for code, step in _SETTINGS.items() if code in codes]
    steps += [_UNSAID] * ("nothing_said" in codes) + [_REDRIVE] * (codes != {"nothing_said"})
    return (*steps, "dead_letters says why they failed")


def _help_rejected(rejects: pl.LazyFrame) -> tuple[str, ...]:
    """Return the next steps for rejected records. Asking again helps only once the service has corrected them."""
    is_lacking, is_whole = pl.col("reason_code") == "missing", pl.col("path").str.contains(r"^$|\[\]$")
    is_unread = is_whole | pl.col("path").is_in(_REQUIRED)
    steps = pl.when(is_lacking).then(pl.lit(_LACKING)).when(is_unread).then(pl.lit(REJECTED)).otherwise(pl.lit(_CHOSEN))
    found = rejects.filter(pl.col("effect") == "record").select(steps.alias("step")).unique().collect()["step"]
    return ("rejects says what does not fit", *sorted(found))


def _most_rejected(rejects: pl.LazyFrame) -> str:
    """Return the field that most of the rejected records lack, in brackets; empty if none is the reason."""
    fields = rejects.filter((pl.col("effect") == "record") & (pl.col("path") != ""))
    counts = fields.group_by("dataset", "path").len()
    found = counts.sort("len", "dataset", "path", descending=[True, False, False]).head(1).collect()
    return "".join(f" ({dataset}: {path})" for dataset, path, _ in found.iter_rows())


def _count(states: pl.LazyFrame, condition: pl.Expr) -> int:
    """Count the companies whose rows meet a condition."""
    return states.filter(condition).select("country", "company_number").unique().collect().height


_LOST_SHARE_MAX: Final = 0.1
"""Ignore fewer lost lines or companies than this share of the list: single ones come and go."""
_FEWEST_REFUSED: Final = 3
"""Ignore fewer newly refused lines than this: in a short list, one or two lines exceed the share."""
_FEWEST_GONE: Final = 10
"""Ignore fewer companies than this that are gone: they leave a short list on purpose more often than by mistake."""


def find_lost(settings: Settings, run: Run, _staged: Staged) -> list[Cause]:
    """Find out whether many more lines are refused, or many fewer companies named, than in the held version of a list.

    There is no cause for the first version of a list, for a sample, or for a list that always has many refused lines;
    every run shows their number anyway.
    """
    plan, name = run.plan, held_name(run)
    if not name or settings.run.sample or newest(run.folders) is None:
        return []
    with open_warehouse(run.folders, memory_limit=settings.run.duckdb_memory) as connection:
        held = connection.execute(_HELD, [name]).fetchall()
    if not held:
        return []
    [(company_count, refused_count)] = held
    more, gone = plan.refused_count - refused_count, company_count - plan.company_count
    if more >= _FEWEST_REFUSED and more > _LOST_SHARE_MAX * plan.line_count:
        return [
            Cause(
                f"{plan.refused_count:,} of {plan.line_count:,} lines of {plan.list_name} were refused, but "
                f"{refused_count:,} in the version before, so companies may be missing by mistake",
                (
                    f"`firmlake list show {quote(name)}` shows the reasons; correct the file or map its columns "
                    "(--map), then run it again",
                ),
            )
        ]
    if gone >= _FEWEST_GONE and gone > _LOST_SHARE_MAX * company_count:
        return [
            Cause(
                f"{plan.list_name} names {plan.company_count:,} companies, and {company_count:,} in the version "
                "before, so companies may be missing by mistake",
                (
                    "Compare the file with its source, since it may have been read while it was written, then run it "
                    "again; if they left on purpose, do nothing",
                ),
            )
        ]
    return []


_HELD = """
    SELECT company_count, (SELECT count(*) FROM list_members m WHERE m.list_name = l.list_name AND status = 'refused')
    FROM company_lists l WHERE lower(list_name) = lower(?)
"""


def find_none_found(settings: Settings, run: Run, staged: Staged) -> list[Cause]:
    """Find the countries of which the service knows no company, although at least ten were asked for.

    Args:
        settings: The memory for DuckDB.
        run: The run, which is not in the warehouse yet. A country of which that knows a company is left out.
        staged: Returns the staged rows of a table.
    """
    is_unknown = pl.col("status") == "not_found"
    counted = staged("company_state").group_by("country").agg(is_unknown.all(), pl.col("company_number").n_unique())
    found = counted.filter("status", pl.col("company_number") >= NONE_FOUND_MIN)
    rows = found.select("country", "company_number").sort("country").collect().rows()
    if rows and newest(run.folders):
        with open_warehouse(run.folders, memory_limit=settings.run.duckdb_memory) as connection:
            known = {country for (country,) in connection.execute(_KNOWN_COUNTRIES).fetchall()}
        rows = [(country, count) for country, count in rows if country not in known]
    told = (tell_none_found(country, count) for country, count in rows)
    return [Cause(text, (step,)) for text, step in told]


_KNOWN_COUNTRIES = "SELECT DISTINCT country FROM company_state WHERE status IN ('reported', 'empty')"


_UNREAD_SHARE_MAX = 0.1
"""Single odd values are rarer. If this share does not fit, such as all negatives, the service uses another form."""
_AMBIGUOUS_SHARE_MIN = 0.5


def find_unread(settings: Settings, run: Run, staged: Staged) -> list[Cause]:
    """Find the fields in which more than a tenth of the values was discarded, and at least `run.vanished_records_min`.

    Fields that `contract.values` names are left out, because their values are discarded on purpose.

    Returns:
        One cause for each next step, with the field that lost most values and the number of other fields.
    """
    lost = _lost(staged("rejects")).filter(pl.col("count") >= settings.run.vanished_records_min)
    by_step: dict[str, list[str]] = {}
    for dataset, path, code, count in lost.collect().iter_rows():
        for column in _columns(dataset, path)[:1]:
            chosen = setting_of(run.plan.contract.values, dataset, column, path)
            values = f"SELECT {count_read(dataset, column, count)} FROM self"  # noqa: S608 - our own names
            read = staged(dataset).sql(values).collect().item()
            if chosen is None and count > _UNREAD_SHARE_MAX * (count + read):
                text = f"{dataset}.{column} could not be read in {count:,} of {count + read:,} values"
                by_step.setdefault(step_for(dataset, column, code), []).append(text)
    return [
        Cause(texts[0] + (f", and many values of {len(texts) - 1} more fields" if texts[1:] else ""), (step,))
        for step, texts in by_step.items()
    ]


def find_unknown(settings: Settings, run: Run, staged: Staged) -> list[Cause]:
    """Find out whether it cannot be read which company more than a tenth of the parents, or of the children, are.

    There is no cause for fewer than `run.vanished_records_min`, or if `contract.values` names
    `relationships.related_company_number`.
    """
    column = "related_company_number"
    if setting_of(run.plan.contract.values, "relationships", column) is not None:
        return []
    is_unknown = pl.col("related_kind") == "unknown"
    counted = (
        staged("relationships").group_by("direction").agg(is_unknown.sum().alias("unknown"), pl.len().alias("count"))
    )
    is_much = pl.col("unknown") > _UNREAD_SHARE_MAX * pl.col("count")
    found = counted.filter(is_much & (pl.col("unknown") >= settings.run.vanished_records_min)).sort("direction")
    causes = []
    for direction, unknown, count in found.collect().iter_rows():
        group = {"parent": "parents", "child": "children"}[direction]
        fields = staged("drift").filter(kind="new_field", dataset="relationships").select("path").unique()
        names = [path for path in fields.sort("path").collect()["path"] if path.startswith(f"{group}[].")]
        instead = f", and have {_listed(names)} instead" if names else ""
        text = f"relationships: {unknown:,} of {count:,} {group} do not say in a documented way who they are{instead}"
        keep = f'contract.values = {{"relationships.{column}" = "discard_value"}}'
        step = (
            "`firmlake query \"FROM relationships WHERE related_kind = 'unknown'\"` shows them, with all they have in "
        )
        causes.append(Cause(text, (f"{step}extra_json; if that is enough, {keep} says so",)))
    return causes


def _lost(rejects: pl.LazyFrame) -> pl.LazyFrame:
    """Count the discarded values of each field, with the code of a frequent reason; the largest counts first."""
    is_ambiguous = pl.col("reason_code") == "ambiguous_number"
    others = pl.col("reason_code").filter(~is_ambiguous).min()
    values = rejects.filter((pl.col("effect") == "value") & pl.col("value").is_not_null())
    return (
        values.with_columns(pl.col("path").str.replace(r"^.*\[\]\.", ""))
        .group_by("dataset", "path")
        .agg(
            pl.when(is_ambiguous.mean() >= _AMBIGUOUS_SHARE_MIN)
            .then(pl.lit("ambiguous_number"))
            .otherwise(others)
            .alias("reason_code"),
            pl.len().alias("count"),
        )
        .sort("count", "dataset", "path", descending=[True, False, False])
    )


def _columns(dataset: str, path: str) -> list[str]:
    """Return the column of a field, or the columns of all fields inside an object."""
    fields = DATASETS[dataset].fields
    return [name for name, field in fields.items() if field.path == path or field.path.startswith(f"{path}.")]


_ABSENT_MIN = 100
"""Fewer records, as of a lookup or a small list, may all lack a field by chance."""
_NAMED_MAX = 3


def find_absent(_settings: Settings, run: Run, staged: Staged) -> list[Cause]:
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
        counted = staged(dataset).select(pl.len().alias("row_count"), *(pl.col(name).count() for name in leaves))
        counts = counted.collect().row(0, named=True)
        empty = [path for name, path in leaves.items() if not counts[name]]
        if counts["row_count"] >= _ABSENT_MIN and (absent := _never_sent(run, dataset, empty)):
            causes.append(_describe_absent(dataset, absent, counts["row_count"], leaves.values(), staged("drift")))
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


def _describe_absent(dataset: str, absent: list[str], count: int, known: Iterable[str], drift: pl.LazyFrame) -> Cause:
    """Name the absent fields, or the object of which all are absent, and the unknown fields that all records have."""
    objects = {path.rpartition(".")[0] for path in absent if "." in path}
    whole = {name for name in objects if {path for path in known if path.startswith(f"{name}.")} <= set(absent)}
    names = sorted(whole) + [path for path in absent if path.rpartition(".")[0] not in whole]
    is_new = (pl.col("dataset") == dataset) & (pl.col("kind") == "new_field") & (pl.col("record_count") >= count)
    others = drift.filter(is_new).select("path").unique().sort("path").collect()["path"].to_list()
    text = f"{dataset}: {_listed(names)} is in none of {count:,} records"
    keep = f'contract.values = {{"{dataset}.{names[0]}{".*" * (names[0] in whole)}" = "discard_value"}}'
    if not others:
        return Cause(text, (f"Ask the service for it; if it has no such field, {keep} says so",))
    rename = f'contract.rename = {{"{dataset}.{others[0]}" = "{names[0]}"}}'
    step = f"If they are the same, set {rename}, then `firmlake replay`; if not, {keep} says so"
    return Cause(f"{text}, and {_listed(others)} is in all", (step,))


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return ", ".join(names[:_NAMED_MAX]) + more
