"""`python -m benchmarks.bounds`: what each stage of a run costs, as a multiple of the least that it can cost here.

After each run of firmlake, a process does the work of each stage alone, on the same answers with the same libraries: no
retries, no verdicts, no provenance, no crash safety beyond one fsync. The multiples hold on any machine.

A bound is a generator: what it does between its first yield and its second counts, then between the third and the
fourth, and so on. So importing libraries, and reading what is to be written, do not count.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import msgspec

from benchmarks import service
from benchmarks.answers import POOL
from benchmarks.lists import write_companies

__all__ = ["BOUNDS", "measure_multiples"]

STAGES = {
    "receive": ("receive", "check"),
    "land": ("land",),
    "flatten": ("flatten",),
    "stage": ("stage",),
    "load": ("load", "publish"),
    "derive": ("queries",),
}
"""Stages of `pieces.run` that do the work of a bound. Its plan and its imports have none, and count in the whole."""


Answers = list[tuple[Any, bytes]]
"""Header and body of each answer that landed."""


def receive(_: Path, base_url: str, answers: Answers) -> Iterator[None]:
    """Ask for the answers again over one socket, and decode each body."""
    address = urlsplit(base_url)
    decode = msgspec.json.Decoder().decode
    yield
    with socket.create_connection((address.hostname, address.port)) as connection:
        received = connection.makefile("rb")
        for header, _ in answers:
            companies = [{"countryCode": country, "companyNumber": number} for country, number in header.companies]
            page = {"limit": header.limit, "offset": header.offset} if header.limit else {}
            body = msgspec.json.encode({"companies": companies, **page})
            path = f"/v1/companies/{header.dataset}"
            connection.sendall(b"POST %b HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (path.encode(), len(body), body))
            length = 0
            while (line := received.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            decode(received.read(length))


def land(data: Path, _: str, answers: Answers) -> Iterator[None]:
    """Hash, compress and write every body, and sync the file once."""
    from firmlake.core.files import compress

    yield
    with tempfile.TemporaryFile(dir=data) as file:
        for _, body in answers:
            hashlib.sha256(body).digest()
            file.write(compress(body, 1))
        file.flush()
        os.fsync(file.fileno())


def flatten(_: Path, __: str, answers: Answers) -> Iterator[None]:
    """Decode every body with exact numbers."""
    decode = msgspec.json.Decoder(float_hook=Decimal).decode
    yield
    for _, body in answers:
        decode(body)


def stage(data: Path, _: str, __: Answers) -> Iterator[None]:
    """Write every staged table once more, compressed as it is."""
    import polars as pl

    for path in _staged(data):
        frame = pl.read_parquet(path, glob=False, hive_partitioning=False)
        yield
        frame.write_parquet(data / "again.parquet", compression="snappy")
        yield


def load(data: Path, _: str, __: Answers) -> Iterator[None]:
    """Load every staged table into a new database."""
    import duckdb

    yield
    with duckdb.connect(data / "again.duckdb", config={"threads": 1, "preserve_insertion_order": False}) as database:
        for table in sorted({path.parent.name for path in _staged(data)}):
            files = [str(path) for path in _staged(data) if path.parent.name == table]
            database.execute(f"CREATE TABLE {table} AS FROM read_parquet({files}, hive_partitioning = false)")
        database.execute("CHECKPOINT")
    (data / "again.duckdb").unlink()


def derive(data: Path, _: str, __: Answers) -> Iterator[None]:
    """Make the derived tables of the newest generation once more, without views and comments."""
    import shutil

    import duckdb

    from firmlake.core.folders import Folders
    from firmlake.warehouse.generations import newest
    from firmlake.warehouse.views import create_view, definitions

    generation = newest(Folders(data))
    assert generation
    shutil.copy(generation, data / "again.duckdb")
    yield
    with duckdb.connect(data / "again.duckdb", config={"threads": 1, "preserve_insertion_order": False}) as database:
        for definition in definitions():
            if definition.kind == "table":
                create_view(database, definition)
        database.execute("CHECKPOINT")
    (data / "again.duckdb").unlink()


BOUNDS: dict[str, Callable[[Path, str, Answers], Iterator[None]]] = {
    each.__name__: each for each in (receive, land, flatten, stage, load, derive)
}


def measure_multiples(companies: int, rounds: int) -> dict[str, dict[str, float]]:
    """Measure firmlake and the bounds in turn.

    Returns:
        For each stage and `whole`: the bound and firmlake's cost in CPU seconds, and the multiple; medians of rounds.
    """
    from firmlake_sandbox import sample_numbers

    found = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder, service.start(pool=POOL) as (base_url, _):
            work = Path(folder)
            company_list = write_companies(work / "list.csv", sample_numbers(companies))
            (work / "data").mkdir()
            arguments = ["--data", str(work / "data"), "--base-url", base_url]
            ran = _measured(["benchmarks.measure", "run", "--list", str(company_list), *arguments])
            least = _measured(["benchmarks.bounds", *arguments])
        own = {name: sum(ran["stages"][one] for one in stages) for name, stages in STAGES.items()}
        found.append((least | {"whole": sum(least.values())}, own | {"whole": ran["cpu_seconds"]}))
    return {
        name: {
            "bound": round(median(least[name] for least, _ in found), 3),
            "firmlake": round(median(own[name] for _, own in found), 3),
            "multiple": round(median(own[name] / least[name] for least, own in found), 2),
        }
        for name in (*BOUNDS, "whole")
    }


# ---------------------------------------------------------------------------------------------------------------------


def _answers(data: Path) -> Iterator[tuple[Any, bytes]]:
    """Yield the header and the body of every answer that landed."""
    from firmlake.landing.segments import list_segments, read_segment

    for folder in sorted((data / "landing").glob("run=*/shard=*")):
        for path in list_segments(folder):
            for landed in read_segment(path):
                if landed.header.kind == "answer":
                    yield landed.header, landed.body


def _staged(data: Path) -> list[Path]:
    return sorted((data / "staged").rglob("*.parquet"))


def _measured(command: list[str]) -> Any:
    environment = {**service.ENVIRONMENT, "BENCHMARK_BEGAN": str(time.time())}
    arguments = [sys.executable, "-m", *command]
    ran = subprocess.run(arguments, cwd=service.ROOT, env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(ran.stdout.splitlines()[-1])


def _measure_bounds(data: Path, base_url: str) -> dict[str, float]:
    """Measure each bound in this process."""
    answers, costs = list(_answers(data)), dict.fromkeys(BOUNDS, 0.0)
    for name, bound in BOUNDS.items():
        steps = bound(data, base_url, answers)
        for _ in steps:
            began = time.process_time()
            next(steps, None)
            costs[name] += time.process_time() - began
    return costs


def main() -> None:
    """Measure, and print a table; with --data, print the bounds over that folder as JSON."""
    parser = argparse.ArgumentParser("python -m benchmarks.bounds", description=__doc__)
    parser.add_argument("--companies", type=int, default=20_000, help="companies of a run")
    parser.add_argument("--rounds", type=int, default=3, help="rounds; the table has the medians")
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--base-url", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.data:
        sys.stdout.write(json.dumps(_measure_bounds(arguments.data, arguments.base_url)) + "\n")
        return
    multiples = measure_multiples(arguments.companies, arguments.rounds)
    sys.stdout.write("| stage | bound, CPU s | firmlake, CPU s | multiple |\n|---|---:|---:|---:|\n")
    for name, row in multiples.items():
        sys.stdout.write(f"| {name} | {row['bound']} | {row['firmlake']} | {row['multiple']} |\n")


if __name__ == "__main__":
    main()
