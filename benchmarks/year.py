"""Scheduled runs on the sandbox's clock: credits and age of the data, with and without free refreshes.

    python -m benchmarks.year                            # 52 weekly and 52 daily runs of 200 companies
    python -m benchmarks.year --companies 50 --every 7   # only the weekly runs

The companies join the list over the first five runs, so that not all fall due on the same day. The credits are those of
the sandbox's ledger, not of ours.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import NamedTuple

import click

import firmlake_sandbox
from firmlake.core.folders import Folders
from firmlake.core.settings_layers import load_settings
from firmlake.enrich.run import enrich
from firmlake.warehouse.generations import ask
from firmlake_sandbox import Sandbox

_START = datetime(2026, 1, 5, 2, tzinfo=UTC)
_DAY = 86_400
_LATE_SECONDS = 1_800
"""A run starts up to half an hour late: a worker polls, a machine is busy."""
_JOIN_RUNS = 5


class Year(NamedTuple):
    """The result of the runs.

    Attributes:
        credits: Credits that the sandbox charged.
        requests: Requests that the sandbox answered.
        ages: Mean age in days of the answers held, before each run of the second half.
        free_refreshes: Companies refreshed for free, by our ledger.
        unexplained: Runs with another bill than our ledger expects.
    """

    credits: int
    requests: int
    ages: list[float]
    free_refreshes: int
    unexplained: int


def simulate(sandbox: Sandbox, data: Path, companies: int, every: int, free_refresh_days: int, runs: int = 52) -> Year:
    """Carry out scheduled runs into a new data folder.

    Args:
        sandbox: A sandbox; it is reset, and its clock is moved.
        data: The data folder.
        companies: Number of companies.
        every: Days between two runs.
        free_refresh_days: The setting `run.free_refresh_days`.
        runs: Number of runs.
    """
    sandbox.reset()
    values = {
        "api.base_url": sandbox.base_url,
        "api.requests_per_minute": "0",
        "paths.data": str(data),
        "run.free_refresh_days": str(free_refresh_days),
        "run.keep_generations": "1",
    }
    settings, _ = load_settings(None, values)
    numbers = firmlake_sandbox.sample_numbers(companies, seed=7)
    company_list, folders, ages = data.with_suffix(".csv"), Folders(data), list[float]()
    at = _START
    for number, begun in enumerate(_starts(every, runs), 1):
        sandbox.advance((begun - at).total_seconds())
        at = begun
        joined = numbers[: max(1, companies * number // _JOIN_RUNS)]
        company_list.write_text("country,number\n" + "".join(f"{country},{number}\n" for country, number in joined))
        if number > runs / 2:
            ages.append(_age(folders, begun))
        enrich(settings, company_list, "a simulated year", now=lambda: at)  # noqa: B023 - called at once
    summary = sandbox.ledger(summary=True)["summary"]
    _, [(free, unexplained)] = ask(folders, _TOTALS)
    return Year(summary["credits_charged"], summary["requests"], ages, free, unexplained)


_TOTALS = "SELECT sum(free_refresh_count)::INT, count(*) FILTER (unexplained_credit_count <> 0) FROM spend"


def _starts(every: int, runs: int) -> Iterator[datetime]:
    late = random.Random(1)  # noqa: S311 - no secret
    for number in range(runs):
        yield _START + timedelta(days=number * every, seconds=late.uniform(0, _LATE_SECONDS))


def _age(folders: Folders, now: datetime) -> float:
    _, [(age,)] = ask(
        folders, f"SELECT avg(epoch(TIMESTAMP '{now:%Y-%m-%d %H:%M:%S}' - fetched_at)) FROM company_state"
    )
    return float(age) / _DAY


@click.command()
@click.option("--companies", default=200, show_default=True)
@click.option("--every", "intervals", type=int, multiple=True, default=(7, 1), show_default=True, help="Days.")
@click.option("--free", "free_days", type=int, multiple=True, default=(0, 7, 1), show_default=True)
def main(companies: int, intervals: Sequence[int], free_days: Sequence[int]) -> None:
    """Print a line for each schedule and setting; docs/bill.md shows them as a table."""
    with firmlake_sandbox.start() as sandbox, TemporaryDirectory() as folder:
        os.environ["FIRMLAKE_API_TOKEN"] = sandbox.token
        for every in intervals:
            for free in free_days:
                if 0 < free < every:
                    continue
                year = simulate(sandbox, Path(folder) / f"{every}-{free}", companies, every, free)
                print(  # noqa: T201
                    f"every {every} days, free_refresh_days {free}: {year.credits / companies:.2f} credits a company, "
                    f"{year.free_refreshes} free refreshes, {year.requests} requests, age {mean(year.ages):.1f} days "
                    f"(at most {max(year.ages):.1f}), {year.unexplained} unexplained bills",
                    flush=True,
                )


if __name__ == "__main__":
    main()
