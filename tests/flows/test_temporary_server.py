"""The temporary server ends with whoever started it."""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import pytest

from .support import wait_until


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_one_that_does_not_serve_yet_is_ended_at_once(tmp_path: Path, flow_modules: None):
    from temporary_server import TemporaryServer

    server = TemporaryServer(tmp_path / "home/server.log", {**os.environ, "PREFECT_HOME": str(tmp_path / "home")})
    server.stop()
    assert not _exists(server.pid)


def test_one_that_does_not_start_is_an_error_that_names_its_log(tmp_path: Path, flow_modules: None):
    from temporary_server import TemporaryServer

    (tmp_path / "uvicorn.py").write_text("raise ImportError('there is none')")
    server = TemporaryServer(tmp_path / "server.log", {**os.environ, "PYTHONPATH": str(tmp_path)})
    with pytest.raises(OSError, match=str(tmp_path / "server.log")):
        server.wait()
    assert "there is none" in (tmp_path / "server.log").read_text()
    server.stop()


@pytest.mark.slow
def test_one_answers_only_who_knows_its_string_which_no_process_list_shows(tmp_path: Path, flow_modules: None):
    from temporary_server import TemporaryServer

    server = TemporaryServer(tmp_path / "server.log", {**os.environ, "PREFECT_HOME": str(tmp_path)})
    client = server.wait()
    user, _, password = client["PREFECT_API_AUTH_STRING"].partition(":")
    try:
        for auth, status in ((None, 401), ((user, "guessed"), 401), ((user, password), 200)):
            address = f"{client['PREFECT_API_URL']}/flow_runs/filter"
            assert httpx.post(address, json={}, auth=auth, trust_env=False).status_code == status
        assert password not in Path(f"/proc/{server.pid}/cmdline").read_text()
    finally:
        server.stop()


@pytest.mark.slow
def test_one_that_lost_its_owner_ends_by_itself(tmp_path: Path, flow_modules: None):
    """Closing the pipe is what the kernel does when the owner is killed."""
    from temporary_server import TemporaryServer

    server = TemporaryServer(tmp_path / "server.log", {**os.environ, "PREFECT_HOME": str(tmp_path)})
    server.wait()
    assert server._process.stdin
    server._process.stdin.close()
    wait_until(lambda: server._process.poll() is not None, 20)
    server.stop()
