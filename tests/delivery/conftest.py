"""Targets of loads: a DuckDB file, and a PostgreSQL server for tests marked slow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import pytest

from exports.conftest import add_week
from firmlake.core.folders import Folders
from firmlake.delivery.load import open_target
from firmlake.delivery.request import LoadRequest
from firmlake.delivery.target import LoadTarget
from postgres import Postgres, serve_postgres


class Place:
    """A target, and a way to ask it that is not ours."""

    def __init__(self, address: str, ask: Callable[[str], list[tuple[Any, ...]]], schema: str = "firmlake") -> None:
        self.address, self.ask, self.schema = address, ask, schema

    def request(self, **options: Any) -> LoadRequest:
        return LoadRequest(target=self.address, schema=self.schema, **options)

    @contextmanager
    def open(self) -> Iterator[LoadTarget]:
        with open_target(self.request()) as target:
            yield target


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    with serve_postgres() as postgres:
        yield postgres


@pytest.fixture(params=["duckdb", pytest.param("postgres", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path) -> Place:
    if request.param == "duckdb":
        path = tmp_path / "target.duckdb"

        def ask(sql: str) -> list[tuple[Any, ...]]:
            with duckdb.connect(str(path)) as connection:
                return connection.execute(sql).fetchall()

        return Place(f"duckdb:{path}", ask)
    return request.getfixturevalue("place_on_server")


@pytest.fixture
def place_on_server(server: Postgres, request: pytest.FixtureRequest) -> Place:
    import psycopg

    schema = f"s{abs(hash(request.node.name)) % 10**9}"

    def ask(sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(server.url, autocommit=True) as connection:
            cursor = connection.execute(sql.replace("firmlake.", f"{schema}."))
            return cursor.fetchall() if cursor.description else []

    return Place(server.url, ask, schema)


@pytest.fixture
def weeks(tmp_path) -> Callable[[int], Folders]:
    """Add a week to a data folder; week 0 is the first."""
    folders = Folders(tmp_path / "data")

    def add(week: int, keep: int = 9) -> Folders:
        add_week(folders, week, keep=keep)
        return folders

    return add
