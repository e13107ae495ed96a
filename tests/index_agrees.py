"""Compare what a run would be planned from in the index with what the warehouse and the unfinished runs hold."""

from __future__ import annotations

from datetime import UTC
from zoneinfo import ZoneInfo

import polars as pl
from polars.testing import assert_frame_equal

from firmlake.core.run import list_runs
from firmlake.enrich import held as holding
from firmlake.intake.key import company_key
from firmlake.landing.charged import with_refresh_off
from firmlake.report.bill import month_start
from firmlake.tables.index import Load, open_index
from firmlake.warehouse.generations import newest, open_warehouse
from firmlake.warehouse.loads import read_loads


def check_index(settings, folders, now, held):
    loads, loaded = [], held.runs
    if newest(folders) is not None:
        with open_warehouse(folders) as connection:
            loads = [Load(load.name, load.loaded_at) for load in read_loads(connection) if load.name in set(loaded)]
    days = settings.run.refresh_after_days, settings.run.credit_window_days
    with open_index(folders, list_runs(folders, loaded), loads) as index:
        found = holding.read_index(index, now, *days, with_refresh_off(settings.run, folders).free_refresh_days)
        spent = holding.index_spent(index, month_start(now, ZoneInfo(settings.run.time_zone)).astimezone(UTC))
    assert_frame_equal(_comparable(found), _comparable(held))
    assert_frame_equal(found.paid.sort(["country", "company_number"]), held.paid.sort(["country", "company_number"]))
    assert (found.totals, found.runs, found.ahead, spent) == (held.totals, held.runs, held.ahead, held.spent)


def _comparable(held):
    """Give the state in the order of its key. Outside a paid window nothing depends on when the window closed."""
    paid = held.paid.select(company_key().alias("company"))["company"]
    is_closing = pl.col("is_closing") & pl.col("company").is_in(paid.implode())
    return held.state.with_columns(is_closing).sort("company", "dataset")
