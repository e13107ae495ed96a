"""What is written is its owner's alone; one setting lets a group read the warehouse, reports and exports."""

from __future__ import annotations

import grp
import json
import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import firmlake_sandbox
from firmlake_sandbox import Sandbox

_NUMBERS = firmlake_sandbox.sample_numbers(12)


# One process for all commands: starting each takes longer than most of them.
_CALLS = """
import json, sys
from firmlake.cli import firmlake
codes = [firmlake.main(arguments, standalone_mode=False) for arguments in json.loads(sys.argv[1])]
sys.exit(max(codes))
"""


def call(folder: Path, sandbox: Sandbox, *commands: Sequence[str], umask: int) -> None:
    """Call `firmlake` with the arguments of each command in turn."""
    environment = {
        **os.environ,
        "FIRMLAKE_API__BASE_URL": sandbox.base_url,
        "FIRMLAKE_API_TOKEN": sandbox.token,
        "FIRMLAKE_API__REQUESTS_PER_MINUTE": "0",
    }
    process = [sys.executable, "-c", _CALLS, json.dumps(commands)]
    done = subprocess.run(
        process, cwd=folder, env=environment, umask=umask, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def do_everything(folder: Path, sandbox: Sandbox, *options: str, umask: int) -> None:
    """Make every kind of file there is."""
    (folder / "list.csv").write_text("country,company_number\n" + "".join(f"{c},{n}\n" for c, n in _NUMBERS))
    commands = (
        ["run", "list.csv", "--log", "log.jsonl"],
        ["service-lists"],
        ["report"],
        ["changes", "--out", "changes.csv"],
        ["export", "exported"],
        ["export", "tables", "--format", "csv"],
        ["archive", "archived"],
        ["status", "--metrics", "metrics.txt"],
        ["verify"],
    )
    call(folder, sandbox, *([*arguments, *options] for arguments in commands), umask=umask)


def modes(folder: Path) -> dict[str, int]:
    """Mode of everything below a folder, links aside, by path."""
    paths = (path for path in folder.rglob("*") if not path.is_symlink() and path.name != "list.csv")
    return {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in paths}


@pytest.mark.slow
def test_nobody_but_the_owner_reads_what_is_written(sandbox, tmp_path):
    do_everything(tmp_path, sandbox, umask=0o022)
    found = modes(tmp_path)
    assert len(found) > 60
    assert {path: oct(mode) for path, mode in found.items() if mode & 0o077} == {}


@pytest.mark.slow
def test_a_stricter_umask_is_respected(sandbox, tmp_path):
    (tmp_path / "list.csv").write_text("BE0403227515\n")
    call(tmp_path, sandbox, ["run", "list.csv"], umask=0o277)
    assert not any(mode & 0o200 for path, mode in modes(tmp_path / "data/landing").items() if path.endswith(".zst"))


@pytest.mark.slow
def test_one_setting_opens_warehouse_reports_and_exports_to_a_group(sandbox, tmp_path):
    """And what was paid for, who was asked for and the state of runs stay closed."""
    group = grp.getgrgid(os.getgid()).gr_name
    do_everything(tmp_path, sandbox, "--set", f"paths.readers={group}", umask=0o077)
    found = modes(tmp_path)
    opened = {path for path, mode in found.items() if mode & 0o040}
    assert not any(mode & 0o027 for mode in found.values()), "nobody writes but the owner, nobody else reads"
    assert {"data", "data/warehouse", "data/report.html", "exported", "exported/latest.json"} <= opened
    assert {path for path in found if path.startswith("data/warehouse/gen_")} <= opened
    assert {path for path in found if path.startswith(("exported/exports/", "tables/exports/"))} <= opened
    assert not {path for path in opened if path.startswith(("data/landing", "data/state", "data/staged"))}
    assert found["data/warehouse"] & 0o010, "a folder is opened to look into"


def test_a_group_that_does_not_exist_is_named_before_anything_is_asked(sandbox, tmp_path):
    (tmp_path / "list.csv").write_text("BE0403227515\n")
    setting = "paths.readers=nobody-here"
    command = [sys.executable, "-m", "firmlake", "run", "list.csv", "--set", "api.base_url=sandbox", "--set", setting]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "paths.readers: there is no group nobody-here" in done.stderr
