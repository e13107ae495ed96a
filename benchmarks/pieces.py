"""firmlake's work in measured pieces: each does its work, tells its stages apart, and reads back what came of it.

Stages of receiving, in which several threads work at once, are told apart by the CPU time of threads. All others are
told apart by the time of the process, in which Polars and DuckDB have threads of their own; so the tables of a shard
are written one after the other here. What a piece needs is imported when it works, so that it counts.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from benchmarks.read_back import read_export, read_list_back, read_loaded, read_report, read_warehouse
from benchmarks.service import ROOT, cpu_seconds
from benchmarks.stages import Stages

__all__ = ["PIECES", "Job", "Piece"]


class Job(NamedTuple):
    """What a piece of work is about: a data folder, a company list, and the service."""

    data: Path
    company_list: Path
    base_url: str


class Piece(NamedTuple):
    """A piece of work, and how to read back what came of it."""

    work: Callable[[Job, Stages], Any]
    facts: Callable[[Job, Any], dict[str, Any]]


def run(job: Job, stages: Stages) -> None:
    """Fetch a list, stage it and publish it: what `firmlake run` does, without its words."""
    from firmlake.enrich.run import enrich
    from firmlake.landing import fetch
    from firmlake.landing.fetch import Fetcher
    from firmlake.landing.progress import Progress
    from firmlake.landing.segments import SegmentWriter

    def carry_out(name: str, work: Callable[[], Any], describe: Callable[[Any], str] | None = None) -> Any:  # noqa: ARG001
        return stages.wrapped(work, "plan", "other")() if name == "plan" else work()

    thread = time.thread_time
    with (
        _staging(stages),
        _publishing(stages, "other"),
        patch.object(Fetcher, "fetch_shard", stages.wrapped(Fetcher.fetch_shard, "receive", "other", thread)),
        patch.object(Fetcher, "send", stages.wrapped(Fetcher.send, "receive", "other", thread)),
        patch.object(SegmentWriter, "append", stages.wrapped(SegmentWriter.append, "land", "receive", thread)),
        patch.object(fetch, "read_answer", stages.wrapped(fetch.read_answer, "check", "receive", thread)),
        patch.object(Progress, "absorb", stages.wrapped(Progress.absorb, "check", "receive", thread)),
    ):
        enrich(_settings(job), job.company_list, "a benchmark", carry_out=carry_out)


def replay(job: Job, stages: Stages, processes: int = 1) -> None:
    """Make tables and warehouse again from what has landed."""
    from firmlake.core.folders import Folders
    from firmlake.rebuild import replay

    settings = _settings(job._replace(base_url=""))
    with _staging(stages), _publishing(stages, "other"):
        replay.replay(Folders(job.data), lambda: datetime.now(UTC), settings.run, processes=processes)


def plan(job: Job, stages: Stages) -> Any:
    """Work out what a run over a list would ask."""
    from firmlake.enrich import plan as planning

    with stages.clock("plan"):
        return planning.plan(_settings(job), job.company_list, datetime.now(UTC))


def export(job: Job, stages: Stages) -> Path:
    """Export the warehouse to Parquet files in a folder."""
    from firmlake.core.folders import Folders
    from firmlake.delivery.deliver import Request, deliver

    folder = job.data / "export"
    with stages.clock("export"):
        request = Request(target=str(folder), memory_limit=_settings(job).run.duckdb_memory)
        done = deliver(Folders(job.data), request)
    return folder / "exports" / done.record.delivery_id


def list_back(job: Job, stages: Stages, ending: str) -> Path:
    """Write the list back with the figures of its companies: what `firmlake list export` does."""
    from firmlake.core.folders import Folders
    from firmlake.delivery.list_file import FileBack, write_list

    with stages.clock("export"):
        wanted = FileBack(job.data / f"back{ending}")
        return write_list(Folders(job.data), job.company_list.stem, wanted, _settings(job).run.duckdb_memory).path


def load(job: Job, stages: Stages, target: str) -> str:
    """Load all tables into an empty schema of another database: what `firmlake load` does first."""
    from firmlake.core.folders import Folders
    from firmlake.delivery.deliver import Request, deliver

    address = target.format(data=job.data)
    with stages.clock("load"):
        request = Request(target=address, schema="firmlake", memory_limit=_settings(job).run.duckdb_memory)
        deliver(Folders(job.data), request)
    return address


def report(job: Job, stages: Stages) -> Any:
    """Make the report on the newest generation."""
    from firmlake.core.folders import Folders
    from firmlake.report.page import write_report

    with stages.clock("report"):
        memory = _settings(job).run.duckdb_memory
        return write_report(Folders(job.data), datetime.now(UTC), memory_limit=memory)


def intake(job: Job, stages: Stages) -> Any:
    """Read, repair, check and deduplicate a list."""
    from firmlake.intake.lines import read_company_list

    with stages.clock("intake"):
        return read_company_list(job.company_list, _settings(job).intake)


def prefect(job: Job, stages: Stages) -> None:
    """Run the flow `enrich` here, on Prefect's temporary server, whose CPU seconds are counted apart."""
    sys.path.insert(0, str(ROOT / "flows"))
    from temporary_server import TemporaryServer

    quiet = {
        "PREFECT_HOME": str(job.data / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    }
    os.environ.update(quiet)
    server = TemporaryServer(job.data / "server.log", os.environ)
    atexit.register(server.stop)  # before Prefect's own functions at exit are known, so that it comes after them
    os.environ.update(server.wait())
    stages.seconds["server start"] = cpu_seconds(server.pid)
    with stages.clock("client"), _in(job.data):
        import enrich

        with patch.object(enrich, "write_report", stages.wrapped(enrich.write_report, "report", "client")):
            enrich.enrich(str(job.company_list), None, _changes(job))
    stages.seconds["server"] = cpu_seconds(server.pid) - stages.seconds["server start"]


def _tables(job: Job, _: object) -> dict[str, Any]:
    return read_warehouse(job.data)


def _planned(_: Job, planned: Any) -> dict[str, Any]:
    asked, estimate = planned.targets, planned.estimate
    unpaged = {name: count for name, count in estimate.request_counts.items() if name != "financials"}
    return {"target_count": asked.height, "credit_count": estimate.credit_count, **unpaged}


def _lines(_: Job, companies: Any) -> dict[str, Any]:
    return {
        "line_count": companies.line_count,
        "company_count": companies.companies.height,
        "repaired_count": companies.repaired.height,
        "refused_count": companies.refused.height,
        "repeated_count": companies.repeated_count,
        "blank_count": companies.blank_count,
        "sha256": companies.sha256,
    }


# ---------------------------------------------------------------------------------------------------------------------


def _settings(job: Job) -> Any:
    from firmlake.core.settings_layers import load_settings

    return load_settings(Path(os.devnull), _changes(job), {})[0]


def _changes(job: Job) -> dict[str, str]:
    """Give the settings of all work, which the flow takes as its own."""
    return {
        "paths.data": str(job.data),
        "api.base_url": job.base_url,
        "api.service_name": "benchmark",  # the second week is answered from another port
        "api.requests_per_minute": "0",
        "run.refresh_after_days": "0",
    }


@contextmanager
def _in(folder: Path) -> Iterator[None]:
    """Work in a folder without settings of its own."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _staging(stages: Stages) -> Iterator[None]:
    """Tell apart what staging consists of: reading and checking what landed, flattening, and writing Parquet."""
    from firmlake.tables import flatten, stage

    with (
        stages.clock("other"),
        patch.object(flatten, "load_progress", stages.wrapped(flatten.load_progress, "check", "flatten")),
        patch.object(flatten, "flatten_shard", stages.iterated(flatten.flatten_shard, "flatten", "other")),
        patch.object(stage, "_write_table", stages.wrapped(stage._write_table, "stage", "other")),
        patch.object(stage, "ThreadPoolExecutor", _AtOnce),
    ):
        yield


class _AtOnce(Executor):
    """Does what it is given before it returns."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(work(*arguments, **named))
        return done


@contextmanager
def _publishing(stages: Stages, of: str = "") -> Iterator[None]:
    """Tell apart loading, making what queries read (derived tables, views), and the rest of making a generation."""
    from firmlake.enrich import finish as pipeline
    from firmlake.rebuild import replay as rebuilding
    from firmlake.warehouse.generations import publish as whole
    from firmlake.warehouse.views import create_views

    load = stages.wrapped(pipeline.load_run, "load", "publish")
    publish = stages.wrapped(whole, "publish", of)
    queries = stages.wrapped(create_views, "queries", "publish")
    with (
        patch.object(pipeline, "create_views", queries),
        patch.object(rebuilding, "create_views", queries),
        patch.object(pipeline, "load_run", load),
        patch.object(rebuilding, "load_run", load),
        patch.object(pipeline, "publish", publish),
        patch.object(rebuilding, "publish", publish),
    ):
        yield


PIECES = {
    "run": Piece(run, _tables),
    "prefect": Piece(prefect, _tables),
    "replay": Piece(replay, _tables),
    "replay2": Piece(partial(replay, processes=2), _tables),
    "export": Piece(export, lambda _, folder: read_export(folder)),
    **{
        f"list-{ending}": Piece(partial(list_back, ending=f".{ending}"), lambda _, path: read_list_back(path))
        for ending in ("csv", "parquet", "xlsx")
    },
    "load-duckdb": Piece(partial(load, target="duckdb:{data}/loaded.duckdb"), lambda _, address: read_loaded(address)),
    "load-postgres": Piece(
        partial(load, target=os.environ.get("BENCHMARK_POSTGRES", "")), lambda _, address: read_loaded(address)
    ),
    "report": Piece(report, lambda _, path: read_report(path)),
    "plan": Piece(plan, _planned),
    "intake": Piece(intake, _lines),
}
