"""An endpoint that speaks to Google's client for BigQuery and runs its statements on DuckDB."""

from __future__ import annotations

import json
import re
from itertools import count

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from .endpoint import Endpoint
from .targets import Loaded

_KINDS = {"BIGINT": "INTEGER", "TIMESTAMP WITH TIME ZONE": "TIMESTAMP", "VARCHAR": "STRING"}


class RefusedError(Exception):
    """What the service answers with a status other than 200."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Service:
    """Speaks the REST API of BigQuery for one project; as there, no table is made or dropped in a transaction."""

    def __init__(self, folder):
        self.folder, self.said, self.sessions, self.locations, self.comments = folder, [], [], {}, {}
        self.connection = duckdb.connect()
        self.jobs, self.numbers, self.in_transaction, self.accepts = {}, count(1), False, "a-token"
        self.endpoint = Endpoint(self.respond)
        self.url = f"http://127.0.0.1:{self.endpoint.port}"

    def respond(self, method, path, sent, body):
        headers = {}
        try:
            return 200, headers, self.answer(method, path, sent, body, headers)
        except RefusedError as refused:
            error = {"code": refused.status, "message": str(refused), "errors": [{"reason": "invalid"}]}
            return refused.status, headers, {"error": error}

    def answer(self, method, path, sent, body, headers):
        path, _, _ = path.partition("?")
        if path == "/token":
            return {"access_token": "a-token", "expires_in": 3600, "token_type": "Bearer"}
        if sent.get("authorization") != f"Bearer {self.accepts}":
            raise RefusedError(401, "Request is missing required authentication credential.")
        if found := re.search(r"/datasets/(\w+)$", path):
            if found[1] not in self.locations:
                raise RefusedError(404, f"Not found: Dataset p:{found[1]}")
            return self.dataset(found[1])
        if path.endswith("/datasets"):
            asked = json.loads(body)
            self.locations[asked["datasetReference"]["datasetId"]] = asked["location"]
            self.connection.execute(f"CREATE SCHEMA {asked['datasetReference']['datasetId']}")
            return self.dataset(asked["datasetReference"]["datasetId"])
        if path.startswith("/upload/"):
            return self.upload(method, path, body, headers)
        if found := re.search(r"/(queries|jobs)/([\w-]+)$", path):
            job, rows = self.jobs[found[2]]
            return {**rows, "jobComplete": True, "jobReference": job["jobReference"]} if found[1] == "queries" else job
        return self.query(json.loads(body))

    def dataset(self, name):
        return {"datasetReference": {"projectId": "p", "datasetId": name}, "location": self.locations[name]}

    def upload(self, method, path, body, headers):
        """Take the description of a job first, then the file."""
        if method == "POST":
            number = next(self.numbers)
            self.jobs[str(number)] = json.loads(body)
            headers["location"] = f"{self.url}/upload/{number}"
            return {}
        asked = self.jobs.pop(path.rpartition("/")[2])
        how = asked["configuration"]["load"]
        file = self.folder / "loaded.parquet"
        file.write_bytes(body)
        table = how["destinationTable"]
        into = f"{table['datasetId']}.{table['tableId']}"
        assert (how["sourceFormat"], how["createDisposition"]) == ("PARQUET", "CREATE_NEVER")
        self.connection.execute(f"INSERT INTO {into} BY NAME FROM '{file}'")
        return self.done(asked, {})

    def done(self, asked, rows, **statistics):
        job = {
            "jobReference": {"location": "EU", **asked["jobReference"]},
            "configuration": asked["configuration"],
            "status": {"state": "DONE"},
            "statistics": {"query": {"statementType": "SELECT"}, **statistics},
        }
        self.jobs[job["jobReference"]["jobId"]] = (job, rows)
        return job

    def query(self, asked):
        how = asked["configuration"]["query"]
        session = {each["key"]: each["value"] for each in how.get("connectionProperties", [])}.get("session_id")
        if how.get("createSession"):
            session = f"session-{next(self.numbers)}"
            self.sessions.append(session)
        assert session == self.sessions[-1], "a statement outside the session is in no transaction"
        self.said.append(how["query"])
        try:
            rows = self.carry_out(how["query"])
        except (duckdb.Error, sqlglot.ParseError, AssertionError) as error:
            raise RefusedError(400, str(error)) from None
        return self.done(asked, rows, sessionInfo={"sessionId": session})

    def carry_out(self, statement):
        if found := re.fullmatch(r"(BEGIN TRANSACTION|COMMIT|ROLLBACK)", statement):
            self.in_transaction = statement.startswith("BEGIN")
            self.connection.execute(statement)
            return rows([], [])
        if statement.startswith("CALL BQ.ABORT_SESSION"):
            self.sessions.append("")
            return rows([], [])
        if re.match("CREATE|ALTER|DROP", statement) and self.in_transaction:
            raise RefusedError(400, "Transaction control: DDL statements are not supported in a transaction")
        if found := re.search(r"(\w+)\.INFORMATION_SCHEMA\.COLUMNS", statement):
            told = self.connection.execute(
                "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE schema_name = ? ORDER BY ALL",
                [found[1]],
            )
            return rows(told.description, told.fetchall())
        tree = sqlglot.parse_one(statement, "bigquery")
        for column in tree.find_all(exp.Column):
            assert not column.args.get("db"), f"there, a column is not named with its dataset: {column}"
        self.keep_comments(tree)
        told = self.connection.execute(tree.sql("duckdb"))
        return rows(told.description or [], told.fetchall())

    def keep_comments(self, tree):
        """Take the descriptions out of a CREATE TABLE, and count them."""
        if isinstance(tree, exp.Create) and tree.kind == "TABLE":
            said = [each.args["value"].this for each in tree.find_all(exp.Property) if each.name == "description"]
            self.comments[tree.this.this.name] = said
            tree.set("properties", None)
            for column in tree.find_all(exp.ColumnDef):
                kept = [each for each in column.args["constraints"] if not isinstance(each.kind, exp.Properties)]
                column.set("constraints", kept)


def rows(columns, found):
    def cell(value):
        if hasattr(value, "timestamp"):
            return str(round(value.timestamp() * 1e6))
        return None if value is None else str(value)

    fields = [
        {"name": column[0], "type": _KINDS.get(str(column[1]), "STRING"), "mode": "NULLABLE"} for column in columns
    ]
    held = [{"f": [{"v": cell(value)} for value in row]} for row in found]
    return {"schema": {"fields": fields}, "rows": held, "totalRows": str(len(held))}


@pytest.fixture
def bigquery(tmp_path, monkeypatch):
    pytest.importorskip("google.cloud.bigquery")
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    service = Service(tmp_path)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    account = {
        "type": "service_account",
        "project_id": "p",
        "private_key_id": "planted-secret",
        "private_key": pem,
        "client_email": "loader@p.iam.gserviceaccount.com",
        "token_uri": f"{service.url}/token",
    }
    (tmp_path / "key.json").write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
    monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", service.url)
    # Google's library asks another host as well, which no setting turns off.
    asks = "google.oauth2.service_account.Credentials._is_regional_access_boundary_lookup_required"
    monkeypatch.setattr(asks, lambda self: False)
    yield service
    service.endpoint.close()
    assert service.sessions[1::2] == [""] * (len(service.sessions) // 2), "each session is ended"
    service.connection.close()


@pytest.fixture
def in_bigquery(bigquery):
    return loaded_in(bigquery)


def loaded_in(service, address="bigquery://p/firmlake?location=EU"):
    place = Loaded(address, lambda sql: service.connection.execute(sql).fetchall())
    place.comments = lambda: set(service.comments["financials"])
    return place
