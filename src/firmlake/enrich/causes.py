"""The causes why a run is not done, each as one sentence with a next step.

The last line of a run, `firmlake status`, the report, Prefect's page and a webhook all show these sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import polars as pl

from firmlake.api.contract import DATASETS
from firmlake.api.element import NOTHING_SAID
from firmlake.core.run import RunPlan
from firmlake.core.settings import Settings
from firmlake.core.text import count_of
from firmlake.enrich.budget import tell_before
from firmlake.landing.standing import NOT_REQUESTED, PARTLY
from firmlake.landing.track import EMPTY, OTHER_MESSAGE, WRONG_PAGE
from firmlake.report.next_step import REJECTED
from firmlake.tables.notes import NOT_THERE

__all__ = ["Cause", "find_causes", "find_cut", "join_causes", "left_out"]

_REDRIVE = "`firmlake redrive` asks again"
_REASON_MAX = 300
_LACKING = "`firmlake redrive` asks again once the service sends what is missing"
_CHOSEN = "to keep such records, remove discard_record from contract.values, then run `firmlake replay`"
_REQUIRED = [field.path for each in DATASETS.values() for field in each.fields.values() if field.required]

_SETTINGS = {
    WRONG_PAGE: "Set api.names.limit and api.names.offset to the service's paging parameters; `firmlake check` finds "
    "them",
    OTHER_MESSAGE: "If the message means that the company is unknown, set api.names.not_found_message to it; if it "
    "means success, set api.names.success_message",
    NOT_REQUESTED: "Run `firmlake check LIST` with companies of that country; it finds the spelling of company numbers "
    "that the service expects",
    EMPTY: "If the service leaves out companies that it does not know, run the whole list again with --refresh: beside "
    "companies that it knows, they are told from failed ones",
}
"""What to do first, by a part of the reason in dead_letters."""
_UNSAID = (
    "`firmlake check` shows how answers differ from our assumptions; ask the service what an element without data, "
    "message and name means, because such answers will fail again"
)


class Cause(NamedTuple):
    """Why a run is not complete, and what to do about it."""

    text: str
    next_step: str


def left_out(settings: Settings, plan: RunPlan, count: int) -> Cause:
    """Return the cause for companies that the budget leaves out."""
    if plan.budget:
        step = f"To fetch them, raise run.max_credits_per_month or wait for the next month, and {plan.again}"
        return Cause(f"{plan.budget} leaves out {count_of(count, 'company')}", step)
    limit, step = f"run.max_credits = {settings.run.max_credits}", f"To go on, {plan.again}"
    if settings.run.max_credits < 0:  # resumed without the budget that the run was planned with
        limit = "The budget that the run began with"
    elif settings.run.max_credits == 0:
        step = f"To fetch them, set run.max_credits higher and {plan.again}"
    return Cause(f"{limit}{tell_before(plan.credits_before)} leaves out {count_of(count, 'company')}", step)


def find_causes(
    settings: Settings, plan: RunPlan, states: pl.LazyFrame, letters: pl.LazyFrame, rejects: pl.LazyFrame
) -> list[Cause]:
    """List the causes why companies of a run have no complete data.

    Args:
        settings: `run.fail_on` sets how many companies may fail before the run is not done.
        plan: The plan of the run.
        states: The staged rows of company_state.
        letters: The staged rows of dead_letters.
        rejects: The staged rows of rejects.

    Returns:
        Datasets that were given up first, then companies that failed, then companies with rejected records.
    """
    causes = [*_given_up(states, letters)]
    has_failed, is_unfit = pl.col("status") == "failed", pl.col("reject_count") > 0
    if _count(states, has_failed | is_unfit) > settings.run.fail_share * plan.company_count:
        if count := _count(states, has_failed):
            causes.append(Cause(f"{count_of(count, 'company')} failed", _help(states.filter(has_failed), letters)))
        if count := _count(states, is_unfit):
            has = "has" if count == 1 else "have"
            text = f"{count_of(count, 'company')} {has} records that do not fit{_most_rejected(rejects)}"
            causes.append(Cause(text, _help_rejected(rejects)))
    return causes


def find_cut(drift: pl.LazyFrame) -> list[Cause]:
    """Find the datasets without pages for which the service sent fewer records than it says it has.

    Args:
        drift: The staged rows of drift.
    """
    cut = drift.filter((pl.col("kind") == "other_count") & (pl.col("path") == "[].pagination.total"))
    found = cut.group_by("dataset").agg(pl.col("record_count").sum(), pl.col("example").first()).sort("dataset")
    return [
        Cause(
            f"{dataset} are incomplete for {count_of(count, 'company')} (such as {example})",
            f"Ask the service how to get all {dataset} at once: its specification has no pages for them",
        )
        for dataset, count, example in found.collect().iter_rows()
    ]


def join_causes(causes: Iterable[Cause]) -> tuple[str, str]:
    """Join causes into one reason and one next step."""
    causes = list(causes)
    steps = dict.fromkeys(step for cause in causes for step in cause.next_step.split("; "))
    return "; ".join(cause.text for cause in causes), "; ".join(steps)


# ---------------------------------------------------------------------------------------------------------------------


def _given_up(states: pl.LazyFrame, letters: pl.LazyFrame) -> Iterator[Cause]:
    """Yield a cause for each dataset, or part of its companies, that the run gave up, with the service's reason."""
    given_up = states.filter(pl.col("status").is_in(["forbidden", "unavailable"]))
    key = ["country", "company_number", "dataset"]
    is_part = pl.col("reason").str.starts_with(PARTLY).fill_null(value=False)
    part = pl.when(is_part).then(pl.col("reason").str.split(" (").list.first())  # without the words of the service
    found = (
        given_up.join(letters.select(*key, "reason"), on=key, how="left")
        .group_by(part.alias("part"), pl.when(~is_part).then("dataset").alias("whole"), "status")
        .agg(
            pl.col("dataset").cast(pl.String).unique().sort(),
            pl.struct("country", "company_number").n_unique().alias("company_count"),
            pl.col("reason").drop_nulls().min(),
        )
        .sort("dataset", "part")
    )
    for part_of, _, status, datasets, count, reason in found.collect().iter_rows():
        said = (reason or "no reason recorded")[:_REASON_MAX]
        names = " and ".join(filter(None, [", ".join(datasets[:-1]), datasets[-1]]))
        step = f"once the service answers, {_REDRIVE}"
        if part_of:
            step = f"get a token that may ask about them, then {_REDRIVE}, or leave them out of the list"
        elif status == "forbidden":
            step = f"get a token that may use {names}, then {_REDRIVE}, or leave {names} out of run.datasets"
        are = "is" if len(datasets) == 1 else "are"
        yield Cause(f"{names} {are} {status} for {count_of(count, 'company')} ({said})", step[0].upper() + step[1:])


def _help(failed: pl.LazyFrame, letters: pl.LazyFrame) -> str:
    """Return the next steps for failed companies: correct a setting if it is the reason, then ask again."""
    reasons = failed.join(letters, on=["country", "company_number", "dataset"]).select("reason").unique().collect()
    steps = [step for sign, step in _SETTINGS.items() if reasons["reason"].str.contains(sign, literal=True).any()]
    is_unsaid = reasons["reason"] == NOTHING_SAID
    steps += [_UNSAID] * is_unsaid.any() + [_REDRIVE] * (not is_unsaid.all() or reasons.is_empty())
    return "; ".join([*steps, "dead_letters says why they failed"])


def _help_rejected(rejects: pl.LazyFrame) -> str:
    """Return the next steps for rejected records. Asking again helps only once the service has corrected them."""
    is_lacking, is_whole = pl.col("reason") == NOT_THERE, pl.col("path").str.contains(r"^$|\[\]$")
    is_unread = is_whole | pl.col("path").is_in(_REQUIRED)
    steps = pl.when(is_lacking).then(pl.lit(_LACKING)).when(is_unread).then(pl.lit(REJECTED)).otherwise(pl.lit(_CHOSEN))
    found = rejects.filter(pl.col("effect") == "record").select(steps.alias("step")).unique().collect()["step"]
    return "; ".join(["rejects says what does not fit", *sorted(found)])


def _most_rejected(rejects: pl.LazyFrame) -> str:
    """Return the field that most of the rejected records lack, in brackets; empty if none is the reason."""
    fields = rejects.filter((pl.col("effect") == "record") & (pl.col("path") != ""))
    counts = fields.group_by("dataset", "path").len()
    found = counts.sort("len", "dataset", "path", descending=[True, False, False]).head(1).collect()
    return "".join(f" ({dataset}: {path})" for dataset, path, _ in found.iter_rows())


def _count(states: pl.LazyFrame, condition: pl.Expr) -> int:
    """Count the companies whose rows meet a condition."""
    return states.filter(condition).select("country", "company_number").unique().collect().height
