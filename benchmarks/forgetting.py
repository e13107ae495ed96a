"""`python -m benchmarks.forgetting`: what forgetting one person costs, and the proof of it.

The companies come from the embedded service, with all datasets. Each round forgets the person on a copy of the data
folder, in a process of its own.

    python -m benchmarks.forgetting --companies 10000 --work /data/forgetting
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import firmlake_sandbox
from benchmarks.lists import write_companies
from benchmarks.service import ENVIRONMENT
from firmlake.core.folders import Folders
from firmlake.warehouse.generations import ask

_PERSON = """
    SELECT related_name FROM relationships WHERE related_kind = 'named_party'
    GROUP BY ALL ORDER BY count(*), related_name LIMIT 1
"""


def main() -> None:
    """Print the user CPU seconds of `forget` and of `verify --forgotten` in each round."""
    parser = argparse.ArgumentParser("python -m benchmarks.forgetting", description=__doc__)
    parser.add_argument("--companies", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=Path, help="folder that keeps the data, and measures it again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.work or Path(temporary)).absolute() / str(arguments.companies)
        if not (folder / "data").exists():
            _make(folder, arguments.companies)
        _, [(name,)] = ask(Folders(folder / "data"), _PERSON)
        for number in range(1, arguments.rounds + 1):
            copy = folder / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(folder / "data", copy, symlinks=True)
            forgot = _user_seconds(["forget", "person", name, "--yes"], copy)
            proved = _user_seconds(["verify", "--forgotten"], copy)
            sys.stdout.write(f"round {number}: forget {forgot:.1f}, proof {proved:.1f} user CPU s\n")
            sys.stdout.flush()
            shutil.rmtree(copy)


def _make(folder: Path, count: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    company_list = write_companies(folder / "companies.csv", firmlake_sandbox.sample_numbers(count))
    with firmlake_sandbox.start() as sandbox:
        sandbox.set_options(requests_per_minute=0)
        token = {"FIRMLAKE_API_TOKEN": sandbox.token}
        options = ["--set", f"api.base_url={sandbox.base_url}", "--set", "api.requests_per_minute=0"]
        _user_seconds(["run", str(company_list), *options], folder / "data", token)


def _user_seconds(command: list[str], data: Path, environment: dict[str, str] | None = None) -> float:
    """Run a command of firmlake and return its user CPU seconds, with those of its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    call = [sys.executable, "-m", "firmlake", *command, "--data", str(data)]
    done = subprocess.run(call, env={**ENVIRONMENT, **(environment or {})}, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command[:1])} ended with {done.returncode}: {done.stderr[-2000:]}")
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


if __name__ == "__main__":
    main()
