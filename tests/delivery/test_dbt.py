"""The dbt package and the sources file: they are those of the schema, and the package runs on what was loaded."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from firmlake.delivery.deliver import Request
from firmlake.delivery.destination import Folder
from firmlake.delivery.scripts import render_sources
from firmlake.delivery.selection import EXPORTED_TABLES
from support import export, query, slow
from warehouse.figures import Figures
from warehouse.test_unit_errors import figures_of, make_world

from .dbt_models import PACKAGE, create_models


def test_the_sources_of_the_package_are_those_of_the_schema():
    render = runpy.run_path(str(PACKAGE.parent / "docs" / "make_dbt.py"))["render"]
    assert (PACKAGE / "models" / "sources.yml").read_text("utf-8") == render(), "docs/make_dbt.py"


UNITS = "country || ' ' || company_number AS company, start_date, presumed_unit::DOUBLE FROM unit_errors"
GROWTH = "country || ' ' || company_number AS company, revenue_growth FROM portfolio"


@pytest.mark.parametrize("seed", [1, *slow(2, 3)])
@pytest.mark.slow
def test_accounts_in_another_unit_and_growth_are_those_of_our_warehouse(seed):
    figures = figures_of(make_world(seed)[0])
    figures.connection.execute("CREATE SCHEMA marts")
    for statement in create_models("marts", "main"):
        figures.connection.execute(statement)
    units = figures.ask("SELECT company, start_date, presumed_unit::DOUBLE FROM marts.stg_unit_errors ORDER BY ALL")
    assert units == figures.ask(f"SELECT {UNITS} ORDER BY ALL")
    growth = figures.ask("SELECT company, revenue_growth FROM marts.company_accounts WHERE accounts_to IS NOT NULL")
    assert sorted(growth) == sorted(figures.ask(f"SELECT {GROWTH}"))
    assert len(units) > 200


@pytest.mark.slow
def test_the_greatest_figures_that_tables_hold_have_a_growth():
    figures = Figures()
    figures.files_extremes()
    figures.made().connection.execute("CREATE SCHEMA marts")
    for statement in create_models("marts", "main"):
        figures.connection.execute(statement)
    assert len(figures.ask("FROM marts.company_accounts")) == 8


@pytest.mark.slow
def test_postgresql_finds_the_same_accounts_in_another_unit(weeks, server, on_server, tmp_path):
    import psycopg

    place, figures = on_server, figures_of(make_world(1)[0])
    place.deliver(weeks(0), tables=EXPORTED_TABLES)  # which makes the tables
    with psycopg.connect(server.url, autocommit=True) as connection:
        for table in ("companies", "financials", "relationships"):
            connection.execute(f"TRUNCATE {place.schema}.{table}")
        for table in ("companies", "financials"):
            rows = f"SELECT * REPLACE (coalesce(valid_from_run, run_id) AS valid_from_run) FROM {table}"
            figures.connection.execute(f"COPY ({rows}) TO '{tmp_path}/{table}.csv' (HEADER)")
            columns = (tmp_path / f"{table}.csv").read_text().partition("\n")[0]
            into = f"COPY {place.schema}.{table} ({columns}) FROM STDIN (FORMAT csv, HEADER)"
            with connection.cursor().copy(into) as copy:
                copy.write((tmp_path / f"{table}.csv").read_bytes())
        connection.execute("CREATE SCHEMA marts")
        for statement in create_models("marts", place.schema):
            connection.execute(statement)
    units = "SELECT company, start_date, presumed_unit::double precision FROM marts.stg_unit_errors"
    assert sorted(place.ask(units)) == sorted(figures.ask(f"SELECT {UNITS}"))
    growth = "SELECT company, revenue_growth::double precision FROM marts.company_accounts"
    ours = dict(figures.ask(f"SELECT {GROWTH}"))
    assert dict(place.ask(growth)) == pytest.approx(ours, abs=1e-6)


def output_of(place):
    if place.address.startswith("duckdb:"):
        return {"type": "duckdb", "path": place.address.removeprefix("duckdb:"), "schema": "marts", "threads": 1}
    (host,) = parse_qs(urlsplit(place.address).query)["host"]
    login = {"host": host, "user": "postgres", "password": "", "port": 5432, "dbname": "postgres"}
    return {"type": "postgres", **login, "schema": f"marts_{place.schema}", "threads": 1}


@pytest.mark.slow
@pytest.mark.parametrize("fixture", ["file", "on_server"])
def test_the_package_runs_on_what_was_loaded(weeks, fixture, request, tmp_path):
    place = request.getfixturevalue(fixture)
    program = os.environ.get("DBT_PROGRAM") or shutil.which("dbt")
    if program is None:
        pytest.skip("DBT_PROGRAM=.../bin/dbt, with dbt-duckdb and dbt-postgres in an environment of its own")
    folders = weeks(0)
    place.deliver(folders, tables=EXPORTED_TABLES)
    project, output = tmp_path / "dbt", output_of(place)
    shutil.copytree(PACKAGE, project)
    (project / "profiles.yml").write_text(json.dumps({"firmlake": {"target": "test", "outputs": {"test": output}}}))
    command = [program, "build", "--project-dir", str(project), "--profiles-dir", str(project)]
    variables = json.dumps({"firmlake_schema": place.schema})
    done = subprocess.run([*command, "--vars", variables], capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    results = json.loads((project / "target" / "run_results.json").read_text())["results"]
    assert {each["status"] for each in results} <= {"success", "pass", "no-op"}  # nothing is to be done for an exposure
    mart = f"{output['schema']}.company_accounts"
    theirs = place.ask(f"SELECT company, accounts_to, revenue, parent_count FROM {mart} ORDER BY company")
    ours = query(
        folders,
        """
        SELECT c.country || ' ' || c.company_number, end_date, revenue, (
            SELECT count(*) FROM relationships r
            WHERE direction = 'parent' AND (r.country, r.company_number) = (c.country, c.company_number)
        ) FROM companies c LEFT JOIN (FROM accounts WHERE recency = 1) USING (country, company_number) ORDER BY 1
        """,
    )
    assert theirs == ours


@pytest.mark.slow
def test_the_sources_file_says_what_the_export_holds(lake, tmp_path):
    """`dbt/models/sources.yml` is made in the same way, and says how tests and freshness look."""
    manifest = export(lake, Request(), Folder(tmp_path)).record
    [source] = yaml.safe_load(render_sources(manifest))["sources"]
    tables = {table["name"]: {column["name"]: column for column in table["columns"]} for table in source["tables"]}
    for table in manifest.tables:
        for column in table.columns:
            found = tables[table.name][column.name]
            assert found["description"] == column.comment
            assert found.get("config", {}).get("meta", {}).get("privacy", "") == column.privacy
            assert ("not_null" in found.get("data_tests", [])) is not column.nullable
    assert "unique" in tables["runs"]["run_id"]["data_tests"]
