"""The data folder that this process shows; the notebook finds it here, whether a server or marimo's editor runs it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from firmlake.core.folders import Folders
from firmlake.explore.holding import Holding, Newest

__all__ = ["holding", "use"]

_newest: list[Newest] = []


def use(folders: Folders, tell: Callable[[str], object] = lambda line: None) -> None:
    """Show this data folder from now on."""
    _newest[:] = [Newest(folders, tell)]


def holding() -> Holding:
    """Return the newest generation. Without `use`, that of FIRMLAKE_PATHS__DATA, or else of `firmlake demo`.

    Raises:
        UsageError: Nothing was published yet.
    """
    if not _newest:
        use(Folders(Path(os.environ.get("FIRMLAKE_PATHS__DATA", "data/sandbox"))))
    return _newest[0].holding()
