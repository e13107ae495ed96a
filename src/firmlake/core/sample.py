"""The sample list on the embedded service: what runs where nobody names a company list."""

from __future__ import annotations

from pathlib import Path

from firmlake.core.errors import UsageError
from firmlake.core.settings import SANDBOX

__all__ = ["SAMPLE_SETTINGS", "find_sample"]

SAMPLE_SETTINGS = {"api.base_url": SANDBOX, "paths.data": "data/sandbox"}
"""By dotted key: what the sample list runs with, unless a setting says otherwise."""
_SAMPLE = Path("data/intake/sample.csv")


def find_sample() -> Path:
    """Give the path of the sample list.

    Raises:
        UsageError: The working directory is not a clone of the repository.
    """
    if not _SAMPLE.exists():
        raise UsageError(
            f"{_SAMPLE} is not here",
            "Change to a clone of the repository, or `firmlake run LIST --set api.base_url=sandbox`",
        )
    return _SAMPLE
