"""Take a sample of a company list: its first companies with something to fetch. Also price the whole list."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from firmlake.core.settings import Settings
from firmlake.enrich.held import Held
from firmlake.enrich.targets import Estimate, count_companies, estimate, find_targets
from firmlake.intake.company_list import CompanyList, choose_from

__all__ = ["Whole", "take_sample"]

_KEY = ("country", "company_number")


class Whole(NamedTuple):
    """What a run over the whole list would do, including the sample.

    Attributes:
        target_count: Companies that the run would ask for.
    """

    target_count: int
    estimate: Estimate


def take_sample(settings: Settings, companies: CompanyList, held: Held) -> tuple[CompanyList, Whole]:
    """Choose the first `run.sample` companies of a list for which a dataset is missing or stale.

    Returns:
        A list of these companies, with the refused lines of the whole list; and what the whole list would cost without
        budgets.
    """
    targets = find_targets(
        companies.companies,
        settings.run.datasets,
        held.state,
        held.paid,
        max_credits=-1,
        shard_companies=settings.run.shard_companies,
    )
    whole = Whole(count_companies(targets), estimate(settings.api, targets, held.totals))
    chosen = targets.lazy().select(pl.col(_KEY).cast(pl.String)).unique(maintain_order=True).head(settings.run.sample)
    return choose_from(companies, chosen.collect()), whole
