"""An endpoint that speaks to Snowflake's driver and runs its statements on DuckDB."""

from __future__ import annotations

import gzip
import json
import re
import threading

import duckdb
import pytest
import sqlglot

from .endpoint import Endpoint
from .targets import Loaded

LOGIN = {"token": "t", "masterToken": "m", "sessionId": 1, "parameters": [], "validityInSeconds": 3600,
         "masterValidityInSeconds": 14400, "sessionInfo": {"databaseName": "D", "schemaName": "S"}}  # fmt: skip


class Service:
    """Speaks Snowflake's protocol for one session; stages are a folder.

    There, a statement that makes or drops a table commits what was done before it; here it is refused.
    """

    def __init__(self, folder):
        self.folder, self.in_transaction = folder, False
        self.connection = duckdb.connect()
        self.connection.execute("CREATE SCHEMA firmlake; SET schema = 'firmlake'")  # the schema of the session
        self.accepts = "planted-secret"
        self.lock = threading.Lock()  # the driver asks several things at once
        self.endpoint = Endpoint(self.respond)

    def respond(self, _, path, sent, body):
        body = gzip.decompress(body) if sent.get("content-encoding") == "gzip" else body
        return 200, {}, self.answer(path, json.loads(body or b"{}"))

    def answer(self, path, request):
        if "login-request" in path:
            is_right = request["data"]["PASSWORD"] == self.accepts
            message = None if is_right else "Incorrect username or password was specified."
            return {"success": is_right, "code": None if is_right else "390100", "message": message, "data": LOGIN}
        if "query-request" not in path:
            return {"success": True, "code": None, "message": None, "data": {}}
        statement = request["sqlText"]
        try:
            with self.lock:
                data = self.carry_out(statement, request)
            return {"success": True, "code": None, "message": None, "data": data}
        except (duckdb.Error, sqlglot.ParseError) as error:
            return {"success": False, "code": "1", "message": str(error), "data": {"queryId": "q"}}

    def carry_out(self, statement, request):
        verb = statement.split()[0].upper()
        if verb == "PUT":
            place = {"locationType": "LOCAL_FS", "location": str(self.folder), "path": "", "creds": {}}
            return {"command": "UPLOAD", "src_locations": [re.search(r"'?file://([^' ]+)", statement)[1]],
                    "parallel": 1, "threshold": 2**28, "autoCompress": False, "overwrite": True,
                    "sourceCompression": "none", "stageInfo": place, "queryId": "q"}  # fmt: skip
        if verb == "COPY":
            return self.copy(statement)
        if re.match(r"(CREATE|DROP|REMOVE|ALTER|SHOW)\b.*?\b(STAGE|SESSION|FILE FORMAT)\b", statement):
            return rows([("status",)], [("done",)])
        if self.in_transaction and verb in ("CREATE", "ALTER", "DROP"):
            raise duckdb.TransactionException(f"it would end the transaction: {statement}")
        if verb in ("BEGIN", "COMMIT", "ROLLBACK"):
            self.in_transaction = verb == "BEGIN"
        statement = statement.replace("'FIRMLAKE'", "'firmlake'")  # names are kept in capitals there, and here are not
        translated = sqlglot.transpile(statement, "snowflake", "duckdb")[0]
        cursor = self.connection.execute(translated)
        return rows(cursor.description or [("status",)], cursor.fetchall())

    def copy(self, statement):
        for file in sorted(self.folder.glob("*.parquet")):
            self.connection.execute(f"INSERT INTO {statement.split()[2]} BY NAME FROM '{file}'")
            file.unlink()
        return rows([("status",)], [("LOADED",)])


def rows(columns, found):
    def cell(value):
        if hasattr(value, "timestamp"):
            return f"{int(value.timestamp())}.{value.microsecond:06}000 1440"
        return None if value is None else str(value)

    def kind(place):
        held = next((row[place] for row in found if row[place] is not None), "")
        return "timestamp_tz" if hasattr(held, "timestamp") else "fixed" if type(held) is int else "text"

    types = [
        {"name": column[0], "type": kind(n), "nullable": True, "length": 100, "scale": 0, "precision": 38}
        for n, column in enumerate(columns)
    ]
    held = [[cell(value) for value in row] for row in found]
    return {"parameters": [], "rowtype": types, "rowset": held, "total": len(held), "returned": len(held),
            "queryId": "q", "queryResultFormat": "json"}  # fmt: skip


@pytest.fixture
def snowflake(tmp_path, monkeypatch):
    pytest.importorskip("adbc_driver_snowflake")
    (tmp_path / "stage").mkdir()
    service = Service(tmp_path / "stage")
    for name, value in {"HOST": "127.0.0.1", "PORT": str(service.endpoint.port), "PROTOCOL": "http",
                        "USER": "loader", "PASSWORD": "planted-secret"}.items():  # fmt: skip
        monkeypatch.setenv(f"SNOWFLAKE_{name}", value)
    yield service
    service.endpoint.close()


@pytest.fixture
def in_snowflake(snowflake):
    return Loaded("snowflake://account/D?warehouse=w", lambda sql: snowflake.connection.execute(sql).fetchall())
