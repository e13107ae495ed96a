"""What the peers share, with the standard library alone: the list, requests by hundreds, and the measured result."""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DATASETS = ("financials", "lookalikes", "relationships")
TOKEN = "benchmark-token-of-forty-characters-00"  # noqa: S105 - guards nothing
_AT_ONCE = 100
_RECORDS = 5  # of each company: 100 companies x 5 records is what the service allows

_stages: dict[str, float] = {}

Post = Callable[[str, dict[str, Any]], list[dict[str, Any]]]


def read_companies(path: Path) -> list[dict[str, str]]:
    """Read the list as the service wants to be asked."""
    with path.open(newline="") as file:
        return [
            {"countryCode": row["country"], "companyNumber": _spell(row["country"], row["company_number"])}
            for row in csv.DictReader(file)
        ]


def fetch_pages(post: Post, dataset: str, companies: list[dict[str, str]]) -> Iterator[list[dict[str, Any]]]:
    """Ask for a dataset of all companies, page by page until each has all its records; yields whole answers."""
    for start in range(0, len(companies), _AT_ONCE):
        left = companies[start : start + _AT_ONCE]
        offset = 0
        while left:
            page = {"limit": _RECORDS, "offset": offset} if dataset == "financials" else {}
            elements = post(f"/v1/companies/{dataset}", {"companies": left, **page})
            yield elements
            offset += _RECORDS
            left = [
                company
                for company, element in zip(left, elements, strict=True)
                if (element.get("pagination") or {}).get("total", 0) > offset
            ]


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Count what is computed meanwhile apart, for a peer that has stages."""
    before = cpu_seconds()
    yield
    _stages[name] = cpu_seconds() - before


def measured(work: Callable[[str, Path, Path], dict[str, int]]) -> None:
    """Do a peer's work as its command line says, and print what it took as one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--list", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    arguments = parser.parse_args()
    facts = work(arguments.base_url, arguments.list, arguments.data)
    result = {
        "wall_seconds": time.time() - float(os.environ["BENCHMARK_BEGAN"]),
        "cpu_seconds": cpu_seconds(),
        "stages": _stages,
        "peak_bytes": _peak_bytes(),
        "written_bytes": {"all": sum(path.stat().st_size for path in arguments.data.rglob("*") if path.is_file())},
        "facts": facts,
    }
    sys.stdout.write(json.dumps(result) + "\n")


def _spell(country: str, number: str) -> str:
    return number.removeprefix("0") if country == "BE" else number


def cpu_seconds() -> float:
    """Say what this process and those it started have computed since they began."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


def _peak_bytes() -> int:
    try:
        return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) * 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
