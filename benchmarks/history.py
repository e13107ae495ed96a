"""`python -m benchmarks.history`: what each stage costs at this commit, as a share of the plain script's cost.

Adds an entry to results/history.json. `pytest -m benchmark` fails if a stage costs 1.5 times what its last entry says.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.bench import Bench
from benchmarks.machine import describe_machine

__all__ = ["HISTORY", "compare", "measure_costs"]

HISTORY = Path(__file__).parent / "results" / "history.json"
COMPANIES, ROUNDS = 10_000, 3

_STAGES = {
    "receive": ("receive",),
    "land": ("land",),
    "check": ("check",),
    "tables": ("flatten", "stage"),
    "warehouse": ("load", "publish", "queries"),
}
"""Stages of `pieces.run` that are compared."""


def measure_costs(companies: int = COMPANIES, rounds: int = ROUNDS) -> dict[str, float]:
    """Measure firmlake and the plain script in turn.

    Returns:
        CPU seconds of each stage, and of the whole run, divided by those of the plain script in the same round; the
        median of the rounds.
    """
    environments = Path(tempfile.gettempdir()) / "firmlake-peers"
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), environments, say=lambda line: sys.stderr.write(line + "\n"))
        for _ in range(rounds):
            bench.round(companies, [], ["plain"])
    plain, own = (
        [result for result in bench.measured if result["who"] == who and result["scenario"] == "run"]
        for who in ("plain", "firmlake")
    )
    shares = [
        _shares(one["stages"], one["cpu_seconds"], peer["cpu_seconds"]) for one, peer in zip(own, plain, strict=True)
    ]
    return {name: round(median(share[name] for share in shares), 4) for name in shares[0]}


def compare(costs: dict[str, float], before: dict[str, float], factor: float = 1.5) -> list[str]:
    """Name the stages that cost more than `factor` times what they did."""
    return [
        f"{name}: {costs[name]:.3f} of the plain script, where it took {share:.3f}"
        for name, share in before.items()
        if costs[name] > factor * share
    ]


def main() -> None:
    """Measure, and add an entry for this commit."""
    parser = argparse.ArgumentParser("python -m benchmarks.history", description=__doc__)
    parser.add_argument("--companies", type=int, default=COMPANIES, help="companies of a run")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds; the entry has the medians")
    arguments = parser.parse_args()
    machine = describe_machine()  # before measuring: the commit may change meanwhile
    costs = measure_costs(arguments.companies, arguments.rounds)
    entries: list[dict[str, Any]] = json.loads(HISTORY.read_text()) if HISTORY.exists() else []
    entry = {name: machine[name] for name in ("commit", "measured_at", "cpu", "cores")}
    kept = [one for one in entries if one["commit"] != machine["commit"]]
    kept.append({**entry, "companies": arguments.companies, "rounds": arguments.rounds, "of_plain": costs})
    HISTORY.write_text(json.dumps(kept, indent=1) + "\n")
    sys.stdout.write(json.dumps(kept[-1], indent=1) + "\n")


# ---------------------------------------------------------------------------------------------------------------------


def _shares(stages: dict[str, float], whole: float, plain: float) -> dict[str, float]:
    shares = {name: sum(stages[part] for part in parts) / plain for name, parts in _STAGES.items()}
    return {**shares, "whole": whole / plain}


if __name__ == "__main__":
    main()
