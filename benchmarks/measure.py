"""One measured piece of firmlake's work, in a process of its own: `python -m benchmarks.measure SCENARIO ...`.

Prints a line of JSON: CPU seconds of this process by stage, wall seconds, peak memory, bytes written, and what the
tables hold, read back from the published warehouse.

Stages while fetching, when shards are staged as well, are told apart by the CPU time of threads; what no thread of ours
took, those of Polars did, and it counts as staging. Stages after it are told apart by the time of the process, in which
Polars and DuckDB have threads of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec

from benchmarks.answers import Totals
from benchmarks.service import TOKEN

__all__ = ["SCENARIOS", "Stages", "measure", "peak_bytes", "read_totals"]

_TOTALS = {
    "companies": "count(*) FROM companies",
    "not_found": "count(*) FROM company_state WHERE status = 'not_found' AND dataset = 'financials'",
    "financials": "count(*) FROM financials",
    "joint_committees": "count(*) FROM financial_joint_committees",
    "lookalikes": "count(*) FROM lookalikes",
    "relationships": "count(*) FROM relationships",
    "revenue_cents": "sum(revenue * 100) FROM financials",
    "net_profit_cents": "sum(net_profit * 100) FROM financials",
    "total_assets_cents": "sum(total_assets * 100) FROM financials",
    "stake_millionths": "sum(stake_fraction * 1000000) FROM relationships",
}


class Stages:
    """CPU seconds by stage."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def clock(self, stage: str, of: str = "", clock: Callable[[], float] = time.process_time) -> Iterator[None]:
        """Count what is computed meanwhile for a stage, and no longer for the one it is part of."""
        began = clock()
        try:
            yield
        finally:
            spent = clock() - began
            self.seconds[stage] += spent
            if of:
                self.seconds[of] -= spent

    def wrapped(
        self, function: Callable[..., Any], stage: str, of: str = "", clock: Callable[[], float] = time.process_time
    ) -> Callable[..., Any]:
        """Return a function whose time is counted."""

        def counted(*arguments: Any, **named: Any) -> Any:
            with self.clock(stage, of, clock):
                return function(*arguments, **named)

        return counted


def run(data: Path, company_list: Path, base_url: str, stages: Stages) -> None:
    """Fetch a list, stage it and publish it: what `firmlake run` does, without its words."""
    from firmlake import pipeline, planning, service
    from firmlake.landing import fetch
    from firmlake.landing.fetch import Fetcher
    from firmlake.landing.progress import Progress
    from firmlake.landing.segments import SegmentWriter
    from firmlake.tables import stage

    settings = _settings(data, base_url)
    with stages.clock("plan"):
        planned = planning.plan(settings, company_list, datetime.now(UTC))
        frozen = planning.freeze(settings, planned, datetime.now(UTC))
        del planned
    thread = time.thread_time
    with (
        stages.clock("stage"),
        patch.object(Fetcher, "fetch_shard", stages.wrapped(Fetcher.fetch_shard, "receive", "stage", thread)),
        patch.object(Fetcher, "_send", stages.wrapped(Fetcher._send, "receive", "stage", thread)),
        patch.object(SegmentWriter, "append", stages.wrapped(SegmentWriter.append, "land", "receive", thread)),
        patch.object(fetch, "check_answer", stages.wrapped(fetch.check_answer, "check", "receive", thread)),
        patch.object(Progress, "absorb", stages.wrapped(Progress.absorb, "check", "receive", thread)),
        patch.object(pipeline, "stage_shard", stages.wrapped(stage.stage_shard, "stage", "receive", thread)),
        patch.object(stage, "flatten_shard", stages.wrapped(stage.flatten_shard, "flatten", "stage", thread)),
        service.connect(settings) as client,
        pipeline.fetching(settings, frozen, client) as fetcher,
    ):
        stopped = pipeline.fetch(fetcher, frozen)
    with _staging(stages):
        manifest = pipeline.stage(frozen)
        outcome = pipeline.finish(settings, frozen, manifest, stopped, datetime.now(UTC))
    with _publishing(stages):
        pipeline.publish_run(settings, frozen, manifest, outcome, datetime.now(UTC))


def replay(data: Path, company_list: Path, base_url: str, stages: Stages, processes: int = 1) -> None:
    """Make tables and warehouse again from what has landed."""
    from firmlake.run import Folders
    from firmlake.warehouse import replay

    del company_list, base_url
    settings = _settings(data, "")
    with _staging(stages), _publishing(stages, "stage"):
        replay.replay(
            Folders(data),
            lambda: datetime.now(UTC),
            memory_limit=settings.run.duckdb_memory,
            keep=settings.run.keep_generations,
            processes=processes,
        )


def plan(data: Path, company_list: Path, base_url: str, stages: Stages) -> None:
    """Work out what a run over a list would ask."""
    from firmlake import planning

    with stages.clock("plan"):
        planning.plan(_settings(data, base_url), company_list, datetime.now(UTC))


def intake(data: Path, company_list: Path, base_url: str, stages: Stages) -> None:
    """Read, repair, check and deduplicate a list."""
    from firmlake.intake.company_list import read_company_list

    with stages.clock("intake"):
        read_company_list(company_list, _settings(data, base_url).intake)


SCENARIOS = {"run": run, "replay": replay, "replay2": partial(replay, processes=2), "plan": plan, "intake": intake}


def measure(scenario: str, data: Path, company_list: Path, base_url: str) -> dict[str, Any]:
    """Do one piece of work and say what it took."""
    stages = Stages()
    began, cpu = time.perf_counter(), time.process_time()
    before = _bytes_below(data)
    SCENARIOS[scenario](data, company_list, base_url, stages)
    after = _bytes_below(data)
    return {
        "wall_seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu + _children_seconds(),
        "stages": dict(stages.seconds),
        "peak_bytes": peak_bytes(),
        "written_bytes": {name: size - before.get(name, 0) for name, size in after.items()},
        "totals": msgspec.to_builtins(read_totals(data)) if scenario in ("run", "replay", "replay2") else None,
    }


def read_totals(data: Path) -> Totals:
    """Read from the published warehouse what its tables hold."""
    from firmlake.run import Folders
    from firmlake.warehouse.generations import open_warehouse

    with open_warehouse(Folders(data)) as connection:
        values = {name: connection.execute(f"SELECT {query}").fetchall()[0][0] for name, query in _TOTALS.items()}
    return Totals(**{name: int(value or 0) for name, value in values.items()})


def peak_bytes() -> int:
    """Say how much memory this process had at most."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


# ---------------------------------------------------------------------------------------------------------------------


def _children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _settings(data: Path, base_url: str) -> Any:
    from firmlake.settings_layers import load_settings

    changes = {
        "paths.data": str(data),
        "api.base_url": base_url,
        "api.requests_per_minute": "0",
        "run.refresh_after_days": "0",
    }
    return load_settings(Path(os.devnull), changes, {})[0]


@contextmanager
def _staging(stages: Stages) -> Iterator[None]:
    """Tell apart what staging consists of: reading and checking what landed, flattening, and writing Parquet."""
    from firmlake.tables import flatten, stage

    with (
        stages.clock("stage"),
        patch.object(flatten, "load_progress", stages.wrapped(flatten.load_progress, "check", "flatten")),
        patch.object(stage, "flatten_shard", stages.wrapped(stage.flatten_shard, "flatten", "stage")),
    ):
        yield


@contextmanager
def _publishing(stages: Stages, of: str = "") -> Iterator[None]:
    """Tell loading from making a generation of it."""
    from firmlake import pipeline
    from firmlake.warehouse import generations, replay

    load = stages.wrapped(pipeline.load_run, "load", "publish")
    publish = stages.wrapped(generations.publish, "publish", of)
    with (
        patch.object(pipeline, "load_run", load),
        patch.object(replay, "load_run", load),
        patch.object(pipeline, "publish", publish),
        patch.object(replay, "publish", publish),
    ):
        yield


def _bytes_below(data: Path) -> dict[str, int]:
    return {
        name: sum(path.lstat().st_size for path in (data / name).rglob("*") if path.is_file() and not path.is_symlink())
        for name in ("landing", "staged", "warehouse")
    }


def main() -> None:
    """Measure one scenario."""
    parser = argparse.ArgumentParser("python -m benchmarks.measure", description=__doc__)
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--data", type=Path, required=True, help="data folder")
    parser.add_argument("--list", type=Path, default=Path(), help="company list")
    parser.add_argument("--base-url", default="", help="the service")
    arguments = parser.parse_args()
    os.environ["FIRMLAKE_API_TOKEN"] = TOKEN
    result = measure(arguments.scenario, arguments.data, arguments.list, arguments.base_url)
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
