"""What all tests share: a data folder, and one sandbox for each test process, as new for every test."""

from __future__ import annotations

import gc
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import httpx
import hypothesis
import pytest

import firmlake_sandbox
from firmlake.core.errors import DamagedError
from firmlake.core.folders import Folders
from firmlake.enrich import held as holding
from firmlake.enrich import run as running
from firmlake.warehouse import generations, schema, views
from firmlake_sandbox import Sandbox
from lake import TOKEN
from support import INDEXED, UNASKED, Elsewhere, credentials, empty_warehouse, index_rows

for name in [name for name in os.environ if name.startswith("FIRMLAKE_")]:
    del os.environ[name]
os.environ.update(UNASKED)

# Several test processes share few processors, so that slow examples say nothing. The same examples every time, so that
# a failure belongs to the change before it; `--hypothesis-profile explore` looks for new ones, and for more.
_TIMELESS = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("firmlake", derandomize=True, max_examples=25, **_TIMELESS)
hypothesis.settings.register_profile("explore", **_TIMELESS)
hypothesis.settings.load_profile("firmlake")


# A warehouse is flushed to disk at every step, for which a test would wait. Tests that need another file system say so.
_MEMORY = Path("/dev/shm")
if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > 4 * 2**30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

_LOOK_AT_EMPTY_WAREHOUSES = {f"test_{name}.py" for name in ("docs", "generations", "tables_made", "views")}


@pytest.fixture(scope="module", autouse=True)
def first_publish_starts_from_an_empty_warehouse(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give the first generation of every data folder what a later one copies from the one before it."""
    fill = generations._fill

    def fill_a_copy(folders: Folders, aside: Path, load: Any, start: Path | None, settings: dict[str, str]) -> object:
        return fill(folders, aside, load, start or empty_warehouse(), settings)

    with pytest.MonkeyPatch.context() as patch:
        if request.path.name not in _LOOK_AT_EMPTY_WAREHOUSES:
            patch.setattr(generations, "_fill", fill_a_copy)
            for module in (schema, views):
                patch.setattr(module, "_comments", lambda *_: ())
        yield


@pytest.fixture(scope="session", autouse=True)
def an_index_made_again_says_the_same() -> Iterator[None]:
    """Compare, in every scene of every test, what a run is planned from with what an index made from nothing says."""
    open_index = holding.open_index

    @contextmanager
    def open_and_compare(folders: Folders, runs: Any, loads: Any) -> Iterator[sqlite3.Connection]:
        with open_index(folders, runs, loads) as index:
            index.commit()
            elsewhere = Elsewhere(folders.data, folders.data / "nowhere")  # so it is made in memory
            with suppress(DamagedError), open_index(elsewhere, runs, loads) as again:
                assert [index_rows(again, table) for table in INDEXED] == [
                    index_rows(index, table) for table in INDEXED
                ]
            yield index

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(holding, "open_index", open_and_compare)
        yield


@pytest.fixture(scope="session", autouse=True)
def a_generation_stays_open() -> Iterator[None]:
    """Keep the generation open that was opened last, as `kept_open` does: each start of DuckDB takes 20 ms."""
    connect_to, restrict = generations.connect_to, generations._restrict
    kept: list[tuple[object, duckdb.DuckDBPyConnection]] = []

    def connect_and_keep(path: Path) -> duckdb.DuckDBPyConnection:
        found = path.stat() if path.exists() else None
        version = found and (path, found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode)
        if kept and kept[0][0] != version:
            kept.clear()
        connection = connect_to(path)
        kept[:] = [(version, connection.cursor())]
        return connection

    def restrict_alone(connection: duckdb.DuckDBPyConnection, locked: bool, memory_limit: str | None) -> None:
        if locked:
            kept.clear()  # it would stay locked
        restrict(connection, locked, memory_limit)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generations, "connect_to", connect_and_keep)
        patch.setattr(generations, "_restrict", restrict_alone)
        yield
        kept.clear()


@pytest.fixture(scope="session", autouse=True)
def memory_stays_with_the_test_process() -> Iterator[None]:
    """The process of all tests is larger than that of a command, and would collect its garbage at each load."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "give_back", lambda: None)
        yield


_EVERYWHERE = {"prefect_server", "s3", "weekly"}
"""Fixtures that take seconds: one process has all tests of each. Other tests keep together by file, with its worlds."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        shared = sorted(_EVERYWHERE & set(getattr(item, "fixturenames", ())))
        item.add_marker(pytest.mark.xdist_group(shared[0] if shared else str(item.path)))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a long parameter after its argument.

    A made workbook holds the second at which it was made, so that processes would collect tests of different names; and
    a long text does not fit the environment variable in which pytest keeps the name of the running test.
    """
    return argname if isinstance(val, bytes | str) and len(val) > 100 else None


def pytest_collection_finish() -> None:
    """Keep what was imported out of the full garbage collections that each publish asks for."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()
    gc.callbacks.clear()  # the one of hypothesis outlives all modules, and DuckDB then reports leaks


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path / "data")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Data folders, each built once in this process: nobody writes to them."""
    folders: dict[str, Path] = {}

    def build_once(build: Callable[..., Any], *arguments: Any) -> Path:
        name = f"{build.__module__}.{build.__qualname__}{arguments}"
        if name not in folders:
            made = tmp_path_factory.mktemp("built") / "data"
            made.mkdir()
            build(Folders(made), *arguments)
            folders[name] = made
        return folders[name]

    return build_once


@pytest.fixture
def copy_of(built: Callable[..., Path], tmp_path: Path) -> Callable[..., Folders]:
    """Give a copy of the data folder that `build(folders, *arguments)` makes."""

    def copy(build: Callable[..., Any], *arguments: Any, into: str = "data") -> Folders:
        shutil.copytree(built(build, *arguments), tmp_path / into, symlinks=True)
        return Folders(tmp_path / into)

    return copy


@pytest.fixture(scope="session")
def sandbox_process() -> Iterator[tuple[Sandbox, dict[str, Any]]]:
    """One for all tests of this process, with two tokens; its own is a canary, which nobody may write anywhere."""
    with firmlake_sandbox.start(f"{TOKEN},second", requests_per_minute=0) as sandbox:
        yield sandbox, sandbox.control("GET", "options")


@pytest.fixture
def sandbox(sandbox_process: tuple[Sandbox, dict[str, Any]]) -> Sandbox:
    """The service without a rate limit, having forgotten everything."""
    sandbox, options = sandbox_process
    sandbox.set_options(**options)
    sandbox.reset()
    return sandbox


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """An S3 server; gives its address. A process of its own, for a client may hold Python up while it waits."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr
        address = next(found[0] for line in server.stderr if (found := re.search(r"http://127\.0\.0\.1:\d+", line)))
        threading.Thread(target=server.stderr.read, daemon=True).start()
        yield address
        server.terminate()


@pytest.fixture
def bucket(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An address in a bucket of its own, with credentials as the environment has them."""
    for name, value in credentials(s3).items():
        monkeypatch.setenv(name, value)
    name = tmp_path.name.replace("_", "-").lower()
    httpx.put(f"{s3}/{name}", trust_env=False).raise_for_status()
    return f"s3://{name}/some/prefix"


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> str:
    """An address in a bucket that is kept in memory, by the library that speaks to servers as well."""
    from obstore import store

    stores: dict[str, Any] = defaultdict(store.MemoryStore)
    monkeypatch.setattr(store, "from_url", lambda url, **_: stores[url])
    return "s3://bucket/some/prefix"
