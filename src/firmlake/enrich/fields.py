"""Fields with many values that a run could not read: the run is published, but is not done."""

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
"""Single odd values are rarer. If this share does not fit, such as all negatives, the service uses another form."""
_MOST = 0.5


def find_unread(settings: Settings, plan: RunPlan, staged: Callable[[str], pl.LazyFrame]) -> list[Cause]:
    """Find the fields in which more than a tenth of the values was discarded.

    Fields that `contract.values` names are left out, because their values are discarded on purpose.

    Args:
        settings: `run.vanished_records_min` sets how many records may always lose a field.
        plan: The plan of the run.
        staged: Returns the staged rows of a table.

    Returns:
        One cause for each next step, with the field that lost most values and the number of other fields.
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
        Cause(texts[0] + (f", and many values of {len(texts) - 1} more fields" if texts[1:] else ""), step)
        for step, texts in by_step.items()
    ]


# ---------------------------------------------------------------------------------------------------------------------


def _lost(rejects: pl.LazyFrame) -> pl.LazyFrame:
    """Count the discarded values of each field, with a reason that most of them have; the largest counts first."""
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
    """Return the column of a field, or the columns of all fields inside an object."""
    fields = DATASETS[dataset].fields
    return [name for name, field in fields.items() if field.path == path or field.path.startswith(f"{path}.")]
