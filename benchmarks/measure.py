"""One measured piece of firmlake's work, in a process of its own: `python -m benchmarks.measure PIECE ...`.

Prints a line of JSON: CPU seconds of this process and its children from their start, by stage; wall seconds, peak
memory, bytes written, and facts that tell whether the work was done right, read back afterwards.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.pieces import PIECES, Job
from benchmarks.service import TOKEN
from benchmarks.stages import Stages

__all__ = ["measure", "peak_bytes"]


def measure(name: str, job: Job) -> dict[str, Any]:
    """Do one piece of work and say what it took."""
    stages, piece, now = Stages(), PIECES[name], time.time()
    before = _bytes_below(job.data)
    result = piece.work(job, stages)
    wall = time.time() - float(os.environ.get("BENCHMARK_BEGAN", now))
    # The only child that is not our work is Prefect's server, which has a stage of its own.
    cpu = time.process_time() + (0 if "server" in stages.seconds else _children_seconds())
    after = _bytes_below(job.data)
    return {
        "wall_seconds": wall,
        "cpu_seconds": cpu,
        "stages": dict(stages.seconds),
        "peak_bytes": peak_bytes(),
        "written_bytes": {name: size - before.get(name, 0) for name, size in after.items()},
        "facts": piece.facts(job, result),
    }


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


def _bytes_below(data: Path) -> dict[str, int]:
    return {
        name: sum(path.lstat().st_size for path in (data / name).rglob("*") if path.is_file() and not path.is_symlink())
        for name in ("landing", "staged", "warehouse", "export")
    }


def main() -> None:
    """Measure one piece of work."""
    parser = argparse.ArgumentParser("python -m benchmarks.measure", description=__doc__)
    parser.add_argument("piece", choices=PIECES)
    parser.add_argument("--data", type=Path, required=True, help="data folder")
    parser.add_argument("--list", type=Path, default=Path(), help="company list")
    parser.add_argument("--base-url", default="", help="the service")
    arguments = parser.parse_args()
    os.environ["FIRMLAKE_API_TOKEN"] = TOKEN
    result = measure(arguments.piece, Job(arguments.data, arguments.list, arguments.base_url))
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
