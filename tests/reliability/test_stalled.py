"""A run that is alive but stuck ends, whatever hangs, and the same command resumes it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from firmlake.core.folders import Folders
from firmlake.report.status import read_status
from firmlake_sandbox import Sandbox

pytestmark = pytest.mark.slow

HANGS = """
import threading
from firmlake.cli import main
from firmlake.enrich import shards

shards.stage_shard = lambda *arguments: threading.Event().wait()  # as a disk that no longer answers
main()
"""


def test_a_process_whose_threads_do_not_stop_ends_itself_and_is_resumed(
    sandbox: Sandbox, folders: Folders, tmp_path: Path
):
    (tmp_path / "list.csv").write_text("country,company_number\nBE,0403227515\nNL,33014286\n")
    run = ["run", "list.csv", "--data", str(folders.data), "--set", f"api.base_url={sandbox.base_url}"]
    environment = {**os.environ, "FIRMLAKE_API_TOKEN": sandbox.token}

    def start(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100
        )

    (tmp_path / "hangs.py").write_text(HANGS)
    ended = start("hangs.py", *run, "--set", "run.stuck_after_minutes=0.01")
    assert (ended.returncode, ended.stderr.splitlines()[-1].startswith("firmlake: The run stalled")) == (4, True)
    status = read_status(folders)
    assert (status.running, len(status.unfinished)) == ("", 1)
    assert status.failure
    assert status.failure.what == "a run that stalled"
    asked = sandbox.ledger(summary=True)["summary"]["requests"]
    resumed = start("-m", "firmlake", *run)
    assert resumed.returncode == 0, resumed.stderr
    assert "Continuing run" in resumed.stderr
    assert sandbox.ledger(summary=True)["summary"]["requests"] == asked
    assert read_status(folders).failure is None
