"""Enrich from Python: a file or a frame goes in, frames come out, and the data folder is the one that commands read."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from firmlake.core.errors import CompanyListError, FirmlakeError, HeldError
from firmlake.core.folders import Folders
from firmlake.core.settings import Settings
from firmlake.core.settings_layers import load_settings
from firmlake.core.work import utc_now
from firmlake.delivery.list_file import FileBack
from firmlake.enrich import plan as planning
from firmlake.enrich.events import Show, say_nothing
from firmlake.enrich.run import enrich, shortfall
from firmlake.enrich.targets import Price
from firmlake.intake.source import keep_copy, local_list
from firmlake.report.summary import RunSummary
from firmlake.warehouse.generations import connect_to, newest


class ArrowStream(Protocol):
    """A frame of Polars, pandas, Arrow or DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as an Arrow stream."""


Source = str | Path | pl.LazyFrame | ArrowStream


@dataclass(frozen=True)
class Enriched:
    """The result of `firmlake.enrich`. Frames hold what the generation published by it says of the list's companies.

    Attributes:
        lines: Every line of the list in its order: its own columns, then status and figures, as with `--out`.
        companies: One row per company: the table `companies`.
        financials: The table `financials`, read from the generation when it is collected.
        lookalikes: The table `lookalikes`, in the same way.
        relationships: The table `relationships`, in the same way.
        failures: The table `dead_letters`: one row for each company and dataset that failed, with reason_code.
        summary: What the run did, as `firmlake run --json` prints it.
        shortfall: What was left undone, with `message`, `next_step` and `exit_code`; None if nothing was.
        warehouse: The generation.
    """

    lines: pl.DataFrame
    companies: pl.DataFrame
    financials: pl.LazyFrame
    lookalikes: pl.LazyFrame
    relationships: pl.LazyFrame
    failures: pl.DataFrame
    summary: RunSummary
    shortfall: FirmlakeError | None
    warehouse: Path


@dataclass(frozen=True)
class Plan:
    """The result of `firmlake.plan`: what `firmlake.enrich` would fetch, and what that costs.

    Attributes:
        company_count: Companies of the list.
        target_count: Companies to request; the others are fresh.
        refused: Lines that name no usable company: line, given, reason.
        requests: Requests, about, by dataset.
        credits: The most credits that the run spends, within its budget.
        minutes: Duration at the allowance.
        prices: The price of everything due, without a budget, then of the cheaper cuts.
        guesses: What was guessed about the list.
    """

    company_count: int
    target_count: int
    refused: pl.DataFrame
    requests: dict[str, int]
    credits: int
    minutes: float
    prices: tuple[Price, ...]
    guesses: Sequence[str]


def enrich_source(
    source: Source, settings: Settings, columns: Sequence[str] = (), show: Show | None = None
) -> Enriched:
    """Fetch and publish what is missing for a list, and read the result; see `firmlake.enrich`."""
    folders = Folders.of(settings)
    with _as_file(source, settings, folders.inputs) as path, tempfile.TemporaryDirectory(prefix="firmlake-") as folder:
        back = FileBack(Path(folder) / "lines.parquet", tuple(columns))
        published = enrich(settings, path, "firmlake.enrich", show or say_nothing, file_back=back)
        if not published:
            raise CompanyListError(f"{path}: the list names no usable company", "Look at `firmlake.plan(...).refused`")
        undone = shortfall(published)
        if isinstance(undone, HeldError):
            raise undone
        lines = pl.read_parquet(back.path)
    warehouse = newest(folders)
    assert warehouse
    connection = connect_to(warehouse)  # the lazy frames keep it open

    def of_list(table: str) -> Any:
        members = "(SELECT DISTINCT country, company_number FROM list_members WHERE list_name = $name)"
        name = {"name": published[0].run.plan.company_list}
        return connection.sql(f"FROM {table} SEMI JOIN {members} USING (country, company_number)", params=name)

    return Enriched(
        lines,
        of_list("companies").pl(),
        of_list("financials").pl(lazy=True),
        of_list("lookalikes").pl(lazy=True),
        of_list("relationships").pl(lazy=True),
        of_list("dead_letters").pl(),
        published[0].summary,
        undone,
        warehouse,
    )


def plan_source(source: Source, settings: Settings) -> Plan:
    """Work out what a list would cost; see `firmlake.plan`."""
    with _as_file(source, settings) as path:
        planned = planning.plan(settings, path, utc_now(), is_priced=True)
    return Plan(
        planned.companies.companies.height,
        planned.estimate.target_count,
        planned.companies.refused,
        planned.estimate.request_counts,
        planned.estimate.credit_count,
        planned.estimate.minutes,
        planned.prices,
        planned.companies.guesses,
    )


def read_settings(
    data: str | Path | None, config: str | Path | None, list_name: str, given: Mapping[str, object] | None
) -> Settings:
    """Read the settings as commands do, with the arguments of `firmlake.enrich` above all layers."""
    named = {"paths.data": str(data) if data else "", "run.list_name": list_name}
    flags = {key: _as_text(value) for key, value in {**named, **(given or {})}.items() if value != ""}
    settings, _ = load_settings(Path(config) if config else None, flags)
    return settings


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


@contextmanager
def _as_file(source: Source, settings: Settings, keep_in: Path | None = None) -> Iterator[Path]:
    """Yield a local file with the list; a frame is written as Parquet, and kept so that a run can resume."""
    if isinstance(source, str | Path):
        with local_list(str(source), "", settings, keep_in) as path:
            yield path
        return
    frame = source.collect() if isinstance(source, pl.LazyFrame) else pl.DataFrame(source)
    with tempfile.TemporaryDirectory(prefix="firmlake-") as folder:
        file = Path(folder) / f"{settings.run.list_name or 'frame'}.parquet"
        frame.write_parquet(file)
        yield keep_copy(file, keep_in) if keep_in else file
