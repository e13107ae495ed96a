"""One Prefect server for all test processes, and flows that run on it without a process of their own."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from lake import Lake, wait_until
from support import slow

from .support import FLOWS, ByHand


class FlowRun(NamedTuple):
    """A flow run as Prefect's server has it, and what it gave here: its result, or the error it ended with."""

    state: str
    message: str
    result: Any
    artifacts: dict[str, Any]
    tasks: Callable[[], dict[str, str]]
    """Names and states; the server records them some moments late."""


_NOT_NEEDED = ("SCHEDULER", "LATE_RUNS", "FOREMAN", "CANCELLATION_CLEANUP", "PAUSE_EXPIRATIONS", "TRIGGERS")
"""Services of the server that ask its database for work all the time, which flows called in a process never have."""


@pytest.fixture(scope="session")
def prefect_home(tmp_path_factory):
    """A folder that all test processes share."""
    base = tmp_path_factory.getbasetemp()
    home = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "prefect"
    home.mkdir(exist_ok=True)
    return home


@pytest.fixture(scope="session")
def flow_modules():
    """Make the modules beside the flows importable, as they are where a flow runs."""
    sys.path.insert(0, str(FLOWS))
    yield
    sys.path.remove(str(FLOWS))


@pytest.fixture(scope="package")
def prefect_server(prefect_home, flow_modules, request):
    """The API of a server: the first process to want it starts it, and stops it after the last has let go.

    Making its database takes as long as the tests, so an empty one of each version of Prefect is kept between sessions.
    It ends with the tests of flows, because a server that nobody asks goes on using a tenth of a processor.
    """
    from temporary_server import TemporaryServer

    address, server = prefect_home / "address", None
    quiet = {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1", "PREFECT_HOME": str(prefect_home)}
    quiet |= {f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in _NOT_NEEDED}
    with (prefect_home / "start.lock").open("w") as start, (prefect_home / "users.lock").open("w") as users:
        fcntl.flock(start, fcntl.LOCK_EX)
        if not address.exists():
            kept = request.config.rootpath / ".pytest_cache" / f"prefect-{version('prefect')}.db"
            if kept.exists():
                shutil.copyfile(kept, prefect_home / "prefect.db")
            server = TemporaryServer(prefect_home / "server.log", {**os.environ, **quiet})
            address.write_text(json.dumps(server.wait()))
            if not kept.exists():
                kept.parent.mkdir(exist_ok=True)
                part = kept.with_suffix(f".{os.getpid()}")
                with closing(sqlite3.connect(prefect_home / "prefect.db")) as made:
                    made.execute("VACUUM INTO ?", [str(part)])
                part.rename(kept)
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
def prefect_settings(prefect_home):
    """What Prefect is to find in the environment when it is imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_HOME", str(prefect_home))
        patch.setenv("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
        patch.setenv("PREFECT_SERVER_ALLOW_EPHEMERAL_MODE", "false")
        patch.setenv("DO_NOT_TRACK", "1")
        yield


@pytest.fixture(scope="package")
def prefect(prefect_server, prefect_settings):
    """Prefect in this process, which knows the server; gives the address of its API."""
    from prefect.context import refresh_global_settings_context
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_API_URL", prefect_server)
        refresh_global_settings_context()
        # Ending a heartbeat takes a second for each run, and only in this way can there be none.
        with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
            yield prefect_server
        EventsWorker.drain_all()
        APILogWorker.drain_all()


def load_flow(name):
    """Load a flow by its entrypoint, as a deployment does."""
    from prefect.flows import load_flow_from_entrypoint

    module = "deliveries" if name in ("export", "load") else name
    return load_flow_from_entrypoint(f"{FLOWS / module}.py:{name}")


@pytest.fixture
def make_lake(flow_modules, prefect_settings, sandbox, tmp_path, monkeypatch):
    """Make lakes in which flows can run."""
    monkeypatch.setenv("FIRMLAKE_API_TOKEN", sandbox.token)
    return lambda companies=60, name="", **settings: Lake(tmp_path / name, sandbox, companies, **settings)


@pytest.fixture
def lake(make_lake):
    return make_lake()


@pytest.fixture
def run_flow(prefect):
    """Run a flow with the settings of a lake; further ones by keyword, `__` for the dot."""

    def run(lake, *arguments, flow="enrich", given=None, **settings):
        if not arguments and flow == "enrich":
            arguments = (str(lake.list),)
        overrides = lake.overrides(**settings)
        state = load_flow(flow)(*arguments, **(given or {}), overrides=overrides, return_state=True)
        return _look_up(prefect, state)

    return run


@pytest.fixture
def run_alone(flow_modules, prefect_settings, monkeypatch):
    """Run a flow as `run_flow` does, without a server: what Prefect would do and show is kept here."""
    import artifacts
    import job

    shown, tasks = {}, {}

    def step(name):
        def begin(work, return_state):
            tasks[name] = state = work()
            return state

        return lambda work: partial(begin, job.in_one_line(work))

    monkeypatch.setattr(job, "step", step)
    monkeypatch.setattr(job, "_logger", lambda: logging.getLogger("flow"))
    monkeypatch.setattr(artifacts, "emit_event", lambda *_, **__: None)
    for kind in ("markdown", "progress", "table"):
        keep = lambda data, key, **_: [shown.update({key: data}), key][1]  # noqa: E731
        monkeypatch.setattr(artifacts, f"create_{kind}_artifact", keep)
    monkeypatch.setattr(artifacts, "update_progress_artifact", lambda key, data, _: shown.update({key: data}))

    def run(lake, **settings):
        state = load_flow("enrich").fn(str(lake.list), overrides=lake.overrides(**settings))
        names = {name: found.name for name, found in tasks.items()}
        page = {key: data if isinstance(data, str | float) else json.dumps(data) for key, data in shown.items()}
        return FlowRun(state.name, state.message, state.result(raise_on_failure=False), page, lambda: names)

    return run


@pytest.fixture(params=["run_alone", *slow("run_flow")])
def run_either(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def by_hand(tmp_path, sandbox):
    return ByHand(tmp_path, sandbox, 0)


@pytest.fixture
def real_server(by_hand, flow_modules):
    """`prefect server start` with its own database and the settings that are shipped for it."""
    from temporary_server import server_settings

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    own = {**server_settings(), "PREFECT_HOME": str(by_hand.folder / "server")}
    command = [str(Path(sys.executable).with_name("prefect")), "server", "start", "--port", str(port)]
    with (by_hand.folder / "server.txt").open("wb") as log:
        process = subprocess.Popen(
            command, env={**by_hand.variables(), **own}, stdout=log, stderr=log, start_new_session=True
        )
    try:
        wait_until(lambda: is_healthy(f"http://127.0.0.1:{port}"), 120, "a healthy server")
        yield f"http://127.0.0.1:{port}/api"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(90)


def is_healthy(address):
    try:
        return httpx.get(f"{address}/api/health", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def ask_server(method, address, content=None):
    """Ask a Prefect server, with the authentication string in the environment, if one is there."""
    user, _, password = os.environ.get("PREFECT_API_AUTH_STRING", "").partition(":")
    return httpx.request(method, address, json=content, trust_env=False, auth=(user, password) if password else None)


def _look_up(api, state):
    run_id = str(state.state_details.flow_run_id)

    def ask(method, path):
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
