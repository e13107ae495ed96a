"""`python -m benchmarks.dialects`: the CPU time of reading the same companies' records in three dialects.

Each dialect is read in processes of its own, which take turns; prints medians, and the ratio to the plain dialect.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from msgspec import Raw

from firmlake.core.memory import collecting_rarely
from firmlake.tables.records import read_records
from firmlake_sandbox.financials import list_financials
from firmlake_sandbox.lookalikes import list_lookalikes
from firmlake_sandbox.numbers import parse_number, sample_numbers
from firmlake_sandbox.relationships import list_relationships
from firmlake_sandbox.rewrites import add_fields, omit_nulls, read_json, write_json
from firmlake_sandbox.world import World

__all__ = ["DIALECTS", "compare", "measure", "write_records"]

DIALECTS: dict[str, Callable[[str, dict[str, Any]], None]] = {
    "plain": lambda _dataset, _element: None,
    "nulls left out": omit_nulls,
    "three unknown fields in every object": add_fields,
}
_GROUPS = {"period": "financials", "lookalike": "lookalikes", "parent": "relationships", "child": "relationships"}


def write_records(folder: Path, companies: int) -> None:
    """Write all records of a sample of companies: a file for each dialect, with an array for each group."""
    world = World()
    said: dict[str, list[Any]] = {group: [] for group in _GROUPS}
    for company in sample_numbers(companies):
        node = parse_number(*company)
        if node is not None:
            relations = list_relationships(world, node, "EN")
            said["period"] += list_financials(world, node, 500, 0)[0]
            said["lookalike"] += list_lookalikes(world, node)
            said["parent"] += relations.parents
            said["child"] += relations.children
    for dialect, change in DIALECTS.items():
        elements = {group: {"data": read_json(msgspec.json.encode(records))} for group, records in said.items()}
        for group, element in elements.items():
            change(_GROUPS[group], element)
        content = {group: element["data"] for group, element in elements.items()}
        (folder / f"{dialect}.json").write_bytes(write_json(content))


def measure(path: Path) -> dict[str, float]:
    """Return the CPU seconds of reading the records of a file, by group."""
    seconds = {}
    groups = msgspec.json.decode(path.read_bytes(), type=dict[str, list[Raw]])
    for group, dataset in _GROUPS.items():
        read_records(dataset, group, groups[group][:50])  # what is worked out once per process does not count
        began = time.process_time()
        with collecting_rarely():
            read = read_records(dataset, group, groups[group])
        seconds[group] = time.process_time() - began
        if read.frame.height != len(groups[group]):
            raise SystemExit(f"{path.stem}: records of {group} were rejected")
    return seconds


def compare(measured: dict[str, list[dict[str, float]]], companies: int) -> str:
    """Render the median of each dialect and group as Markdown, in CPU ms per 1,000 companies and times plain."""
    medians = {
        dialect: {group: median(one[group] for one in rounds) * 1e6 / companies for group in _GROUPS}
        for dialect, rounds in measured.items()
    }
    lines = [f"| dialect | {' | '.join(_GROUPS)} | all |", "|---|" + "---:|" * (len(_GROUPS) + 1)]
    for dialect, groups in medians.items():
        pairs = [(groups[group], medians["plain"][group]) for group in _GROUPS]
        pairs.append((sum(groups.values()), sum(medians["plain"].values())))
        compared = dialect != "plain"
        cells = [f"{own:.2f}" + (f" ({own / plain:.2f})" if compared and plain else "") for own, plain in pairs]
        lines.append(f"| {dialect} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure the dialects in turn."""
    parser = argparse.ArgumentParser("python -m benchmarks.dialects", description=__doc__)
    parser.add_argument("--companies", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.file:
        sys.stdout.write(json.dumps(measure(arguments.file)))
        return
    measured: dict[str, list[dict[str, float]]] = {dialect: [] for dialect in DIALECTS}
    with tempfile.TemporaryDirectory() as folder:
        write_records(Path(folder), arguments.companies)
        for _ in range(arguments.rounds):
            for dialect, rounds in measured.items():
                command = [sys.executable, "-m", "benchmarks.dialects", "--file", f"{folder}/{dialect}.json"]
                rounds.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
    sys.stdout.write(compare(measured, arguments.companies) + "\n")


if __name__ == "__main__":
    main()
