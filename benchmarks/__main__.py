"""`python -m benchmarks`: measure firmlake and its peers in turn, verify each run, keep result, table and plot."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import service
from benchmarks.answers import POOL, Answers, expected_totals
from benchmarks.render import render_plot, render_table
from firmlake_sandbox.numbers import sample_numbers

__all__ = ["Bench", "WrongError", "write_list"]

PEERS = {"plain": "plain.py", "dlt": "with_dlt.py"}
SCENARIOS = ("run", "weekly", "replay", "replay2", "plan", "intake")
_PACKAGES = ("firmlake", "polars", "duckdb", "pyarrow", "msgspec", "httpx", "zstandard")
_HERE = Path(__file__).parent
_INTAKE_LINES = 10_000_000


class WrongError(Exception):
    """A run's tables do not hold what the company numbers say they must."""


class Bench:
    """Measures in processes of their own, one after the other, each with a data folder that is new or its own.

    Args:
        work: Folder for lists and data.
        environments: Folder with a virtual environment for each peer.
        pool: Different companies of the service.
    """

    def __init__(self, work: Path, environments: Path, pool: int) -> None:
        self._work = work
        self._pool = pool
        self._environments = environments
        self.measured: list[dict[str, Any]] = []

    def round(
        self, count: int, scenarios: tuple[str, ...], peers: tuple[str, ...], say: Callable[[str], object]
    ) -> None:
        """Measure everything once over the first so many companies of the sandbox's sample."""
        companies = sample_numbers(count)
        company_list = write_list(self._work / f"{count}.csv", companies)
        data = self._work / "firmlake"
        shutil.rmtree(data, ignore_errors=True)
        with service.start(pool=self._pool) as (base_url, pid):
            expected = msgspec.to_builtins(expected_totals(Answers(self._pool), companies))
            arguments = ["--data", str(data), "--list", str(company_list), "--base-url", base_url]
            for peer in peers:
                self._peer(peer, count, company_list, base_url, expected, say)
            before = service.cpu_seconds(pid)
            self._firmlake("run", count, arguments, expected, say)
            self.measured[-1]["service_cpu_seconds"] = service.cpu_seconds(pid) - before
            if "plan" in scenarios:
                self._firmlake("plan", count, arguments, None, say)
            for scenario in ("replay", "replay2"):
                if scenario in scenarios:
                    self._firmlake(scenario, count, arguments, expected, say)
        if "weekly" in scenarios:
            with service.start(pool=self._pool, week=1) as (base_url, _):
                expected = msgspec.to_builtins(expected_totals(Answers(self._pool, week=1), companies))
                self._firmlake("run", count, [*arguments, "--base-url", base_url], expected, say, "weekly")
        shutil.rmtree(data, ignore_errors=True)

    def intake(self, count: int, say: Callable[[str], object]) -> None:
        """Read a list of so many lines, some of them repeated, some wrong."""
        company_list = self._work / f"intake-{count}.csv"
        numbers = sample_numbers(count * 9 // 10)
        with company_list.open("w") as file:
            file.write("country,company_number\n")
            for line in range(count):
                country, number = numbers[line % len(numbers)]
                file.write(f"{country},{number if line % 100 else number[:-1]}\n")
        arguments = ["--data", str(self._work / "none"), "--list", str(company_list)]
        self._firmlake("intake", count, arguments, None, say)
        company_list.unlink()

    def _firmlake(
        self,
        scenario: str,
        count: int,
        arguments: list[str],
        expected: dict[str, int] | None,
        say: Callable[[str], object],
        name: str = "",
    ) -> None:
        command = [sys.executable, "-m", "benchmarks.measure", scenario, *arguments]
        self._keep("firmlake", name or scenario, count, _result(command), expected, say)

    def _peer(
        self,
        peer: str,
        count: int,
        company_list: Path,
        base_url: str,
        expected: dict[str, int],
        say: Callable[[str], object],
    ) -> None:
        data = self._work / peer
        shutil.rmtree(data, ignore_errors=True)
        command = [str(_environment(self._environments, peer)), str(_HERE / "peers" / PEERS[peer])]
        arguments = ["--data", str(data), "--list", str(company_list), "--base-url", base_url]
        self._keep(peer, "run", count, _result([*command, *arguments]), expected, say)
        shutil.rmtree(data, ignore_errors=True)

    def _keep(
        self,
        who: str,
        scenario: str,
        count: int,
        result: dict[str, Any],
        expected: dict[str, int] | None,
        say: Callable[[str], object],
    ) -> None:
        totals = result.pop("totals")
        if totals != expected:
            raise WrongError(f"{who} {scenario} over {count}: {totals}, where {expected} was right")
        self.measured.append({"who": who, "scenario": scenario, "count": count, **result})
        stages = " ".join(f"{name} {1000 * of / count:.4f}" for name, of in result.get("stages", {}).items())
        say(
            f"{who} {scenario} {count}: {1000 * result['cpu_seconds'] / count:.4f} CPU s per 1,000, "
            f"{count / result['wall_seconds']:.0f}/s, {result['peak_bytes'] / 1e6:.0f} MB {stages}"
        )


def write_list(path: Path, companies: list[tuple[str, str]]) -> Path:
    """Write a company list."""
    with path.open("w") as file:
        file.write("country,company_number\n")
        file.writelines(f"{country},{number}\n" for country, number in companies)
    return path


def main() -> None:
    """Measure, verify, render."""
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("--companies", type=int, nargs="+", default=[20_000, 100_000], help="sizes")
    parser.add_argument("--rounds", type=int, default=3, help="rounds; the table has the median")
    parser.add_argument("--scenarios", nargs="*", choices=SCENARIOS, default=list(SCENARIOS), help="what is measured")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS), help="who else, at the smallest size")
    parser.add_argument(
        "--environments", type=Path, default=Path(tempfile.gettempdir()) / "firmlake-peers", help="kept"
    )
    parser.add_argument("--work", type=Path, default=None, help="folder for data [a temporary one]")
    parser.add_argument("--pool", type=int, default=POOL, help="different companies of the service")
    parser.add_argument("--name", default="", help="of the result; empty keeps none")
    arguments = parser.parse_args()

    def say(line: str) -> None:
        sys.stderr.write(line + "\n")

    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        bench = Bench(Path(folder), arguments.environments, arguments.pool)
        for _ in range(arguments.rounds):
            for place, count in enumerate(sorted(arguments.companies)):
                bench.round(count, tuple(arguments.scenarios), tuple(arguments.peers) if place == 0 else (), say)
        if "intake" in arguments.scenarios:
            bench.intake(_INTAKE_LINES, say)
    result = {"machine": _machine(), "rounds": arguments.rounds, "measured": _medians(bench.measured)}
    sys.stdout.write(render_table(result))
    if arguments.name:
        path = _HERE / "results" / arguments.name
        path.parent.mkdir(exist_ok=True)
        path.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
        path.with_suffix(".md").write_text(render_table(result))
        path.with_suffix(".svg").write_text(render_plot(result))


# ---------------------------------------------------------------------------------------------------------------------


def _environment(folder: Path, peer: str) -> Path:
    """Give a peer's Python, in an environment of its own that is made once."""
    python = folder / peer / "bin" / "python"
    if not python.exists():
        requirements = _HERE / "peers" / f"requirements-{peer}.txt"
        subprocess.run([sys.executable, "-m", "venv", str(folder / peer)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "-r", str(requirements)], check=True)
    return python


def _result(command: list[str]) -> dict[str, Any]:
    environment = {**os.environ, "RUNTIME__DLTHUB_TELEMETRY": "false", "RUNTIME__LOG_LEVEL": "CRITICAL"}
    process = subprocess.run(command, cwd=service.ROOT, env=environment, stdout=subprocess.PIPE, check=True)
    result: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return result


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


def _machine() -> dict[str, Any]:
    try:
        models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
        model = models[0].partition(":")[2].strip()
    except (OSError, IndexError):
        model = platform.processor()
    return {
        "measured_at": f"{datetime.now(UTC):%Y-%m-%d %H:%M}Z",
        "cpu": model,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in _PACKAGES},
    }


if __name__ == "__main__":
    main()
