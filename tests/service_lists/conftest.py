from __future__ import annotations

from pathlib import Path

import pytest

from firmlake.service_lists import apply
from firmlake_sandbox import Sandbox

from .support import Desk


@pytest.fixture
def publishing_desk(tmp_path: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Few lists, so that their overview is one page."""
    monkeypatch.setenv("FIRMLAKE_API_TOKEN", sandbox.token)
    sandbox.set_options(lists=20)
    return Desk(tmp_path, sandbox)


@pytest.fixture
def desk(publishing_desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk that makes no warehouse, for rules that are not about it."""
    monkeypatch.setattr(apply, "publish_lists", lambda *arguments: None)
    return publishing_desk
