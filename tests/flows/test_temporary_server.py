"""The temporary server ends with whoever started it; the settings that are shipped for a server are Prefect's."""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import pytest

from lake import wait_until


@pytest.fixture
def start(tmp_path, flow_modules):
    """Start a server whose home is the folder of the test; it is stopped at the end."""
    from temporary_server import TemporaryServer

    servers = []

    def start(**variables):
        environment = {**os.environ, "PREFECT_HOME": str(tmp_path), **variables}
        servers.append(TemporaryServer(tmp_path / "server.log", environment))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def test_one_that_does_not_serve_yet_is_ended_at_once(start):
    server = start()
    server.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(server.pid, 0)


def test_one_that_does_not_start_is_an_error_that_names_its_log(tmp_path, start):
    (tmp_path / "uvicorn.py").write_text("raise ImportError('there is none')")
    with pytest.raises(OSError, match=str(tmp_path / "server.log")):
        start(PYTHONPATH=str(tmp_path)).wait()
    assert "there is none" in (tmp_path / "server.log").read_text()


@pytest.mark.slow
def test_one_answers_only_who_knows_its_string_which_no_process_list_shows_and_ends_without_its_owner(start):
    server = start()
    client = server.wait()
    user, _, password = client["PREFECT_API_AUTH_STRING"].partition(":")
    for auth, status in ((None, 401), ((user, "guessed"), 401), ((user, password), 200)):
        address = f"{client['PREFECT_API_URL']}/flow_runs/filter"
        assert httpx.post(address, json={}, auth=auth, trust_env=False).status_code == status
    assert password not in Path(f"/proc/{server.pid}/cmdline").read_text()
    server._process.stdin.close()  # as the kernel does when the owner is killed
    wait_until(lambda: server._process.poll() is not None, 20)


@pytest.mark.slow
def test_prefect_knows_every_setting_and_takes_its_value(prefect_settings, flow_modules, monkeypatch):
    from prefect.settings import Settings

    from temporary_server import server_settings

    shipped = server_settings()
    for name, value in shipped.items():
        monkeypatch.setenv(name, value)
    taken = Settings().to_environment_variables(exclude_unset=True)
    assert shipped.keys() - {"DO_NOT_TRACK"} <= taken.keys()
