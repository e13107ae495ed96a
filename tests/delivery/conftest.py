"""A warehouse of three weeks in which rows come, change, move and go; object stores on loopback; targets of loads."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import httpx
import pytest

from firmlake.core.folders import Folders
from postgres import Postgres, serve_postgres
from support import (
    ACME,
    BOLT,
    CIRC,
    DATASETS,
    DAY,
    MINUTE,
    NOON,
    attached,
    empty_warehouse,
    land_run,
    lookalike,
    party,
    period,
    publish_landed,
    run_name,
    run_of,
)

from .bigquery import bigquery, in_bigquery
from .snowflake import in_snowflake, snowflake
from .targets import Loaded

__all__ = ["bigquery", "in_bigquery", "in_snowflake", "snowflake"]

AZURE_KEY = base64.b64encode(b"a key for loopback").decode()
RUNS = [run_name(day) for day in range(3)]
ODD = ["=1+1", "+31 6", "-x", "@y", "'z", "\ttab", 'plain, "quoted"', "é\nline", "\uff1d1"]
_STORY = [
    {
        ACME: ([period(2023), period(2024)], [lookalike(BOLT, 0.9)], [party(BOLT, name=name) for name in ODD]),
        BOLT: ([period(2024, profitability__revenue=12345678901234.56)], [], []),
    },
    {
        ACME: ([period(2024, profitability__revenue=5), period(2023)], [], [party(None, name="N"), party(BOLT)]),
        CIRC: ([period(2022)], [lookalike(ACME, 0.1), lookalike(BOLT, 0.05)], []),
    },
    {ACME: ([period(2025), period(2024, profitability__revenue=5)], [lookalike(BOLT, 0.9)], [])},
]


def add_week(folders: Folders, week: int, keep: int = 5, first: Path | None = None) -> None:
    """Fetch and publish a week of the story; the first generation is a copy of `first`."""
    answers = {company: dict(zip(DATASETS, records, strict=True)) for company, records in _STORY[week].items()}
    publish_landed(land_run(folders, week, answers), at=NOON + week * DAY + MINUTE, keep=keep, first=first)


@pytest.fixture(scope="session")
def lake(weekly: list[Path]) -> Folders:
    """Three weeks, three generations; exports leave their records in it."""
    return Folders(weekly[0].with_name("data"))


@pytest.fixture(scope="session")
def azure() -> Iterator[str]:
    """Azurite, an Azure Blob server; gives the address of its account `lake`, whose key is `AZURE_KEY`."""
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("npm install -g azurite")
    command = [program, "--blobHost", "127.0.0.1", "--blobPort", "0", "--inMemoryPersistence", "--disableTelemetry"]
    environment = {**os.environ, "AZURITE_ACCOUNTS": f"lake:{AZURE_KEY}"}
    with subprocess.Popen(
        [*command, "--skipApiVersionCheck"], env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout
        address = next(found[0] for line in server.stdout if (found := re.search(r"http://127\.0\.0\.1:\d+", line)))
        threading.Thread(target=server.stdout.read, daemon=True).start()
        yield f"{address}/lake"
        server.terminate()


@pytest.fixture
def container(azure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An address in a container of its own, with credentials as the environment has them."""
    for name, value in {
        "AZURE_STORAGE_ACCOUNT_NAME": "lake",
        "AZURE_STORAGE_ACCOUNT_KEY": AZURE_KEY,
        "AZURE_STORAGE_ENDPOINT": azure,
        "AZURE_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    name = re.sub(r"[^a-z0-9]+", "-", tmp_path.name.lower()).strip("-")
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2023-11-03"}
    lines = [f"{key}:{value}" for key, value in headers.items()]
    text = "\n".join(["PUT", *[""] * 11, *lines, f"/lake/lake/{name}", "restype:container"])
    signature = hmac.digest(base64.b64decode(AZURE_KEY), text.encode(), hashlib.sha256)
    headers["Authorization"] = f"SharedKey lake:{base64.b64encode(signature).decode()}"
    httpx.put(f"{azure}/{name}?restype=container", headers=headers, trust_env=False).raise_for_status()
    return f"az://{name}/some/prefix"


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    with serve_postgres() as postgres:
        yield postgres


@pytest.fixture
def file(tmp_path: Path) -> Loaded:
    """A DuckDB file as the target of loads."""
    path = tmp_path / "target.duckdb"

    def ask(sql: str) -> list[tuple[Any, ...]]:
        with attached(path, is_writable=True) as cursor:
            return cursor.execute(sql).fetchall()

    return Loaded(f"duckdb:{path}", ask)


@pytest.fixture
def on_server(server: Postgres, request: pytest.FixtureRequest) -> Loaded:
    """A schema of a PostgreSQL server as the target of loads."""
    import psycopg

    schema = f"s{abs(hash(request.node.name)) % 10**9}"

    def ask(sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(server.url, autocommit=True) as connection:
            cursor = connection.execute(sql.replace("firmlake.", f"{schema}."))
            return cursor.fetchall() if cursor.description else []

    return Loaded(server.url, ask, schema)


@pytest.fixture(scope="session")
def weekly(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The data folder after each week; nobody writes to them."""
    folders, copies = Folders(tmp_path_factory.mktemp("weekly") / "data"), []
    for week in range(3):
        add_week(folders, week, keep=9, first=empty_warehouse())
        copies.append(folders.data.with_name(f"week-{week}"))
        shutil.copytree(folders.data, copies[-1], symlinks=True)
    return copies


@pytest.fixture
def weeks(weekly: list[Path], tmp_path: Path) -> Callable[[int], Folders]:
    """Bring a data folder to the state after a week; week 0 is the first."""

    def bring(week: int) -> Folders:
        (tmp_path / "data/warehouse/firmlake.duckdb").unlink(missing_ok=True)  # a link to the newest generation
        shutil.copytree(weekly[week], tmp_path / "data", symlinks=True, dirs_exist_ok=True)
        return Folders(tmp_path / "data")

    return bring


@pytest.fixture
def other(tmp_path: Path) -> Folders:
    """A data folder with a run of its own."""
    folders = Folders(tmp_path / "other")
    run_of(folders, 0, {ACME: {"lookalikes": [lookalike()]}}, run_id="20260105T120000Z-ffff")
    return folders
