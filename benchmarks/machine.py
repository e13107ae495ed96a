"""What a result was measured on."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.service import ROOT

__all__ = ["describe_machine"]

_PACKAGES = ("firmlake", "polars", "duckdb", "pyarrow", "msgspec", "httpx", "prefect")


def describe_machine() -> dict[str, Any]:
    """Return the time, the commit, processor and versions."""
    try:
        models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
        model = models[0].partition(":")[2].strip()
    except (OSError, IndexError):
        model = platform.processor()
    return {
        "measured_at": f"{datetime.now(UTC):%Y-%m-%d %H:%M}Z",
        "commit": _commit(),
        "cpu": model,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in _PACKAGES},
    }


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
