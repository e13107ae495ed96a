"""Iceberg through a REST catalog with its tables in S3: what a lake has that others read, too."""

from __future__ import annotations

import io
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import httpx
import polars as pl
import pyarrow.parquet as pq
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from firmlake.core.folders import Folders
from firmlake.delivery.deliver import Request
from support import export, query

from .conftest import add_week
from .test_iceberg import AMOUNTS, COLUMNS, TABLES, amounts
from .test_iceberg import pytestmark as _ignored

pytest.importorskip("pyiceberg")
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import CommitTableRequest
from pyiceberg.utils.config import Config

pytestmark = [pytest.mark.slow, *_ignored]
TOKEN = "planted-secret"


class RestCatalog:
    """The endpoints of the specification that a writer needs, over a catalog in SQLite.

    Like Polaris or Lakekeeper, it tells its clients where the store is and how to log in there.
    """

    def __init__(self, folder: Path, warehouse: str, store: dict[str, str]) -> None:
        self._store = store
        self._catalog = SqlCatalog("held", uri=f"sqlite:///{folder / 'rest.db'}", warehouse=warehouse, **store)
        self.asked: list[str] = []
        routes = {
            "/v1/config": self.config,
            "/v1/namespaces": self.make_namespace,
            "/v1/namespaces/{space}": self.namespace,
            "/v1/namespaces/{space}/tables": self.make_table,
            "/v1/namespaces/{space}/tables/{table}": self.table,
        }
        methods = ["GET", "HEAD", "POST"]
        self.app = Starlette(routes=[Route(path, self.guarded(do), methods=methods) for path, do in routes.items()])

    def guarded(self, do: Any) -> Any:
        async def endpoint(request: HttpRequest) -> Response:
            self.asked.append(f"{request.method} {request.url.path}")
            if request.headers.get("authorization") != f"Bearer {TOKEN}":
                return self.refused(401, "NotAuthorizedException", "Not authorized")
            try:
                return do(request, await request.body())
            except NoSuchTableError as error:
                return self.refused(404, "NoSuchTableException", str(error))
            except CommitFailedException as error:
                return self.refused(409, "CommitFailedException", str(error))

        return endpoint

    def refused(self, code: int, kind: str, message: str) -> Response:
        return JSONResponse({"error": {"message": message, "type": kind, "code": code}}, code)

    def config(self, request: HttpRequest, body: bytes) -> Response:
        return JSONResponse({"defaults": {}, "overrides": {}})

    def make_namespace(self, request: HttpRequest, body: bytes) -> Response:
        asked = json.loads(body)
        self._catalog.create_namespace(tuple(asked["namespace"]))
        return JSONResponse(asked)

    def namespace(self, request: HttpRequest, body: bytes) -> Response:
        exists = self._catalog.namespace_exists(request.path_params["space"])
        if not exists:
            return self.refused(404, "NoSuchNamespaceException", "no such namespace")
        return JSONResponse({"namespace": [request.path_params["space"]], "properties": {}})

    def make_table(self, request: HttpRequest, body: bytes) -> Response:
        asked = CreateTableRequest.model_validate({"location": None, **json.loads(body)})
        name = (request.path_params["space"], asked.name)
        made = self._catalog.create_table(name, asked.table_schema, properties=asked.properties)
        return self.told(made)

    def table(self, request: HttpRequest, body: bytes) -> Response:
        table = self._catalog.load_table((request.path_params["space"], request.path_params["table"]))
        if request.method == "POST":
            asked = CommitTableRequest.model_validate_json(body)
            self._catalog.commit_table(table, asked.requirements, asked.updates)
            table = self._catalog.load_table(table.name())
        return self.told(table)

    def told(self, table: Any) -> Response:
        metadata = json.loads(table.metadata.model_dump_json())
        return JSONResponse({"metadata-location": table.metadata_location, "metadata": metadata, "config": self._store})


@pytest.fixture
def catalog(tmp_path: Path, bucket: str, s3: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestCatalog]:
    """A REST catalog on loopback, which pyiceberg knows as firmlake by the environment."""
    store = {"s3.endpoint": s3, "s3.access-key-id": "key", "s3.secret-access-key": "secret", "s3.region": "us-east-1"}
    served = RestCatalog(tmp_path, bucket.replace("/some/prefix", "/warehouse"), store)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(served.app, log_level="error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("PYICEBERG_CATALOG__FIRMLAKE__URI", f"http://127.0.0.1:{listening.getsockname()[1]}")
        monkeypatch.setenv("PYICEBERG_CATALOG__FIRMLAKE__TOKEN", TOKEN)
        yield served
        server.should_exit = True
        thread.join(30)


def opened() -> Any:
    return load_catalog("firmlake", **Config().get_catalog_config("firmlake"))


def test_exports_reach_the_catalog_and_three_readers_find_them(catalog, bucket, s3, tmp_path):
    from firmlake.delivery.destination import open_destination

    folders, held = Folders(tmp_path / "data"), []
    for week in range(3):
        add_week(folders, week)
        request = Request(format="iceberg", tables=TABLES, mode="changes" if week == 2 else "whole")
        done = export(folders, request, open_destination(bucket))
        held.append((done.record, query(folders, AMOUNTS)))
    assert "POST /v1/namespaces/firmlake/tables/financials" in catalog.asked
    assert catalog.asked.count("POST /v1/namespaces") == 1  # creating it takes a right that later exports do not need

    financials = opened().load_table("firmlake.financials")
    assert financials.location().startswith("s3://")
    for manifest, expected in held[:2]:
        assert amounts(financials.scan(snapshot_id=manifest.tables[0].iceberg_snapshot).to_arrow()) == expected
    assert amounts(pl.scan_iceberg(financials).collect().to_arrow()) == held[1][1]
    paths = [task.file.file_path.removeprefix("s3://") for task in financials.scan().plan_files()]
    files = [pq.read_table(io.BytesIO(httpx.get(f"{s3}/{path}", trust_env=False).content)) for path in paths]
    rows = [row for file in files for row in duckdb.sql(f"SELECT {', '.join(COLUMNS)} FROM file").fetchall()]
    assert sorted(rows) == held[1][1]
    changes = opened().load_table("firmlake.financials_changes").scan().to_arrow()
    assert sorted(changes["change_type"].to_pylist()) == ["delete", "insert", "update"]


def test_a_catalog_that_refuses_the_token_is_told_without_it(catalog, bucket, lake, monkeypatch):
    from firmlake.core.errors import FirmlakeError
    from firmlake.delivery.destination import open_destination

    monkeypatch.setenv("PYICEBERG_CATALOG__FIRMLAKE__TOKEN", "planted-other")
    with pytest.raises(FirmlakeError) as caught:
        export(lake, Request(format="iceberg", tables=TABLES), open_destination(bucket))
    assert "planted-other" not in str(caught.value)
    assert "Check the catalog" in str(caught.value)
