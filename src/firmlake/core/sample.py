"""The sample company list, which runs on the embedded service when no list is named."""

from __future__ import annotations

from pathlib import Path

from firmlake.core.settings import SANDBOX

SAMPLE_SETTINGS = {
    "api.base_url": SANDBOX,
    "paths.data": "data/sandbox",
    "paths.alert_rules": str(Path(__file__).with_name("watch.toml")),
}
"""Settings of the sample list by dotted key; settings of the user override them.

The rules of alerts are those of config/watch.toml."""
_SAMPLE = Path("data/intake/sample.csv")
_PACKAGED = Path(__file__).with_name("sample.csv")


def find_sample() -> Path:
    """Return the path of the sample list: the one in the working directory's clone, or the installed one."""
    return _SAMPLE if _SAMPLE.exists() else _PACKAGED
