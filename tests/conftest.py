"""What all tests share: a data folder, and one sandbox for each test process, as new for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

import firmlake_sandbox
from firmlake.core.folders import Folders
from firmlake_sandbox import Sandbox

# Several test processes share few processors, so that a slow example says nothing. The same examples every time, so
# that a failure belongs to the change before it; `--hypothesis-profile explore` looks for new ones.
hypothesis.settings.register_profile("firmlake", deadline=None, derandomize=True)
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.load_profile("firmlake")


_LOOK_AT_COMMENTS = ("test_load.py", "test_macros.py", "test_pages.py", "test_views.py")


@pytest.fixture(autouse=True)
def no_comments(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare tests the comments that they do not look at: some hundred take half the time of a small load."""
    if request.path.name not in _LOOK_AT_COMMENTS:
        for module in ("load", "views"):
            monkeypatch.setattr(f"firmlake.warehouse.{module}._comments", lambda *_: ())


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path / "data")


@pytest.fixture(scope="session")
def sandbox_process() -> Iterator[tuple[Sandbox, dict[str, Any]]]:
    with firmlake_sandbox.start("secret", requests_per_minute=0) as sandbox:
        yield sandbox, sandbox.control("GET", "options")


@pytest.fixture
def sandbox(sandbox_process: tuple[Sandbox, dict[str, Any]]) -> Sandbox:
    """The service without a rate limit, having forgotten everything."""
    sandbox, options = sandbox_process
    sandbox.set_options(**options)
    sandbox.reset()
    return sandbox
