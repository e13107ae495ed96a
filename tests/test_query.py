"""`firmlake query`: an answer fits the screen, or comes in the format that is asked for; a list restricts it."""

from __future__ import annotations

import csv
import io
import json
import shlex
import subprocess
import sys
from datetime import datetime

import openpyxl
import polars as pl
import pytest
from click.testing import CliRunner

from firmlake.cli import firmlake
from firmlake.report.status import read_status
from firmlake.terminal.results import show_result
from firmlake.warehouse.generations import open_warehouse
from support import ACME, BOLT, CIRC, publish_list, with_views

WIDE = "SELECT " + ", ".join(f"'{'x' * 20}{n}' AS column_{n}" for n in range(12))


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    from firmlake.core.folders import Folders

    folders = Folders(tmp_path_factory.mktemp("lake") / "data")
    publish_list(folders, [ACME, BOLT], name="customers")
    publish_list(folders, [CIRC], day=1, name="others")
    with_views(folders)
    return folders


def run(lake, *arguments):
    return CliRunner().invoke(firmlake, [*arguments, "--data", str(lake.data)], standalone_mode=False)


def test_a_row_too_wide_for_the_screen_is_shown_one_value_below_the_other(lake):
    lines = run(lake, "query", WIDE).stdout.splitlines()
    assert lines[0].split() == ["column_0", "x" * 20 + "0"]
    assert len(lines) == 13


def test_many_wide_rows_are_cut_to_what_fits_and_say_so(lake):
    text = run(lake, "query", f"{WIDE} FROM range(9)").stdout
    assert max(map(len, text.splitlines())) <= 120
    assert "column_11" in text
    assert "--format csv" in text


def test_a_narrow_answer_is_a_table(lake):
    assert "│ 1 │" in run(lake, "query", "SELECT 1 AS a").stdout


def test_each_format_gives_the_same_rows(lake, tmp_path):
    sql = "SELECT 12.50::DECIMAL(9,2) AS amount, '=1|2' AS text, NULL AS nothing"
    assert list(csv.DictReader(io.StringIO(run(lake, "query", sql, "--format", "csv").stdout))) == [
        {"amount": "12.50", "text": "'=1|2", "nothing": ""}
    ]
    expected = [{"amount": "12.50", "text": "=1|2", "nothing": None}]
    assert json.loads(run(lake, "query", sql, "--format", "json").stdout) == expected
    assert json.loads(run(lake, "query", sql, "--json").stdout) == expected
    assert run(lake, "query", sql, "--format", "markdown").stdout.splitlines()[2] == "| 12.50 | =1\\|2 |  |"
    for name in ("out.parquet", "out.csv", "out.json", "out.md", "out.xlsx"):
        assert run(lake, "query", sql, "--out", str(tmp_path / name)).return_value == 0
    assert pl.read_parquet(tmp_path / "out.parquet")["text"].to_list() == ["=1|2"]
    assert json.loads((tmp_path / "out.json").read_text()) == expected


def test_a_workbook_has_the_numbers_and_formats_of_its_columns_and_runs_no_formula(lake, tmp_path):
    sql = """
        SELECT 1234567.50::DECIMAL(18,2) AS revenue, 2024 AS year, 12 AS count, '=1+1' AS text, '0403' AS number,
            DATE '2026-01-05' AS day, TIMESTAMP '2026-01-05 10:30:00' AS moment, true AS truth, NULL AS nothing,
            12345678901234567890::HUGEINT AS long, [1, 2] AS list, 'nan'::DOUBLE AS odd, DATE '1850-01-01' AS old,
            TIMESTAMPTZ '2026-01-05 10:30:00+00' AS instant, 0.25 AS revenue_growth, 'a' || chr(0) AS nul
    """
    path = tmp_path / "out.xlsx"
    assert run(lake, "query", sql, "--out", str(path)).return_value == 0
    with path.open("rb") as file:
        header, cells = openpyxl.load_workbook(file).active.iter_rows()
    cell = dict(zip((each.value for each in header), cells, strict=True))
    shown = {name: (each.value, each.number_format) for name, each in cell.items()}
    assert shown["revenue"] == (1234567.5, "#,##0.00")
    assert (shown["year"], shown["count"]) == ((2024, "0"), (12, "#,##0"))
    assert (cell["text"].value, cell["text"].data_type, cell["text"].quotePrefix) == ("=1+1", "s", True)
    assert (cell["number"].value, cell["number"].data_type) == ("0403", "s")
    assert shown["day"] == (datetime(2026, 1, 5), "yyyy-mm-dd")
    assert shown["moment"] == shown["instant"] == (datetime(2026, 1, 5, 10, 30), "yyyy-mm-dd hh:mm")
    assert shown["revenue_growth"] == (0.25, "0.0%")
    texts = {"long": "12345678901234567890", "list": "[1, 2]", "odd": "nan", "old": "1850-01-01", "nul": "a\ufffd"}
    assert {name: cell[name].value for name in texts} == texts
    assert (cell["truth"].value, cell["nothing"].value) == (True, None)


def test_more_rows_than_a_sheet_holds_continue_in_the_next_one(lake, tmp_path, monkeypatch):
    monkeypatch.setattr("firmlake.delivery.list_workbook.SHEET_ROWS", 3)
    path = tmp_path / "numbers.xlsx"
    assert run(lake, "query", "FROM range(7)", "--out", str(path)).return_value == 0
    with path.open("rb") as file:
        sheets = openpyxl.load_workbook(file).worksheets
    assert [sheet.title for sheet in sheets] == ["numbers", "numbers 2", "numbers 3"]
    assert [row[0] for sheet in sheets for row in sheet.iter_rows(min_row=2, values_only=True)] == list(range(7))


@pytest.mark.parametrize("sql", ["SELECT error('planted') FROM range(3)", "SELECT nothing FROM companies"])
@pytest.mark.parametrize("ending", ["xlsx", "csv", "parquet"])
def test_a_query_that_fails_leaves_the_file_as_it_was(lake, tmp_path, ending, sql):
    path = tmp_path / f"out.{ending}"
    path.write_text("before")
    assert run(lake, "query", sql, "--out", str(path)).return_value == 2
    assert [path.name, path.read_text()] == [*(each.name for each in tmp_path.iterdir()), "before"]


def test_a_list_restricts_tables_views_and_macros(lake):
    with open_warehouse(lake, company_list="others") as connection:
        for relation in ("companies", "company_state", "company_status", "company_figures", "coverage"):
            found = connection.execute(f"SELECT DISTINCT company_number FROM {relation}").fetchall()
            assert found == [(CIRC[1],)], relation
        assert connection.execute("SELECT count(*) FROM list_lines").fetchall() == [(3,)]
    assert read_status(lake, "customers").companies["financials"] == {"waiting": 2}
    assert read_status(lake).companies["financials"] == {"waiting": 3}


@pytest.mark.parametrize(
    ("section", "header"),
    [
        ("report/findings", "severity,check,found,what"),
        ("report/the_next_four_weeks", "day,part,count"),
        (f"company/records {BOLT}", "accounts_to,accounts_from,received"),
    ],
)
def test_a_section_of_a_page_is_asked_for_by_its_name(lake, section, header):
    assert run(lake, "query", section, "--format", "csv").output.startswith(header)


def test_an_export_of_a_list_holds_its_companies_alone(lake, tmp_path):
    done = run(lake, "export", str(tmp_path / "lake"), "--list", "customers", "--format", "csv", "--table", "companies")
    assert done.return_value == 0, done.stderr
    (file,) = (tmp_path / "lake").rglob("companies.csv")
    assert {row["company_number"] for row in csv.DictReader(io.StringIO(file.read_text()))} == {ACME[1], BOLT[1]}
    assert not (tmp_path / "lake" / "latest.json").exists()


def test_a_data_folder_that_is_a_file_is_refused(tmp_path):
    path = tmp_path / "file"
    path.write_text("x")
    done = CliRunner().invoke(firmlake, ["status", "--data", str(path)], standalone_mode=False)
    assert done.return_value == 2
    assert "is not a folder" in done.stderr


def test_a_usage_error_of_click_is_json_too():
    done = subprocess.run(
        [sys.executable, "-m", "firmlake", "run", "--json", "--nonsense"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "--nonsense" in json.loads(done.stdout)["error"]


def test_a_port_that_cannot_be_is_one_line():
    done = subprocess.run(
        [sys.executable, "-m", "firmlake", "sandbox", "--port", "99999"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_the_demo_needs_no_clone(tmp_path, monkeypatch):
    from firmlake.core.settings_layers import find_sample

    here = find_sample().read_bytes()
    monkeypatch.chdir(tmp_path)
    assert find_sample().read_bytes() == here


@pytest.mark.parametrize(("command", "name"), [(["query", "SELECT 1"], "x.pdf"), (["changes"], "x.xlsx")])
def test_a_format_that_a_file_cannot_have_is_a_usage_error(lake, command, name):
    done = run(lake, *command, "--out", name)
    assert (done.return_value, f"--out {name}: unknown file extension" in done.stderr) == (2, True)


MISTAKES = {
    **{f"query {sql}": ["The SQL is empty"] for sql in ("''", "';'", "-- '-- nothing'", "' ;; '")},
    **{f"query 'SELECT 1' --format {kind}": ["is binary", "--out FILE"] for kind in ("parquet", "xlsx")},
    "query 'SELECT 1' --held": ["No generation is held back"],
    "export lake --format xlsx": ["`firmlake query SQL --out FILE.xlsx"],
    "query report/finding": ["Did you mean report/findings"],
    "query company/": ["company/owners"],
    "query company/owners": ["is about one company"],
    f"query 'report/findings {BOLT}'": ["is about all companies"],
    **{f"{command} --list custmers": ["Did you mean 'customers'"]
       for command in ("query 'SELECT 1'", "status", "changes", "report", "export x")},
    "query 'SELECT nam FROM companies'": ['Candidate bindings: "name"', "`DESCRIBE` lists the tables"],
    "query 'SELECT sum(name) FROM companies'": ["Candidate functions: sum(", "`DESCRIBE` lists the tables"],
    "query 'FROM lists.nope'": ["Table with name nope does not exist", "`firmlake list show"],
}  # fmt: skip
"""What is typed, and what the line that follows names."""


@pytest.mark.parametrize("typed", MISTAKES)
def test_a_mistake_is_explained_on_one_line_with_exit_code_2(lake, typed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command, *arguments = shlex.split(typed)
    done = CliRunner().invoke(firmlake, [command, "--data", str(lake.data), *arguments], standalone_mode=False)
    told = CliRunner().invoke(
        firmlake, [command, "--json", "--data", str(lake.data), *arguments], standalone_mode=False
    )
    content = json.loads(told.stdout)
    assert (done.return_value, content["exit_code"], list(tmp_path.iterdir())) == (2, 2, [])
    for message in (done.stderr.strip(), f"{content['error']}. {content['next_step']}"):
        assert all(part in message for part in MISTAKES[typed]), message
        assert not [sign for sign in ("\n", "\\x", "^", "LINE 1") if sign in message]


def test_a_large_result_is_written_whole(lake, tmp_path):
    sql = "SELECT i AS n, NULL AS nothing FROM range(2500) r(i)"
    text = run(lake, "query", sql).stdout
    assert [line.split()[1] for line in text.splitlines()[1:-1]] == [f"{number:,}" for number in range(2500)]
    assert text.endswith("2,500 rows\n")
    assert [row["n"] for row in json.loads(run(lake, "query", sql, "--json").stdout)] == list(range(2500))
    assert run(lake, "query", sql, "--out", str(tmp_path / "n.csv")).return_value == 0
    assert len((tmp_path / "n.csv").read_text().splitlines()) == 2501


def test_a_person_sees_the_first_rows_of_a_large_result_and_their_number(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show_result(["n"], ((number,) for number in range(2500)))
    out = capsys.readouterr().out
    assert ("│ 49 │" in out, "│ 50 │" in out, "2,500 rows" in out) == (True, False, True)


def test_years_and_ids_are_shown_without_thousands_separators(capsys: pytest.CaptureFixture[str]):
    show_result(["fiscal_year", "list_id", "employee_count"], [(2024, 12345, 12345)])
    assert {"2024", "12345", "12,345"} <= set(capsys.readouterr().out.split())


def test_a_cell_with_a_carriage_return_stays_one_cell_in_csv():
    from firmlake.terminal.results import as_csv

    assert "".join(as_csv(["a", "b"], [("ACME\r=1+1", "x\ny"), ("z", None)])) == 'a,b\n"ACME\r=1+1","x\ny"\nz,\n'
