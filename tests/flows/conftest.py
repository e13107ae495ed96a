"""One Prefect server for all test processes, and flows that run on it without a process of their own."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
import pytest

from firmlake_sandbox import Sandbox

from .support import FLOWS, ROOT, ByHand, ask_server, settings_for, wait_until

if TYPE_CHECKING:
    from prefect import Flow


class FlowRun(NamedTuple):
    """A flow run as Prefect's server has it, and the error it ended with here."""

    state: str
    message: str
    error: Any
    artifacts: dict[str, Any]
    tasks: Callable[[], dict[str, str]]
    """Names and states; the server records them some moments late."""


RunFlow = Callable[..., FlowRun]

_NOT_NEEDED = ("SCHEDULER", "LATE_RUNS", "FOREMAN", "CANCELLATION_CLEANUP", "PAUSE_EXPIRATIONS", "TRIGGERS")
"""Services of the server that ask its database for work all the time, which flows called in a process never have."""


@pytest.fixture(scope="session")
def prefect_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all test processes share."""
    base = tmp_path_factory.getbasetemp()
    home = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "prefect"
    home.mkdir(exist_ok=True)
    return home


@pytest.fixture(scope="session")
def flow_modules() -> Iterator[None]:
    """Make the modules beside the flows importable, as they are where a flow runs."""
    sys.path.insert(0, str(FLOWS))
    yield
    sys.path.remove(str(FLOWS))


@pytest.fixture(scope="session")
def prefect_server(prefect_home: Path, flow_modules: None) -> Iterator[str]:
    """The API of a server: the first process to want it starts it, and stops it after the last has let go."""
    from temporary_server import TemporaryServer

    address, server = prefect_home / "address", None
    quiet = {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1", "PREFECT_HOME": str(prefect_home)}
    quiet |= {f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in _NOT_NEEDED}
    with (prefect_home / "start.lock").open("w") as start, (prefect_home / "users.lock").open("w") as users:
        fcntl.flock(start, fcntl.LOCK_EX)
        if not address.exists():
            server = TemporaryServer(prefect_home / "server.log", {**os.environ, **quiet})
            address.write_text(json.dumps(server.wait()))
        fcntl.flock(users, fcntl.LOCK_SH)
        fcntl.flock(start, fcntl.LOCK_UN)
        client = json.loads(address.read_text())
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PREFECT_API_AUTH_STRING", client["PREFECT_API_AUTH_STRING"])
            yield client["PREFECT_API_URL"]
        fcntl.flock(users, fcntl.LOCK_UN)
        if server:
            fcntl.flock(start, fcntl.LOCK_EX)
            fcntl.flock(users, fcntl.LOCK_EX)
            address.unlink()
            server.stop()


@pytest.fixture(scope="session")
def prefect_settings(prefect_home: Path) -> Iterator[None]:
    """What Prefect is to find in the environment when it is imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_HOME", str(prefect_home))
        patch.setenv("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
        patch.setenv("PREFECT_SERVER_ALLOW_EPHEMERAL_MODE", "false")
        patch.setenv("DO_NOT_TRACK", "1")
        yield


@pytest.fixture(scope="session")
def enrich(prefect_server: str, prefect_settings: None) -> Iterator[Flow[..., Any]]:
    """The flow, loaded by its entrypoint as a deployment loads it."""
    from prefect.context import refresh_global_settings_context
    from prefect.events.worker import EventsWorker
    from prefect.flows import load_flow_from_entrypoint
    from prefect.logging.handlers import APILogWorker
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_API_URL", prefect_server)
        refresh_global_settings_context()
        # Ending a heartbeat takes a second for each run, and only in this way can there be none.
        with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
            yield load_flow_from_entrypoint(f"{FLOWS / 'enrich.py'}:enrich")
        EventsWorker.drain_all()
        APILogWorker.drain_all()


@pytest.fixture
def run_flow(
    enrich: Flow[..., Any], prefect_server: str, sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> RunFlow:
    """Run the flow on the sandbox; settings by keyword, `__` for the dot."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("FIRMLAKE_API_TOKEN", sandbox.token)

    def run(company_list: Path | None, sql: str = "", **settings: object) -> FlowRun:
        overrides = settings_for(sandbox, tmp_path / "data", **settings)
        state = enrich(company_list and str(company_list), overrides=overrides, sql=sql, return_state=True)
        return _look_up(prefect_server, state)

    return run


@pytest.fixture
def by_hand(tmp_path: Path) -> ByHand:
    return ByHand(tmp_path)


@pytest.fixture
def real_server(by_hand: ByHand, flow_modules: None) -> Iterator[str]:
    """`prefect server start` with its own database and the settings that are shipped for it."""
    from temporary_server import server_settings

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    own = {**server_settings(), "PREFECT_HOME": str(by_hand.folder / "server")}
    command = [str(Path(sys.executable).with_name("prefect")), "server", "start", "--port", str(port)]
    with (by_hand.folder / "server.txt").open("wb") as log:
        process = subprocess.Popen(
            command,
            env={**by_hand.environment, **own},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    api = f"http://127.0.0.1:{port}/api"

    def is_healthy() -> bool:
        try:
            return httpx.get(f"{api}/health", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    try:
        wait_until(is_healthy, 120, "a healthy server")
        yield api
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(90)


def _look_up(api: str, state: Any) -> FlowRun:
    run_id = str(state.state_details.flow_run_id)

    def ask(method: str, path: str) -> Any:
        of_run = {"flow_runs": {"id": {"any_": [run_id]}}} if method == "POST" else None
        return ask_server(method, f"{api}/{path}", of_run).raise_for_status().json()

    known = ask("GET", f"flow_runs/{run_id}")["state"]
    return FlowRun(
        known["name"],
        known["message"],
        state.result(raise_on_failure=False),
        {artifact["key"]: artifact["data"] for artifact in ask("POST", "artifacts/filter")},
        lambda: {task["name"]: (task["state"] or {}).get("name") for task in ask("POST", "task_runs/filter")},
    )
