"""What only one kind of database does: files, servers, sessions; `test_conformance` has what holds for every target."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from firmlake.core.errors import FirmlakeError, UsageError
from firmlake.delivery.deliver import Request, deliver
from firmlake.delivery.drivers import open_database
from support import ACME

from .bigquery import RefusedError, loaded_in
from .targets import now


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("oracle://x/y", "."),
        ("postgres://u:planted-secret@h/d", "password"),
        ("postgres://h/d?password=planted-secret", "password"),
        ("postgres://h/d?sslpassword=planted-secret", "password"),
        ("postgres://h:x/d", "."),
        # By this name `forget` finds the copy again, and two servers on one machine keep a record each.
        ("postgres://127.0.0.1:1/d", r"postgres://127\.0\.0\.1:1/d"),
        ("duckdb:/nowhere/at/all.duckdb", "does not exist"),
    ],
)
def test_a_target_that_cannot_be_used_is_refused_without_showing_a_secret(weeks, address, says):
    with pytest.raises(FirmlakeError, match=says) as caught:
        deliver(weeks(0), Request(target=address), now=now)
    assert "planted-secret" not in str(caught.value)
    assert caught.value.next_step


# --- a DuckDB file ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [None, 0o600, 0o640])
@pytest.mark.parametrize("is_rewritten", [False, True])
def test_files_of_a_load_are_as_private_as_the_database_and_a_new_one_is_its_owners_alone(tmp_path, mode, is_rewritten):
    """They hold names of persons."""
    path = tmp_path / "out.duckdb"
    before = os.umask(0o022)
    try:
        if mode:
            with open_database(f"duckdb:{path}", "main", "100MB"):
                pass
            path.chmod(mode)
        with open_database(f"duckdb:{path}", "main", "100MB") as opened:
            opened.run("CREATE TABLE t AS SELECT 1 AS n")
            modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
            opened.is_to_rewrite = is_rewritten
        assert modes == dict.fromkeys(("out.duckdb", "out.duckdb.wal"), mode or 0o600)
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
        assert modes == {"out.duckdb": mode or 0o600}
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


@pytest.mark.parametrize("name", ["list.csv", "list.json", "list.txt", "list.db", "warehouse.duckdb", ":memory:"])
def test_what_is_no_database_or_in_use_is_refused_without_a_download(tmp_path, name):
    """DuckDB opens a data file as a view in memory, where a load would be lost, and fetches what opens SQLite."""
    path = Path(name) if name == ":memory:" else tmp_path / name
    if name in ("list.csv", "list.json", "list.txt"):
        path.write_text('[{"a": 1}]\n' if name.endswith("json") else "a,b\n1,2\n")
    elif name == "list.db":
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE t (a)")
    duckdb.connect(tmp_path / "warehouse.duckdb").close()
    refused = pytest.raises(FirmlakeError, match=r"(not a .*DuckDB database|cannot be opened).*Name another file")
    with (
        duckdb.connect(tmp_path / "warehouse.duckdb", read_only=True),
        refused as caught,
        open_database(f"duckdb:{path}", "main", "100MB"),
    ):
        pass
    assert "download" not in str(caught.value)


# --- PostgreSQL: what it refuses because of objects that others made is told with a next step that mends it -----------


@pytest.mark.slow
def test_a_foreign_key_that_rejects_a_load_is_to_be_dropped(weeks, on_server):
    on_server.deliver(weeks(0))
    on_server.ask("ALTER TABLE firmlake.companies ADD UNIQUE (country, company_number)")
    on_server.ask(
        "CREATE TABLE firmlake.ours AS SELECT country, company_number FROM firmlake.companies "
        f"WHERE company_number = '{ACME.company_number}'"
    )
    on_server.ask(
        "ALTER TABLE firmlake.ours ADD CONSTRAINT theirs FOREIGN KEY (country, company_number) "
        "REFERENCES firmlake.companies (country, company_number)"
    )
    folders = weeks(1)
    with pytest.raises(FirmlakeError, match="theirs") as caught:
        on_server.deliver(folders)
    assert "resume" not in caught.value.next_step
    on_server.ask("ALTER TABLE firmlake.ours DROP CONSTRAINT theirs")
    on_server.deliver(folders)
    on_server.assert_holds(folders)


@pytest.mark.slow
def test_views_on_a_table_that_must_be_made_again_are_to_be_dropped(weeks, on_server):
    folders = weeks(0)
    on_server.deliver(folders)
    on_server.ask("ALTER TABLE firmlake.financials ALTER COLUMN revenue TYPE double precision")
    on_server.ask("CREATE VIEW firmlake.ours AS SELECT revenue FROM firmlake.financials")
    with pytest.raises(FirmlakeError, match="depend on it") as caught:
        on_server.deliver(folders)
    assert "Drop them" in caught.value.next_step
    on_server.ask("DROP VIEW firmlake.ours")
    on_server.deliver(folders)
    on_server.assert_holds(folders)


# --- Snowflake and BigQuery, up to what their clients send -----------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("fixture", "service"), [("in_snowflake", "snowflake"), ("in_bigquery", "bigquery")])
def test_a_login_that_is_refused_is_told_without_the_secret(weeks, fixture, service, request, monkeypatch):
    place = request.getfixturevalue(fixture)
    monkeypatch.setattr(request.getfixturevalue(service), "accepts", "another")
    with pytest.raises(FirmlakeError, match=r"SNOWFLAKE_USER|GOOGLE_APPLICATION_CREDENTIALS") as caught:
        place.deliver(weeks(0))
    assert "planted-secret" not in str(caught.value)


@pytest.mark.slow
def test_bigquery_makes_its_dataset_where_the_address_says_and_takes_any_text(bigquery, in_bigquery):
    awkward = "it's \\ a \"path\"\nand 'more'"
    with in_bigquery.open() as opened:
        assert opened.run(f"SELECT {opened.dialect.literal(awkward)} AS a") == [(awkward,)]
    assert bigquery.locations == {"firmlake": "EU"}


@pytest.mark.slow
def test_an_error_within_the_transaction_of_bigquery_rolls_it_back(weeks, bigquery, in_bigquery, monkeypatch):
    in_bigquery.deliver(weeks(0))
    carry_out, folders = bigquery.carry_out, weeks(1)

    def fail(statement):
        if statement.startswith("INSERT INTO firmlake._firmlake_loads"):
            raise RefusedError(400, "Transaction is aborted due to concurrent update")
        return carry_out(statement)

    with monkeypatch.context() as patched:
        patched.setattr(bigquery, "carry_out", fail)
        with pytest.raises(FirmlakeError, match="concurrent update"):
            in_bigquery.deliver(folders)
    assert "ROLLBACK" in bigquery.said
    assert in_bigquery.ask("SELECT max(generation) FROM firmlake._firmlake_loads") == [(1,)]
    assert in_bigquery.deliver(folders).is_new
    in_bigquery.assert_holds(folders)


@pytest.mark.slow
def test_a_dataset_to_create_needs_a_location(weeks, bigquery):
    for address, says in (("bigquery://p/firmlake", "no location"), ("bigquery://p/fir-mlake", "invalid")):
        with pytest.raises(UsageError, match=says):
            loaded_in(bigquery, address).deliver(weeks(0))
