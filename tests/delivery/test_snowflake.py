"""A load into Snowflake, up to what its driver sends: an endpoint of ours runs the statements on DuckDB."""

from __future__ import annotations

import gzip
import json
import re
import threading

import duckdb
import pytest
import sqlglot

from firmlake.core.errors import FirmlakeError
from firmlake.delivery.deliver import deliver

from .conftest import Endpoint, Place
from .test_load import assert_same, now

pytestmark = pytest.mark.slow
pytest.importorskip("adbc_driver_snowflake")

LOGIN = {"token": "t", "masterToken": "m", "sessionId": 1, "parameters": [], "validityInSeconds": 3600,
         "masterValidityInSeconds": 14400, "sessionInfo": {"databaseName": "D", "schemaName": "S"}}  # fmt: skip


class Service:
    """Speaks Snowflake's protocol for one session; stages are a folder."""

    def __init__(self, folder):
        self.folder, self.said = folder, []
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
        self.said.append(statement)
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
def service(tmp_path, monkeypatch):
    (tmp_path / "stage").mkdir()
    service = Service(tmp_path / "stage")
    for name, value in {"HOST": "127.0.0.1", "PORT": str(service.endpoint.port), "PROTOCOL": "http",
                        "USER": "loader", "PASSWORD": "planted-secret"}.items():  # fmt: skip
        monkeypatch.setenv(f"SNOWFLAKE_{name}", value)
    yield service
    service.endpoint.close()


def place_of(service):
    return Place("snowflake://account/D?warehouse=w", lambda sql: service.connection.execute(sql).fetchall())


def test_weeks_are_loaded_in_transactions_that_no_statement_ends_early(weeks, service):
    place = place_of(service)
    for week in range(2):
        folders = weeks(week)
        assert deliver(folders, place.request(), now=now).record.mode == ("changes" if week else "whole")
        assert_same(folders, place)
    assert not deliver(folders, place.request(), now=now).is_new
    # There, a statement that makes or drops a table commits what was done before it.
    units = [unit.partition("\nCOMMIT")[0] for unit in "\n".join(service.said).split("\nBEGIN")]
    loads = [unit for unit in units if "INSERT INTO firmlake._firmlake_loads" in unit]
    assert len(loads) == 2
    assert not re.search(r"^(CREATE|ALTER|DROP)", "\n".join(loads), re.MULTILINE)


def test_what_others_changed_is_put_right_and_a_table_to_drop_is_named(weeks, service):
    place = place_of(service)
    folders = weeks(0)
    deliver(folders, place.request(), now=now)
    place.ask("DELETE FROM firmlake.lookalikes")
    place.ask("DROP TABLE firmlake.runs")
    assert "runs is gone" in deliver(folders, place.request(), now=now).note
    assert_same(folders, place)
    place.ask("ALTER TABLE firmlake.financials ALTER COLUMN revenue TYPE DOUBLE")
    with pytest.raises(FirmlakeError, match="type of a column") as caught:
        deliver(folders, place.request(), now=now)
    assert "Drop firmlake.financials, then load again" in caught.value.next_step
    place.ask("DROP TABLE firmlake.financials")
    deliver(folders, place.request(), now=now)
    assert_same(folders, place)


def test_a_refused_login_is_told_without_the_password(weeks, service):
    service.accepts = "another"
    with pytest.raises(FirmlakeError) as caught:
        deliver(weeks(0), place_of(service).request(), now=now)
    assert "planted-secret" not in str(caught.value)
    assert "SNOWFLAKE_USER" in str(caught.value)
