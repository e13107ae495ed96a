"""Read runs that are not in the warehouse: the companies that they paid for, and the targets that they have left."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

import polars as pl

from firmlake.core.settings import RunSettings
from firmlake.landing.progress import Progress, load_progress
from firmlake.landing.run import Run, RunPlan
from firmlake.landing.segments import list_segments
from firmlake.tables.stage import read_staged_shard
from firmlake.tables.tracked import companies, list_tracks, requests

__all__ = ["Underway", "is_recent", "read_underway"]


class Underway(NamedTuple):
    """What has landed for a run that is not in the warehouse.

    Attributes:
        paid: Companies with an answer or a certain charge, and the time of the first: country, company_number, paid_at
            (UTC).
        begun: Shards for which an answer has landed.
        pending: Targets of these shards without a complete answer: country, company_number, dataset, remaining_count
            (records still to come; null if unknown).
        charges: The charges that answers report, including unusable answers: fetched_at (UTC), credits_charged.
    """

    run: Run
    paid: pl.DataFrame
    begun: tuple[int, ...]
    pending: pl.DataFrame
    charges: pl.DataFrame

    @property
    def bought(self) -> pl.DataFrame:
        """The companies of `paid` that were outside their earlier paid window then: one credit each."""
        key = ["country", "company_number"]
        windows = self.run.scan_targets().select(pl.col(key).cast(pl.String), "free_until").unique().collect()
        paid = self.paid.join(windows.drop_nulls(), on=key, how="left")
        return paid.filter(pl.col("paid_at") >= pl.col("free_until").fill_null(datetime.min)).drop("free_until")

    @property
    def credit_count(self) -> int:
        """The credits that the run has spent: those that answers report or those that we count, whichever is more."""
        return max(int(self.charges["credits_charged"].sum()), self.bought.height)

    def targets_left(self) -> pl.DataFrame:
        """Read the frozen targets that are still to be requested or left out by a budget, with remaining_count."""
        targets = self.run.targets()
        if self.run.is_fetched:
            targets = targets.filter(pl.col("shard") == 0)
        key = ["country", "company_number", "dataset"]
        untouched = targets.filter(~pl.col("shard").is_in(self.begun)).with_columns(
            pl.lit(None, pl.Int32).alias("remaining_count")
        )
        begun = targets.filter(pl.col("shard").is_in(self.begun))
        pending = self.pending.cast({name: targets.schema[name] for name in key})
        return pl.concat([begun.join(pending, on=key, how="inner", maintain_order="left"), untouched])


def is_recent(plan: RunPlan, run: RunSettings, now: datetime) -> bool:
    """Return whether answers of a run may still matter because they are fresh, in a paid window, or of this month."""
    return plan.started_at > now - timedelta(days=1 + run.refresh_after_days + max(run.credit_window_days, _MONTH))


def read_underway(run: Run) -> Underway:
    """Read what has landed for a run. A completely staged shard is read from its tables, which is faster.

    Raises:
        DamagedError: A landed answer or the targets were changed. Restore them from a copy.
    """
    run.checked("targets")  # read later to find out what was paid for and what is left
    shards = range(1, run.plan.shard_count + 1)
    begun = tuple(shard for shard in shards if list_segments(run.folders.landing(run.run_id, shard)))
    paid, pending = [pl.DataFrame(schema=_PAID)], [pl.DataFrame(schema=_PENDING)]
    charges = [pl.DataFrame(schema=_CHARGES)]
    for shard in begun:
        if staged := _read_staged(run, shard):
            found, sent = staged
        else:
            progress = load_progress(run, shard)
            found, sent = companies(list_tracks(progress, run.plan.datasets)).lazy(), requests(run, progress).lazy()
            pending.append(pl.DataFrame(list(_pending(progress)), schema=_PENDING, orient="row"))
        paid.append(_known(found, _PAID))
        charges.append(_known(sent, _CHARGES))
    return Underway(run, pl.concat(paid), begun, pl.concat(pending), pl.concat(charges))


# ---------------------------------------------------------------------------------------------------------------------

_PAID = pl.Schema({"country": pl.String(), "company_number": pl.String(), "paid_at": pl.Datetime("us")})
_CHARGES = pl.Schema({"fetched_at": pl.Datetime("us"), "credits_charged": pl.Int64()})
_PENDING = pl.Schema(
    {"country": pl.String, "company_number": pl.String, "dataset": pl.String, "remaining_count": pl.Int32}
)
_MONTH = 31


def _read_staged(run: Run, shard: int) -> tuple[pl.LazyFrame, pl.LazyFrame] | None:
    """Return the tables `companies` and `requests` of a shard; None if it is not completely staged."""
    manifest = read_staged_shard(run, shard)
    if manifest is None:
        return None
    folder = run.folders.staged(run.run_id)
    tables = {
        file.table: pl.scan_parquet(folder / file.path, glob=False, hive_partitioning=False) for file in manifest.files
    }
    if tables["company_state"].filter(pl.col("status") == "waiting").select(pl.len()).collect().item():
        return None
    return tables["companies"], tables["requests"]


def _known(table: pl.LazyFrame, schema: pl.Schema) -> pl.DataFrame:
    """Read these columns of the rows that have a value in each."""
    return table.select(schema.names()).drop_nulls().cast(schema).collect()


def _pending(progress: Progress) -> Iterator[tuple[str, str, str, int | None]]:
    for company, dataset, track in progress.tracks():
        if track.status == "pending":
            yield *company, dataset, track.remaining
