"""Output: an answer fits the screen or comes in the format that is asked for, and one place prints, harmlessly."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import sys
from datetime import datetime
from pathlib import Path

import openpyxl
import polars as pl
import pytest

from firmlake.report.status import read_status
from firmlake.terminal.echo import echo, echo_data, echo_json, repeating
from firmlake.terminal.results import as_csv, show_result
from firmlake.terminal.rows import first_rows, show_long_table, show_table
from firmlake.warehouse.generations import open_warehouse
from lake import Lake
from support import ACME, BOLT, CIRC, publish_two_lists

PACKAGE = Path(__file__).parents[2] / "src/firmlake"
EVIL = "\x1b]0;title\x1b\\\x1b[31m\u202egnp.exe\u200f\x9b2J"
WIDE = "SELECT " + ", ".join(f"'{'x' * 20}{n}' AS column_{n}" for n in range(12))


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A data folder with two lists, to which nobody writes."""
    lake = Lake(tmp_path_factory.mktemp("lake"))
    publish_two_lists(lake.folders)
    return lake


def ask(lake, sql, *options):
    done = lake.call("query", sql, *options)
    assert done.code == 0, done.err
    return done.out


# --- queries ---------------------------------------------------------------------------------------------------------


def test_an_answer_fits_the_screen(lake):
    assert "│ 1 │ yes │" in ask(lake, "SELECT 1 AS a, true AS b")
    lines = ask(lake, WIDE).splitlines()
    assert lines[0].split() == ["column_0", "x" * 20 + "0"]
    assert len(lines) == 13, "one value below the other"
    text = ask(lake, f"{WIDE} FROM range(9)")
    assert max(map(len, text.splitlines())) <= 120
    assert "column_11" in text
    assert "--format csv" in text, "many wide rows are cut, and say so"


def test_each_format_gives_the_same_rows(lake, tmp_path):
    sql = "SELECT 12.50::DECIMAL(9,2) AS amount, '=1|2' AS text, NULL AS nothing"
    rows = list(csv.DictReader(io.StringIO(ask(lake, sql, "--format", "csv"))))
    assert rows == [{"amount": "12.50", "text": "'=1|2", "nothing": ""}]
    expected = [{"amount": "12.50", "text": "=1|2", "nothing": None}]
    assert json.loads(ask(lake, sql, "--format", "json")) == json.loads(ask(lake, sql, "--json")) == expected
    assert ask(lake, sql, "--format", "markdown").splitlines()[2] == "| 12.50 | =1\\|2 |  |"
    for ending in ("parquet", "csv", "json", "md", "xlsx"):
        ask(lake, sql, "--out", str(tmp_path / f"out.{ending}"))
    assert pl.read_parquet(tmp_path / "out.parquet")["text"].to_list() == ["=1|2"]
    assert json.loads((tmp_path / "out.json").read_text()) == expected
    assert "".join(as_csv(["a", "b"], [("ACME\r=1+1", "x\ny"), ("z", None)])) == 'a,b\n"ACME\r=1+1","x\ny"\nz,\n'


def test_a_workbook_has_the_numbers_and_formats_of_its_columns_and_runs_no_formula(lake, tmp_path, monkeypatch):
    sql = """
        SELECT 1234567.50::DECIMAL(18,2) AS revenue, 2024 AS year, 12 AS count, '=1+1' AS text, '0403' AS number,
            DATE '2026-01-05' AS day, TIMESTAMP '2026-01-05 10:30:00' AS moment, true AS truth, NULL AS nothing,
            12345678901234567890::HUGEINT AS long, [1, 2] AS list, 'nan'::DOUBLE AS odd, DATE '1850-01-01' AS old,
            TIMESTAMPTZ '2026-01-05 10:30:00+00' AS instant, 0.25 AS revenue_growth, 'a' || chr(0) AS nul
    """
    ask(lake, sql, "--out", str(tmp_path / "out.xlsx"))
    with (tmp_path / "out.xlsx").open("rb") as file:
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
    monkeypatch.setattr("firmlake.delivery.list_workbook.SHEET_ROWS", 3)
    ask(lake, "FROM range(7)", "--out", str(tmp_path / "numbers.xlsx"))
    with (tmp_path / "numbers.xlsx").open("rb") as file:
        sheets = openpyxl.load_workbook(file).worksheets
    assert [sheet.title for sheet in sheets] == ["numbers", "numbers 2", "numbers 3"]
    assert [row[0] for sheet in sheets for row in sheet.iter_rows(min_row=2, values_only=True)] == list(range(7))


@pytest.mark.parametrize("sql", ["SELECT error('planted') FROM range(3)", "SELECT nothing FROM companies"])
@pytest.mark.parametrize("ending", ["xlsx", "csv", "parquet"])
def test_a_query_that_fails_leaves_the_file_as_it_was(lake, tmp_path, ending, sql):
    path = tmp_path / f"out.{ending}"
    path.write_text("before")
    assert lake.call("query", sql, "--out", str(path)).code == 2
    assert [path.name, path.read_text()] == [*(each.name for each in tmp_path.iterdir()), "before"]


@pytest.mark.slow
def test_a_list_restricts_tables_views_macros_and_exports(lake, tmp_path):
    with open_warehouse(lake.folders, company_list="others") as connection:
        for relation in ("companies", "company_state", "company_status", "company_figures", "coverage"):
            found = connection.execute(f"SELECT DISTINCT company_number FROM {relation}").fetchall()
            assert found == [(CIRC[1],)], relation
        assert connection.execute("SELECT count(*) FROM list_lines").fetchall() == [(3,)]
    assert read_status(lake.folders, "customers").companies["financials"] == {"waiting": 2}
    assert read_status(lake.folders).companies["financials"] == {"waiting": 3}
    target = tmp_path / "lake"
    done = lake.call("export", str(target), "--list", "customers", "--format", "csv", "--table", "companies")
    assert done.code == 0, done.err
    (file,) = target.rglob("companies.csv")
    assert {row["company_number"] for row in csv.DictReader(io.StringIO(file.read_text()))} == {ACME[1], BOLT[1]}
    assert not (target / "latest.json").exists()


def test_lists_are_shown_without_the_way_to_a_first_one(lake):
    shown = lake.call("list", "show").out
    assert ("customers" in shown, "others" in shown, "No list" in shown) == (True, True, False)


def test_a_section_of_a_page_is_asked_for_by_its_name(lake):
    for section, header in (
        ("report/findings", "severity,check,found,what"),
        ("report/the_next_four_weeks", "day,part,count"),
        (f"company/records {BOLT}", "accounts_to,accounts_from,received"),
    ):
        assert ask(lake, section, "--format", "csv").startswith(header)


@pytest.mark.slow
def test_a_large_result_is_written_whole(lake, tmp_path):
    sql = "SELECT i AS n, NULL AS nothing FROM range(2500) r(i)"
    text = ask(lake, sql)
    assert [line.split()[1] for line in text.splitlines()[1:-1]] == [f"{number:,}" for number in range(2500)]
    assert text.endswith("2,500 rows\n")
    assert [row["n"] for row in json.loads(ask(lake, sql, "--json"))] == list(range(2500))
    ask(lake, sql, "--out", str(tmp_path / "n.csv"))
    assert len((tmp_path / "n.csv").read_text().splitlines()) == 2501


# --- tables ----------------------------------------------------------------------------------------------------------


def test_a_person_sees_the_first_rows_of_a_large_result_and_their_number(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show_result(["n"], ((number,) for number in range(2500)))
    out = capsys.readouterr().out
    assert ("│ 49 │" in out, "│ 50 │" in out, "2,500 rows" in out) == (True, False, True)


def test_years_and_ids_are_shown_without_thousands_separators(capsys):
    show_result(["fiscal_year", "list_id", "employee_count"], [(2024, 12345, 12345)])
    assert {"2024", "12345", "12,345"} <= set(capsys.readouterr().out.split())


@pytest.mark.parametrize(("long_count", "shown"), [(1, 107), (2, 52), (5, 24)])
def test_cells_are_cut_only_as_far_as_the_screen_asks(long_count, shown, capsys):
    show_result(["number", *"abcde"[:long_count]], [(number, *["x" * 200] * long_count) for number in range(4)])
    lines = [line for line in capsys.readouterr().out.splitlines() if "x" in line]
    assert {line.count("x") + line.count("…") for line in lines} == {shown * min(long_count, 4)}
    assert max(map(len, lines)) <= 120


def test_a_fraction_is_shown_without_the_noise_of_its_last_digit(capsys):
    show_result(["n"], [(0.1 + 0.2,), (1 / 3,), (123456789012.34,)])
    shown = set(capsys.readouterr().out.split())
    assert {"0.3", "0.333333333333333", "123,456,789,012.34"} <= shown


def test_every_row_of_a_long_table_is_a_line_whatever_is_in_it_printed_before_the_last_row_is_read(capsys):
    rows = [[number, "a\nb\x1b[31m" if number == 1500 else None] for number in range(3000)]
    show_long_table(["number", "text"], iter(rows))
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["│", "number", "│", "text", "│"]
    assert [line.split()[1] for line in lines] == [f"{number:,}" for number in range(3000)]
    assert "a\\x0ab\\x1b[31m" in lines[1500]

    def rows():
        yield from itertools.repeat(["x"], 5000)
        assert capsys.readouterr().out.count("x") > 2000
        yield ["y"]

    assert show_long_table(["letter"], rows()) == 5001


def test_a_table_that_is_cut_says_of_how_many_rows():
    rows = [(number,) for number in range(30)]
    assert first_rows(20, ["number"], rows, "lines") == (["number"], rows[:20], "lines, the first 20 of 30", True)
    assert first_rows(20, ["number"], rows[:20], "lines", 4000).title == "lines, the first 20 of 4,000"
    assert first_rows(30, ["number"], rows, "lines").title == "lines"


# --- one place prints ------------------------------------------------------------------------------------------------


def is_harmless(text):
    return all(character.isprintable() or character == "\n" for character in text)


def test_names_and_columns_of_a_table_and_json_are_spelled_out(capsys):
    show_table([EVIL], [[EVIL], ["Café\u00a0de la Gare"]], EVIL)
    shown = capsys.readouterr().out
    assert is_harmless(shown)
    assert "Café de la Gare" in shown
    echo_json({EVIL: f"{EVIL} \U000e0001 é 会社"})
    shown = capsys.readouterr().out
    assert is_harmless(shown)
    assert "é 会社" in shown
    assert json.loads(shown) == {EVIL: f"{EVIL} \U000e0001 é 会社"}


def test_data_for_a_program_stay_as_they_are_and_a_terminal_gets_them_spelled_out(capsys, monkeypatch):
    for is_terminal, data, shown in (
        (False, f"{EVIL}\n", f"{EVIL}\n"),
        (False, "a,b\r\n1,2\r\n", "a,b\r\n1,2\r\n"),
        (True, "a,b\r\n1,\r2\r\n", "a,b\n1,\\x0d2\n"),
    ):
        monkeypatch.setattr("sys.stdout.isatty", lambda is_terminal=is_terminal: is_terminal)
        echo_data(data)
        assert capsys.readouterr().out == shown
    echo_data(f"{EVIL}\n")
    assert is_harmless(capsys.readouterr().out)


def test_one_place_prints():
    """Everything else goes through it; a table of rich's is cleaned where it is filled."""
    printing = re.compile(r"(?<![\w.\"'`])(?:print|click\.s?echo|sys\.std(?:out|err)\.write)\(")
    allowed = {
        "__init__.py": {"print("},  # examples in its docstring
        "terminal/echo.py": {"click.echo(", "click.secho(", "sys.stdout.write("},
        "intake/source.py": {"sys.stderr.write("},  # to the process that started it
        "enrich/shards.py": {"sys.stderr.write("},  # a text of our own, just before it ends a process that hangs
    }
    found = {str(path.relative_to(PACKAGE)): set(printing.findall(path.read_text())) for path in PACKAGE.rglob("*.py")}
    assert {name: prints for name, prints in found.items() if prints - allowed.get(name, set())} == {}
    assert found["terminal/echo.py"], "the search finds what it looks for"


GIVEN = "--config client.toml --data 'clients/a b'"
MESSAGES = {
    "Run `firmlake replay`, then go on": f"Run `firmlake replay {GIVEN}`, then go on",
    "`firmlake run L --config x.toml`": "`firmlake run L --config x.toml --data 'clients/a b'`",
    '`firmlake query "FROM runs"` or `run`': f'`firmlake query "FROM runs" {GIVEN}` or `run`',
    "Try `firmlake demo` and `firmlake sandbox --help`": "Try `firmlake demo` and `firmlake sandbox --help`",
    "firmlake: `firmlake --help` shows all": "firmlake: `firmlake --help` shows all",
}


def test_commands_in_messages_repeat_the_options_that_they_lack_so_that_they_can_be_pasted(capsys):
    for message, expected in MESSAGES.items():
        with repeating({"--config": "client.toml", "--data": "clients/a b"}):
            echo(message)
        echo(message, err=True)
        assert capsys.readouterr() == (f"{expected}\n", f"{message}\n")


def test_every_command_in_a_message_stands_between_backticks_by_which_it_is_found():
    bare = re.compile(r'echo\(f?"[^"`]*\bfirmlake [a-z]')
    assert not [path for path in PACKAGE.rglob("*.py") if bare.search(path.read_text())]
