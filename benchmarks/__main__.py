"""`python -m benchmarks`: measure firmlake and its peers in turn, verify each run, keep result, table and plot."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.answers import POOL
from benchmarks.bench import PEERS, SCENARIOS, Bench
from benchmarks.machine import describe_machine
from benchmarks.render import render_plot, render_table
from benchmarks.service import ENVIRONMENT


def main() -> None:
    """Measure, verify, render."""
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("--companies", type=int, nargs="*", default=[20_000, 100_000], help="sizes")
    parser.add_argument("--rounds", type=int, default=3, help="rounds; the table has the median")
    parser.add_argument("--scenarios", nargs="*", choices=SCENARIOS, default=list(SCENARIOS), help="what is measured")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS), help="who else")
    parser.add_argument("--peers-at", type=int, nargs="*", help="at which sizes [the smallest]")
    parser.add_argument("--intake", type=int, default=10_000_000, help="lines of the mixed list; 0 for none")
    parser.add_argument(
        "--environments", type=Path, default=Path(tempfile.gettempdir()) / "firmlake-peers", help="kept"
    )
    parser.add_argument("--work", type=Path, default=None, help="folder for data [a temporary one]")
    parser.add_argument("--pool", type=int, default=POOL, help="different companies of the service")
    parser.add_argument("--name", default="", help="of the result; empty keeps none")
    arguments = parser.parse_args()
    sizes = sorted(arguments.companies)
    with_peers = sizes[:1] if arguments.peers_at is None else arguments.peers_at
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        bench = Bench(Path(folder), arguments.environments, arguments.pool, lambda line: sys.stderr.write(line + "\n"))
        try:
            for _ in range(arguments.rounds):
                for count in sizes:
                    bench.round(count, arguments.scenarios, arguments.peers if count in with_peers else [])
            if arguments.intake:
                bench.intake(arguments.intake)
        finally:  # an end before the last leaves what was measured
            _keep(bench.measured, arguments.rounds, arguments.name)


def _keep(measured: list[dict[str, Any]], rounds: int, name: str) -> None:
    """Print the result, and keep it where it has a name."""
    result = {
        "machine": describe_machine(),
        "rounds": rounds,
        "start_cpu_seconds": {name: _start_seconds(arguments) for name, arguments in _STARTS.items()},
        "measured": _medians(measured),
    }
    sys.stdout.write(render_table(result))
    if name:
        path = Path(__file__).parent / "results" / name
        path.parent.mkdir(exist_ok=True)
        path.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
        path.with_suffix(".md").write_text(render_table(result))
        path.with_suffix(".svg").write_text(render_plot(result))


# ---------------------------------------------------------------------------------------------------------------------

_STARTS = {"python": ["-c", "pass"], "help": ["-m", "firmlake", "--help"]}
"""A start of Python that does nothing, and the command line's."""


def _start_seconds(arguments: list[str]) -> float:
    """Measure the least CPU time of some starts."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], env=ENVIRONMENT, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(once() for _ in range(5))


def _medians(measured: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Take of each kind of run the one with the median CPU time."""
    kinds: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for result in measured:
        kinds.setdefault((result["who"], result["scenario"], result["count"]), []).append(result)
    return [
        sorted(results, key=lambda result: result["cpu_seconds"])[(len(results) - 1) // 2]
        | {"cpu_seconds_of_all": [round(result["cpu_seconds"], 3) for result in results]}
        for results in kinds.values()
    ]


if __name__ == "__main__":
    main()
