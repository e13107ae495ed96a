"""The way through, stage by stage: intake, plan, landing, tables, warehouse; what commands and flows call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import duckdb
import msgspec
import polars as pl

from firmlake import __version__
from firmlake.api.address import read_address
from firmlake.api.authorization import Token, read_token
from firmlake.api.budget import RequestBudget
from firmlake.api.client import Answer, Client
from firmlake.api.failures import InterruptedRunError
from firmlake.api.throttle import open_throttle
from firmlake.embedded import start_embedded
from firmlake.errors import DamagedError, DriftError, SettingsError, Stopped
from firmlake.files import read_json, write_json
from firmlake.intake.company_list import CompanyList, known_companies, read_company_list
from firmlake.intake.plan import Estimate, count_companies, estimate, find_targets
from firmlake.landing.fetch import Fetcher
from firmlake.run import Folders, Outcome, Run, RunPlan, list_runs, new_run_id, start_run
from firmlake.settings import SANDBOX, Settings
from firmlake.tables.schemas import TABLES, polars_schema
from firmlake.tables.stage import Manifest, finish_stage, stage_shards
from firmlake.warehouse.expand import neighbours
from firmlake.warehouse.generations import newest, open_warehouse, publish
from firmlake.warehouse.load import load_run
from firmlake.warehouse.state import Held, read_held
from firmlake.warehouse.views import create_views

__all__ = [
    "Planned",
    "check_access",
    "check_service",
    "connect",
    "fetch",
    "fetching",
    "finish",
    "freeze",
    "plan",
    "plan_outward",
    "plan_redrive",
    "plan_steps",
    "publish_run",
    "service_name",
    "spend",
    "stage",
    "stamp_service",
]


REDRIVE = "redrive"
"""In place of the name of a list: the companies that failed."""
_SHARDS_AT_ONCE = 2
_SIGNALS_EVERY_SECONDS = 0.2


class Planned(NamedTuple):
    """What a run over a company list would do; nothing has been written or asked.

    Attributes:
        targets: As `find_targets` gives them.
        unfinished: An earlier run over the same companies that can be continued instead.
    """

    companies: CompanyList
    targets: pl.DataFrame
    estimate: Estimate
    waiting_count: int
    unfinished: Run | None


class _Stamp(msgspec.Struct, frozen=True):
    """Which service a data folder belongs to."""

    service: str


def plan(settings: Settings, company_list: Path, now: datetime) -> Planned:
    """Read a company list and work out what of it is to be fetched and what that costs.

    Raises:
        CompanyListError: The list cannot be used.
        SettingsError: The data folder belongs to another service.
    """
    folders = Folders(Path(settings.paths.data))
    check_service(settings, folders)
    companies = read_company_list(company_list, settings.intake)
    return _plan(settings, folders, companies, _read_held(settings, folders, now), now)


def plan_redrive(settings: Settings, now: datetime) -> Planned:
    """Work out how to ask again for what failed, whatever list it came from.

    Raises:
        SettingsError: The data folder belongs to another service.
    """
    folders = Folders(Path(settings.paths.data))
    check_service(settings, folders)
    held = _read_held(settings, folders, now)
    failed = held.state.filter("has_failed").select("country", "company_number").unique(maintain_order=True)
    return _plan(settings, folders, known_companies(failed, REDRIVE), held, now, only_failed=True)


def plan_outward(settings: Settings, inner: pl.DataFrame, known: pl.DataFrame, step: int, now: datetime) -> Planned:
    """Work out what to fetch of the companies one step beside others, by `run.expand`.

    Args:
        settings: Budgets are those of this step alone.
        inner: Where to start: country, company_number.
        known: Everybody asked for by now: likewise.
        step: Steps away from the list, for the name of the run.
        now: UTC.
    """
    folders = Folders(Path(settings.paths.data))
    held = _read_held(settings, folders, now)
    outer = inner.clear()
    if held.runs:
        with open_warehouse(folders) as connection:
            outer = neighbours(connection, inner, known, settings.run.expand)
    companies = known_companies(outer, f"{settings.run.expand}, step {step}")
    return _plan(settings, folders, companies, held, now)


def plan_steps(settings: Settings, planned: Planned, now: datetime) -> list[Planned]:
    """Work out what the steps outward would fetch, as far as what is held by now tells who is there."""
    steps = [planned]
    known = planned.companies.companies.select("country", "company_number")
    for step in range(1, settings.run.depth + 1):
        last = steps[-1]
        settings = spend(settings, last.estimate.credit_count, sum(last.estimate.request_counts.values()))
        outward = plan_outward(settings, last.companies.companies, known, step, now)
        if outward.companies.companies.is_empty():
            break
        steps.append(outward)
        known = pl.concat([known, outward.companies.companies.select("country", "company_number")])
    return steps[1:]


def spend(settings: Settings, credit_count: int, request_count: int) -> Settings:
    """Take off the budgets what a run used of them, for the next that shares them."""
    run = settings.run
    left = {"max_credits": run.max_credits - credit_count, "max_requests": run.max_requests - request_count}
    changed = {name: max(0, count) for name, count in left.items() if getattr(run, name) >= 0}
    return msgspec.structs.replace(settings, run=msgspec.structs.replace(run, **changed))


def freeze(settings: Settings, planned: Planned, now: datetime) -> Run:
    """Freeze what a run is to do, or take up the unfinished one."""
    if planned.unfinished:
        return planned.unfinished
    folders = Folders(Path(settings.paths.data))
    companies, targets = planned.companies, planned.targets
    asked = count_companies(targets)
    frozen = RunPlan(
        run_id=new_run_id(now),
        started_at=now,
        list_name=companies.path.name,
        list_sha256=companies.sha256,
        service=service_name(settings),
        language=settings.api.language,
        datasets=settings.run.datasets,
        line_count=companies.companies.height + companies.refused.height + companies.repeated_count,
        company_count=companies.companies.height,
        refused_count=companies.refused.height,
        repeated_count=companies.repeated_count,
        fresh_count=companies.companies.height - asked,
        target_count=asked,
        shard_count=int(targets["shard"].max() or 0),  # type: ignore[arg-type]
        firmlake_version=__version__,
        credit_window_days=settings.run.credit_window_days,
        lookalikes_watched=settings.run.lookalikes_watched,
        names=settings.api.names,
    )
    stamp_service(settings, folders)
    tables = {"companies": companies.companies, "repaired": companies.repaired, "refused_lines": companies.refused}
    return start_run(folders, frozen, targets, tables)


def check_access(settings: Settings) -> Token | None:
    """Make sure that the service can be asked, before anything is written: an address that is safe, and a token.

    Returns:
        The token; None for the embedded service, which gets one when it starts.

    Raises:
        SettingsError: There is no address or no token, or they cannot be used.
    """
    if not settings.api.base_url:
        raise SettingsError(
            "No service is named", "Set FIRMLAKE_API__BASE_URL and FIRMLAKE_API_TOKEN, or try `firmlake demo`"
        )
    if settings.api.base_url == SANDBOX:
        return None
    read_address(settings.api.base_url)
    return read_token()


@contextmanager
def connect(settings: Settings, stop: threading.Event | None = None) -> Iterator[Client]:
    """Open a client for the service the settings name, starting the embedded one where they say so.

    Raises:
        SettingsError: There is no address or no token, or they cannot be used.
    """
    with ExitStack() as stack:
        api, token = settings.api, check_access(settings)
        if token is None:
            embedded = stack.enter_context(start_embedded(api))
            api, token = msgspec.structs.replace(api, base_url=embedded.base_url), embedded.token
        throttle = open_throttle(api, token.key_hash(api.base_url))
        if settings.run.max_requests >= 0:
            throttle = RequestBudget(throttle, settings.run.max_requests)
        yield stack.enter_context(Client(api, token, throttle, stop=stop))


@contextmanager
def fetching(
    settings: Settings, run: Run, client: Client, on_answer: Callable[[Answer], object] = lambda answer: None
) -> Iterator[Fetcher]:
    """Open what fetches the shards of a run; at the end it waits for the requests in flight."""
    fetcher = Fetcher(client, settings, run, on_answer)
    try:
        yield fetcher
    finally:
        fetcher.close()


def fetch(fetcher: Fetcher, run: Run) -> str:
    """Fetch all shards of a run, a few at once so that none waits for the end of another.

    Returns:
        Why it stopped before its end; empty when every company is answered or given up.

    Raises:
        InterruptedRunError: A signal came.
        FirmlakeError: Nothing more can be fetched now; what has landed is kept.
    """
    stopped = ""
    with ThreadPoolExecutor(_SHARDS_AT_ONCE, thread_name_prefix="shard") as pool:
        pending = {pool.submit(fetcher.fetch_shard, shard) for shard in range(1, run.plan.shard_count + 1)}
        try:
            while pending:
                # Not for ever: Polars leaves a handler for SIGINT that does not wake a thread from an endless wait.
                done, pending = wait(pending, _SIGNALS_EVERY_SECONDS, FIRST_COMPLETED)
                for future in done:
                    try:
                        future.result()
                    except InterruptedRunError:
                        raise
                    except Stopped as error:
                        stopped = stopped or error.message
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return stopped


def stage(run: Run) -> Manifest:
    """Stage every shard that is not staged yet, and so the run."""
    return finish_stage(run, stage_shards(run))


def finish(settings: Settings, run: Run, manifest: Manifest, stopped: str, now: datetime) -> Outcome:
    """Decide how a staged run ended, and record it.

    Args:
        settings: What share of failed companies still counts as done.
        run: The run.
        manifest: Its staged files.
        stopped: Why fetching stopped before its end; empty where it did not.
        now: UTC.

    Raises:
        DriftError: So many records lack a known field that publishing would replace good values by nothing.
    """
    vanished = _staged(run, manifest, "drift").filter(pl.col("kind") == "vanished_field").collect()
    _refuse_drift(settings, run, manifest, vanished)
    states = _staged(run, manifest, "company_state")
    failed = states.filter((pl.col("status") == "failed") | (pl.col("reject_count") > 0))
    failed_count = failed.select("country", "company_number").unique().collect().height
    waiting = states.filter(pl.col("status") == "waiting").select(pl.len()).collect().item()
    if stopped or waiting:
        return run.finish("stopped", stopped or "run.max_credits leaves companies out", now)
    if vanished.height or failed_count > settings.run.fail_share * run.plan.target_count:
        return run.finish("some_failed", f"{failed_count} companies failed", now)
    return run.finish("done", "", now)


def publish_run(settings: Settings, run: Run, manifest: Manifest, outcome: Outcome, now: datetime) -> Path:
    """Load a staged run into the next generation of the warehouse.

    Returns:
        The generation that is now the newest.
    """

    def load(connection: duckdb.DuckDBPyConnection, number: int) -> None:
        load_run(connection, run, manifest, outcome, number, now)
        create_views(connection)

    return publish(
        run.folders,
        load,
        memory_limit=settings.run.duckdb_memory,
        keep=settings.run.keep_generations,
        start=newest(run.folders),
        storage_version=settings.run.storage_version,
    )


def service_name(settings: Settings) -> str:
    """Name the service: its host, or that it is on this machine, where ports change."""
    host = urlsplit(settings.api.base_url).hostname or settings.api.base_url
    return "this machine" if host in ("127.0.0.1", "localhost", "::1", SANDBOX, "") else host


def stamp_service(settings: Settings, folders: Folders) -> None:
    """Note which service a data folder belongs to."""
    write_json(_stamp_path(folders), _Stamp(service_name(settings)))


def check_service(settings: Settings, folders: Folders) -> None:
    """Refuse a data folder that holds the answers of another service.

    Raises:
        SettingsError: Name another folder.
        DamagedError: The file that says whose answers they are is not what was written.
    """
    path = _stamp_path(folders)
    if not (settings.api.base_url and path.exists()):
        return
    try:
        service = read_json(path, _Stamp).service
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedError(f"{path} cannot be read: {error}", "Remove it; the next run writes it again") from None
    if service != service_name(settings):
        raise SettingsError(
            f"{folders.data} holds the answers of {service}, not of {service_name(settings)}",
            "Name another folder in paths.data, so that they do not mix",
        )


def _plan(
    settings: Settings,
    folders: Folders,
    companies: CompanyList,
    held: Held,
    now: datetime,
    *,
    only_failed: bool = False,
) -> Planned:
    targets = find_targets(
        companies.companies,
        settings.run.datasets,
        held.state,
        held.paid,
        max_credits=settings.run.max_credits,
        shard_companies=settings.run.shard_companies,
    )
    targets = targets.filter("has_failed") if only_failed else targets
    waiting = count_companies(targets.filter(pl.col("shard") == 0))
    cost = estimate(settings.api, targets, held.totals, settings.run.max_requests)
    return Planned(companies, targets, cost, waiting, _find_unfinished(settings, folders, companies, held, now))


# ---------------------------------------------------------------------------------------------------------------------


def _stamp_path(folders: Folders) -> Path:
    return folders.state / "service.json"


def _read_held(settings: Settings, folders: Folders, now: datetime) -> Held:
    days = settings.run.refresh_after_days, settings.run.credit_window_days
    if newest(folders) is None:
        return read_held(None, now, *days)
    with open_warehouse(folders) as connection:
        return read_held(connection, now, *days)


def _find_unfinished(
    settings: Settings, folders: Folders, companies: CompanyList, held: Held, now: datetime
) -> Run | None:
    """Find the newest run over the same companies that is not in the warehouse and not too old to go on with."""
    oldest = now - timedelta(days=max(1, settings.run.refresh_after_days))
    for run in reversed(list_runs(folders)):
        same = (
            run.plan.list_sha256 == companies.sha256
            and run.plan.datasets == settings.run.datasets
            and run.plan.language == settings.api.language
        )
        if same and run.run_id not in held.runs and run.plan.started_at > oldest:
            return run
    return None


def _staged(run: Run, manifest: Manifest, table: str) -> pl.LazyFrame:
    """Scan a staged table: of a million companies it need not all be in memory."""
    folder = run.folders.staged(run.run_id)
    files = [folder / file.path for file in manifest.files if file.table == table]
    if not files:
        return pl.LazyFrame(schema=polars_schema(TABLES[table]))
    return pl.scan_parquet(files, glob=False, hive_partitioning=False)


def _refuse_drift(settings: Settings, run: Run, manifest: Manifest, vanished: pl.DataFrame) -> None:
    records = {
        dataset: sum(file.row_count for file in manifest.files if file.table == dataset)
        for dataset in run.plan.datasets
    }
    for dataset, path, count in vanished.group_by("dataset", "path").agg(pl.col("record_count").sum()).iter_rows():
        if count > settings.run.vanished_share_max * records[dataset]:
            raise DriftError(
                f"{count} of {records[dataset]} {dataset} records lack {path}; nothing was published",
                f"Look at `firmlake status`; --set run.vanished_share_max=1 publishes run {run.run_id} as it is",
            )
