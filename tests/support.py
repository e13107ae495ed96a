"""Answers, landed runs and warehouses made by hand, small enough to see what must come out of them."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import duckdb
import hypothesis
import msgspec
import polars as pl
import pytest

from firmlake.cli import firmlake
from firmlake.core.company import Company, names_of
from firmlake.core.folders import Folders
from firmlake.core.settings import RunSettings, Settings
from firmlake.core.sql import quote_text
from firmlake.core.work import utc_now
from firmlake.delivery.deliver import Delivered, Request, deliver
from firmlake.delivery.destination import Destination
from firmlake.enrich.finish import decide_outcome, publish_run
from firmlake.enrich.held import Held, read_held
from firmlake.intake.lines import LINES, ListColumns, known_companies, store_lines
from firmlake.landing.run import AlertRule, Outcome, Run, RunPlan, begin, open_run
from firmlake.landing.segments import Header, SegmentWriter
from firmlake.tables.schemas import TABLES
from firmlake.tables.stage import Manifest, finish_stage, stage_shard
from firmlake.warehouse import schema, views
from firmlake.warehouse.generations import newest, publish
from firmlake.warehouse.load import load_run
from firmlake.warehouse.loads import Load
from firmlake.warehouse.views import create_views

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
ACME = Company("BE", "0403227515")
BOLT = Company("NL", "24202194")
CIRC = Company("FR", "552032534")
DATASETS = ("financials", "lookalikes", "relationships")
NO_COLUMNS = ListColumns()
LISTS = {"service_lists", "service_list_columns", "list_changes", "contact_additions"}
COMPANY_LISTS = {"company_lists", "list_members"}
UNASKED = {"FIRMLAKE_RUN__CHECK": "false"}
"""First runs that ask the service nothing of its own, so that their requests can be counted."""
STAGED = TABLES.keys() - LISTS - COMPANY_LISTS - {"runs", "loads", "company_changes", "alerts", "alert_rules"}
"""Tables whose rows a run stages; those of lists come another way, the others are made by the load."""


def examples(count: int) -> hypothesis.settings:
    """As many examples of a property with `--hypothesis-profile explore`, by default a quarter, or ten."""
    is_exploring = hypothesis.settings.get_current_profile_name() == "explore"
    return hypothesis.settings(max_examples=count if is_exploring else min(count, max(count // 4, 10)))


def lose_patience(
    monkeypatch: pytest.MonkeyPatch, pause: float = 0.01, pause_max: float = 0.05, patience: float = 0.5
) -> None:
    """Let a client pause for these seconds, and give up soon, once a service failed eight times in a row."""
    for name, seconds in (("pause", pause), ("pause_max", pause_max), ("patience", patience)):
        monkeypatch.setattr(f"firmlake.api.client.CircuitBreaker.{name}_seconds", seconds)


def commands() -> dict[str, click.Command]:
    """All commands by name, imported."""
    context = click.Context(firmlake)
    return {name: firmlake.get_command(context, name) for name in firmlake.list_commands(context)}


def slow(*cases: Any) -> list[Any]:
    """Cases of a test that only `-m slow` runs."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow) for case in cases]


def credentials(endpoint: str) -> dict[str, str]:
    """The environment in which a store of S3 is found."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "planted-secret",
        "AWS_REGION": "us-east-1",
    }


# --- answers ---------------------------------------------------------------------------------------------------------


def period(year: int = 2024, **changes: Any) -> dict[str, Any]:
    """A financial record; `people__employees=3` changes a value, `None` makes it null."""
    record = {
        "startDate": f"{year}-01-01",
        "endDate": f"{year}-12-31",
        "dateReceived": f"{year + 1}-06-30",
        "healthIndicator": 7,
        "jointCommitteeCodes": ["200", "0124"],
        "profitability": {
            "revenue": 1234567.89,
            "grossMargin": 345678.9,
            "ebitda": -12.34,
            "ebit": 0,
            "netProfit": -0.01,
        },
        "liquidity": {
            "cash": 10.5,
            "cashFlow": 20,
            "netWorkingCapital": 30.25,
            "netWorkingCapitalRequirement": 40,
            "currentRatio": 1.2345,
            "quickRatio": 0.5,
        },
        "solvency": {
            "totalAssets": 1000,
            "equity": 500.5,
            "capital": None,
            "retainedEarnings": -100,
            "debt": 499.5,
            "longTermDebt": 200,
            "longTermDebtFinancial": 150,
            "longTermDebtAccountsPayable": 50,
            "shortTermDebt": 299.5,
            "shortTermDebtFinancial": 200,
            "shortTermDebtAccountsPayable": 99.5,
        },
        "people": {"employees": 12, "newHires": 1, "employeeMaleRatio": 0.583333, "employeeFemaleRatio": 0.416667},
    }
    return _changed(record, changes)


def lookalike(company: Company = BOLT, score: float = 0.75) -> dict[str, Any]:
    return {"companyId": {"country": company.country, "companyNumber": company.company_number}, "score": score}


def party(company: Company | None = BOLT, **changes: Any) -> dict[str, Any]:
    identifier = None
    if company:
        identifier = {
            "country": company.country,
            "companyNumber": company.company_number,
            "name": f"{company.country} company",
            "place": "Gent",
        }
    record = {"identifier": identifier, "function": "SHAREHOLDER", "percentage": 0.25, "name": "Somebody"}
    return _changed(record, changes)


def found(company: Company, dataset: str, *records: Any, total: int | None = None, offset: int = 0) -> dict[str, Any]:
    """An element with records; those of relationships are parents."""
    element = {
        "identifier": {
            "country": company.country,
            "companyNumber": company.company_number.removeprefix("0"),
            "name": f"{company.country} name",
            "place": "Gent",
        },
        "data": {"parents": list(records), "children": []} if dataset == "relationships" else list(records),
        "message": None,
    }
    if dataset == "financials":
        page = {"limit": 5, "offset": offset, "total": len(records) if total is None else total}
        element["pagination"] = page
    return element


def not_found(company: Company, dataset: str = "financials", message: str = "Company not found") -> dict[str, Any]:
    identifier = {"country": company.country, "companyNumber": company.company_number}
    element = {"identifier": identifier, "data": None, "message": message}
    return {**element, "pagination": None} if dataset == "financials" else element


def body(*elements: Any) -> bytes:
    return json.dumps(elements, ensure_ascii=False, separators=(",", ":")).encode()


def _changed(record: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    for path, value in changes.items():
        *branches, leaf = path.split("__")
        holder = record
        for branch in branches:
            holder = holder[branch]
        holder[leaf] = value
    return record


# --- landed runs -----------------------------------------------------------------------------------------------------


def log_of(folders: Folders, run_id: str, kind: str) -> Path:
    """The segment with the newest record of a kind in the log of a run: begun, ended or pruned."""
    return open_run(folders, run_id).log()[kind].path


def make_run(
    folders: Folders,
    companies: Sequence[Company] = (ACME, BOLT, CIRC),
    datasets: Sequence[str] = DATASETS,
    *,
    run_id: str = "20260105T120000Z-0001",
    waiting: Sequence[Company] = (),
    refused: Sequence[tuple[int, str, str]] = (),
    at: datetime = NOON,
    shard_companies: int = 5000,
    expected: dict[tuple[Company, str], int] | None = None,
    failed_before: Sequence[tuple[Company, str]] = (),
    alert_rules: tuple[AlertRule, ...] | None = None,
) -> Run:
    """Freeze a run; `waiting` are the companies that a budget leaves out."""
    everybody = [*companies, *waiting]
    rows = [
        (
            0 if company in waiting else position // shard_companies + 1,
            *company,
            dataset,
            (expected or {}).get((company, dataset)),
            False,
            None,
            False,
            (company, dataset) in failed_before,
            False,
        )
        for position, company in enumerate(everybody)
        for dataset in datasets
    ]
    schema = {
        "shard": pl.Int64,
        "country": pl.String,
        "company_number": pl.String,
        "dataset": pl.String,
        "expected_count": pl.Int64,
        "is_paid": pl.Boolean,
        "free_until": pl.Datetime("us"),
        "is_refresh": pl.Boolean,
        "has_failed": pl.Boolean,
        "is_barred": pl.Boolean,
    }
    targets = pl.DataFrame(rows, schema=schema, orient="row")
    plan = RunPlan(
        run_id=run_id,
        started_at=at,
        list_name="list.csv",
        list_sha256="0" * 64,
        service="this machine",
        language="EN",
        datasets=tuple(datasets),
        line_count=len(everybody) + len(refused),
        company_count=len(everybody),
        refused_count=len(refused),
        repeated_count=0,
        fresh_count=0,
        target_count=len(everybody),
        shard_count=max((row[0] for row in rows), default=0),
        firmlake_version="0",
        alert_rules=alert_rules,
    )
    lines = [(line, None, None, "refused", reason, given, "{}", None) for line, given, reason in refused]
    taken = {line for line, *_ in refused}
    places = (line for line in range(1, 10**9) if line not in taken)
    lines += [(line, *one, "accepted", None, None, "{}", None) for line, one in zip(places, everybody, strict=False)]
    return begin_with_lines(Run(folders, plan), lines, targets)


def begin_with_lines(
    run: Run, rows: Sequence[tuple[Any, ...]], targets: pl.DataFrame | None = None, columns: ListColumns = NO_COLUMNS
) -> Run:
    """Begin a run, or begin it again, with the lines of a list."""
    stored = store_lines(run.folders.lists, columns, [pl.DataFrame(rows, schema=LINES, orient="row")])
    return begin(run.with_list(stored), targets)


def named(state: pl.DataFrame) -> pl.DataFrame:
    """Add the names of companies to what is held of them, which has their keys."""
    return pl.concat([names_of(state["company"]), state], how="horizontal")


def header(
    dataset: str = "financials",
    companies: Iterable[Company] = (ACME,),
    *,
    run_id: str = "20260105T120000Z-0001",
    shard: int = 1,
    at: datetime = NOON,
    **values: Any,
) -> Header:
    companies = tuple(tuple(company) for company in companies)
    own = {"request_id": f"{dataset}-{values.get('offset')}-{companies}", "status": 200, "limit": None, "offset": None}
    return Header(run_id=run_id, shard=shard, dataset=dataset, companies=companies, fetched_at=at, **{**own, **values})


def land(run: Run, *records: tuple[Header, bytes], shard: int = 1) -> Path:
    """Land answers in a segment of their own; the headers are made to be those of the run."""
    with SegmentWriter(run.folders.landing(run.run_id, shard)) as writer:
        for one, content in records:
            writer.append(msgspec.structs.replace(one, run_id=run.run_id, shard=shard), content)
    return writer.path


def answer(dataset: str, *elements: dict[str, Any], at: datetime = NOON, **values: Any) -> tuple[Header, bytes]:
    """What lands when the service answers with these elements about exactly their companies."""
    companies = [Company(**_company(element["identifier"])) for element in elements]
    return header(dataset, companies, at=at, **values), body(*elements)


def _company(identifier: dict[str, str]) -> dict[str, str]:
    length = {"BE": 10, "NL": 8, "FR": 9}[identifier["country"]]
    return {"country": identifier["country"], "company_number": identifier["companyNumber"].zfill(length)}


FAILED, WAITING = "failed", "waiting"
"""What a company gets in place of an answer: the service gave up on it, or it was not asked."""


def run_name(day: float) -> str:
    """Name the run that begins so many days after NOON."""
    return f"{NOON + day * DAY:%Y%m%dT%H%M%SZ}-0001"


def land_run(
    folders: Folders, day: float, answers: dict[Company, Any], datasets: Sequence[str] = (), **plan: Any
) -> Run:
    """Land a run that begins so many days after NOON.

    Args:
        answers: For each company its records by dataset (none: an empty answer), None where the service does not know
            it, FAILED or WAITING; the same may stand in place of the records of one dataset. A mapping in place of
            records is the whole element.
        datasets: Default: those that the answers name.
        plan: What differs in the run's plan.
    """
    at = NOON + day * DAY
    named = {dataset for one in answers.values() if isinstance(one, dict) for dataset in one}
    datasets = datasets or [dataset for dataset in DATASETS if dataset in named]
    run = make_run(folders, list(answers), datasets, run_id=plan.pop("run_id", run_name(day)), at=at)
    run = Run(folders, msgspec.structs.replace(run.plan, **plan))
    for dataset in datasets:
        elements = []
        for company, one in answers.items():
            records = one.get(dataset, []) if isinstance(one, dict) else one
            if records == FAILED:
                given_up = header(
                    dataset, [company], kind="given_up", status=None, error="refused: 422", at=at, offset=0
                )
                land(run, (given_up, b""))
            elif records != WAITING:
                element = records if isinstance(records, dict) else found(company, dataset, *(records or ()))
                elements.append(not_found(company, dataset) if records is None else element)
        if elements:
            land(run, answer(dataset, *elements, at=at, offset=0))
    return run


def run_of(
    folders: Folders,
    day: float,
    answers: dict[Company, Any],
    datasets: Sequence[str] = (),
    *,
    outcome: str = "done",
    published: float | None = None,
    keep: int = 5,
    **plan: Any,
) -> Run:
    """Land a run as `land_run` does, and publish it a minute later, or so many days after NOON."""
    run = land_run(folders, day, answers, datasets, **plan)
    publish_landed(run, outcome, at=NOON + (day if published is None else published) * DAY + MINUTE, keep=keep)
    return run


def publish_list(
    folders: Folders,
    companies: Sequence[Company | None],
    *,
    day: int = 0,
    name: str = "customers",
    cells: Sequence[dict[str, str]] = (),
    reason: str = "wrong form",
    given: str = "x",
    delimiter: str = "",
    kinds: Sequence[str | None] = (),
) -> Run:
    """Publish a run over a list of which nothing has landed; None in place of a company is a line that is refused."""
    left_out = [company for company in dict.fromkeys(companies) if company]
    run = make_run(folders, [], run_id=f"2026-{day}", at=NOON + day * DAY, waiting=left_out)
    rows = [
        (
            line,
            *(company or (None, None)),
            "accepted" if company else "refused",
            None if company else reason,
            given,
            json.dumps(cells[line - 2] if cells else {}, ensure_ascii=False),
            kinds[line - 2] if kinds else None,
        )
        for line, company in enumerate(companies, 2)
    ]
    columns = ListColumns(tuple(cells[0]) if cells else (), delimiter=delimiter)
    named = Run(folders, msgspec.structs.replace(run.plan, company_list=name))
    begun = begin_with_lines(named, rows, columns=columns)
    publish_landed(begun, "stopped", at=NOON + day * DAY + MINUTE)
    return begun


def publish_two_lists(folders: Folders) -> None:
    """Publish two lists with views: customers (Acme and Bolt), and others (Circ)."""
    publish_list(folders, [ACME, BOLT], name="customers")
    publish_list(folders, [CIRC], day=1, name="others")
    with_views(folders)


def with_views(folders: Folders) -> None:
    """Make the views in a generation of its own, as every publish of firmlake does."""
    publish(
        folders, lambda connection, _: create_views(connection), memory_limit="256MB", keep=9, start=newest(folders)
    )


def export(
    folders: Folders, request: Request, destination: Destination, now: Callable[[], datetime] = utc_now
) -> Delivered:
    """Export to a destination that is open already."""
    with patch("firmlake.delivery.deliver.open_destination", return_value=destination):
        return deliver(folders, msgspec.structs.replace(request, target=destination.url), now=now)


# --- staged and published --------------------------------------------------------------------------------------------


def stage(run: Run) -> Manifest:
    return finish_stage(run, [stage_shard(run, shard) for shard in run.shards()])


def publish_landed(
    run: Run, outcome: str = "done", *, at: datetime = NOON + MINUTE, keep: int = 5, first: Path | None = None
) -> Path:
    """Bring a landed run to its end: staged, finished, published."""
    manifest = stage(run)
    ended = run.finish(outcome, "", at)
    return publish_staged(run, manifest, ended, at=at, keep=keep, first=first)


def publish_by_rules(run: Run, settings: Settings, at: datetime) -> str:
    """Publish a landed run as `firmlake run` does, unless the settings refuse it; gives its outcome."""
    run = run.read_by(settings.contract)
    manifest = stage(run)
    outcome = decide_outcome(settings, run, manifest, "", at)
    publish_run(settings, run, manifest, outcome, at)
    return outcome.outcome


def publish_staged(
    run: Run, manifest: Manifest, ended: Outcome, *, at: datetime = NOON, keep: int = 5, first: Path | None = None
) -> Path:
    """Publish staged tables; the first generation is a copy of `first`, which may have views."""
    return publish(
        run.folders,
        lambda connection, number: load_run(connection, run, manifest, ended, Load(number, run.run_id, at, at)),
        memory_limit="256MB",
        keep=keep,
        start=newest(run.folders) or first,
    )


@cache
def empty_warehouse() -> Path:
    """A warehouse without a row and without comments: making its tables and views takes longer than a small load."""
    folder = Path(tempfile.mkdtemp(prefix="empty", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    # Blocks of 16 KB: a table of a few rows fills one for each column, and 256 KB take longer to write.
    settings: dict[str, Any] = {"storage_compatibility_version": "v1.4.0", "default_block_size": "16384"}
    with pytest.MonkeyPatch.context() as patch, duckdb.connect(folder / "empty.duckdb", config=settings) as connection:
        for module in (schema, views):
            patch.setattr(module, "_comments", lambda *_: ())
        schema.create_tables(connection)
        views.create_views(connection)
    return folder / "empty.duckdb"


@cache
def _database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@contextmanager
def attached(path: Path | None = None, *, is_writable: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a cursor of the one database of this process, with a file attached: each start of a database takes 30 ms."""
    with _database().cursor() as cursor:
        if path:
            mode = "" if is_writable else " (READ_ONLY)"
            cursor.execute(f"ATTACH {quote_text(str(path))} AS warehouse{mode}; USE warehouse")
        try:
            yield cursor
        finally:
            if path:
                cursor.execute("USE memory; DETACH warehouse")


def query(folders: Folders, sql: str) -> list[tuple[Any, ...]]:
    """Query the newest generation."""
    path = newest(folders)
    assert path
    with attached(path) as cursor:
        return cursor.execute(sql).fetchall()


def held_at(folders: Folders, now: datetime, refresh: int = 30, window: int = 30, free: int = 0) -> Held:
    """Read what a run would be planned from."""
    run = RunSettings(refresh_after_days=refresh, credit_window_days=window, free_refresh_days=free)
    nobody = pl.DataFrame(schema={"country": pl.String, "company_number": pl.String})
    return read_held(Settings(run=run), folders, known_companies(nobody, "nobody"), now, of_all=True)


class Elsewhere(Folders):
    """A data folder whose index is in another folder."""

    @property
    def state(self) -> Path:
        assert self.made
        return self.made


INDEXED = ("said", "answered", "purchase", "charge")
"""The tables of the index that planning reads."""


def index_rows(index: sqlite3.Connection, table: str) -> list[tuple[Any, ...]]:
    """Give the rows of a table of the index, with the names of runs in place of their numbers, which mean nothing."""
    cursor = index.execute(f"SELECT t.*, r.name FROM {table} t JOIN run r ON r.number = t.run")
    run = [column[0] for column in cursor.description].index("run")
    return sorted(((*row[:run], *row[run + 1 :]) for row in cursor), key=repr)


def edit_warehouse(folders: Folders, sql: str) -> None:
    """Change the newest generation in place, as nobody should."""
    path = newest(folders)
    assert path
    path.chmod(0o644)
    with duckdb.connect(path) as connection:
        connection.execute(sql)
    path.chmod(0o444)


def plain(value: Any) -> Any:
    """A value of a table as a reader would write it into JSON: amounts and times as text."""
    return str(value) if isinstance(value, Decimal | datetime) or hasattr(value, "isoformat") else value


def storage_version(folders: Folders) -> str:
    """Say from which DuckDB on the newest generation can be read."""
    ((tags,),) = query(folders, "SELECT tags FROM duckdb_databases() WHERE database_name = 'warehouse'")
    return str(tags["storage_version"])
