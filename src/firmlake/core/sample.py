"""The sample list on the embedded service: what runs where nobody names a company list."""

from __future__ import annotations

from pathlib import Path

from firmlake.core.settings import SANDBOX

__all__ = ["SAMPLE_SETTINGS", "find_sample"]

SAMPLE_SETTINGS = {"api.base_url": SANDBOX, "paths.data": "data/sandbox"}
"""By dotted key: what the sample list runs with, unless a setting says otherwise."""
_SAMPLE = Path("data/intake/sample.csv")
_PACKAGED = Path(__file__).with_name("sample.csv")


def find_sample() -> Path:
    """Give the path of the sample list: that of the clone one stands in, else the one that is installed."""
    return _SAMPLE if _SAMPLE.exists() else _PACKAGED
