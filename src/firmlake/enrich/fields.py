"""Fields of which a run could not read many values: the run is published, but does not end as done."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from firmlake.api.contract import DATASETS
from firmlake.core.run import RunPlan
from firmlake.core.settings import Settings
from firmlake.enrich.causes import Cause
from firmlake.report.doubts import count_read, step_for
from firmlake.tables.leaves import setting_of
from firmlake.tables.number_texts import AMBIGUOUS

__all__ = ["find_unread"]

_MANY = 0.1
"""Single odd values are rarer. Where so many do not fit, such as all negative ones, the service writes another form."""
_MOST = 0.5


def find_unread(settings: Settings, plan: RunPlan, staged: Callable[[str], pl.LazyFrame]) -> list[Cause]:
    """Find the fields of whose values more than a tenth were discarded.

    A field that `contract.values` names is not among them: its values are discarded on purpose.

    Args:
        settings: `run.vanished_records_min` says how many records may always lose a field.
        plan: The plan of the run.
        staged: Returns the staged rows of a table.

    Returns:
        One cause for each thing to do, about the field that lost most and the number of others.
    """
    lost = _lost(staged("rejects")).filter(pl.col("count") >= settings.run.vanished_records_min)
    by_step: dict[str, list[str]] = {}
    for dataset, path, reason, count in lost.collect().iter_rows():
        for column in _columns(dataset, path)[:1]:
            chosen = setting_of(plan.contract.values, dataset, column, path)
            values = f"SELECT {count_read(dataset, column, count)} FROM self"  # noqa: S608 - our own names
            read = staged(dataset).sql(values).collect().item()
            if chosen is None and count > _MANY * (count + read):
                text = f"{dataset}.{column} could not be read in {count:,} of {count + read:,} values"
                by_step.setdefault(step_for(dataset, column, reason), []).append(text)
    return [
        Cause(texts[0] + (f", and {len(texts) - 1} more fields in many of theirs" if texts[1:] else ""), step)
        for step, texts in by_step.items()
    ]


# ---------------------------------------------------------------------------------------------------------------------


def _lost(rejects: pl.LazyFrame) -> pl.LazyFrame:
    """Count the discarded values of each field, with a reason that most have: the most frequent differences first."""
    is_ambiguous = pl.col("reason").str.contains(AMBIGUOUS, literal=True)
    ambiguous, others = pl.col("reason").filter(is_ambiguous).min(), pl.col("reason").filter(~is_ambiguous).min()
    values = rejects.filter((pl.col("effect") == "value") & pl.col("value").is_not_null())
    return (
        values.with_columns(pl.col("path").str.replace(r"^.*\[\]\.", ""))
        .group_by("dataset", "path")
        .agg(
            pl.when(is_ambiguous.mean() >= _MOST).then(ambiguous).otherwise(others).alias("reason"),
            pl.len().alias("count"),
        )
        .sort("count", "dataset", "path", descending=[True, False, False])
    )


def _columns(dataset: str, path: str) -> list[str]:
    """Return the columns of a field, or of the fields of an object."""
    fields = next(iter(DATASETS[dataset].groups.values())).fields
    return [name for name, field in fields.items() if field.path == path or field.path.startswith(f"{path}.")]
