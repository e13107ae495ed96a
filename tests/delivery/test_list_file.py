"""A list comes back with every line once, in its order, with its own cells and what is held of its companies.

Each folder of `returned` holds a list (`list`, or `workbook.json`, see `intake.workbooks`) and the files that are
written of it: `out.csv` and `out.csv.json` as they are; `out.xlsx` and `out.parquet` as `show` shows them. To add a
case, make the list and an empty file for each format, run `PYTHONPATH=tests python tests/delivery/test_list_file.py`,
and check what it writes.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import python_calamine
from hypothesis import given, settings
from hypothesis import strategies as st

from firmlake.core.company import Company
from firmlake.core.errors import UsageError
from firmlake.core.folders import Folders
from firmlake.core.formulas import guard
from firmlake.core.settings import IntakeSettings
from firmlake.delivery import list_file
from firmlake.delivery.files import write_rows
from firmlake.delivery.list_file import FileBack, Written, check_file_back, choose_added, write_list
from firmlake.delivery.list_workbook import write_result
from firmlake.intake.entries import read_entries
from firmlake.intake.lines import read_company_list
from firmlake.landing.run import Run
from firmlake.warehouse.generations import publish
from firmlake.warehouse.lists import load_members
from firmlake.warehouse.load import load_run
from firmlake.warehouse.loads import Load
from firmlake.warehouse.views import create_views
from intake.workbooks import list_of
from support import ACME, DAY, NOON, begin_with_lines, make_run, publish_list, stage, with_views

RETURNED = Path(__file__).parent / "returned"
COLUMNS = ("name", "portfolio.days_to_file")
"""What is added in all cases, beside what always is."""


def begin_case(folders: Folders, case: Path, scratch: Path, day: int) -> Run:
    """Begin a run over the list of a case."""
    found = read_company_list(list_of(case, scratch))
    assert found.lines
    companies = [Company(*row) for row in found.companies.select("country", "company_number").rows()]
    run = make_run(folders, [], ["financials"], run_id=f"2026-{day:02}", at=NOON + day * DAY, waiting=companies)
    run = Run(folders, msgspec.structs.replace(run.plan, company_list=case.name))
    return begin_with_lines(run, pl.concat(found.lines.batches()).rows(), columns=found.lines.columns)


def publish_cases(scratch: Path, cases: Iterable[Path]) -> Folders:
    """Publish the list of each case, and one run over their companies, of which nothing has landed."""
    folders = Folders(scratch / "data")
    runs = [begin_case(folders, case, scratch, day) for day, case in enumerate(cases)]
    companies = {Company(*row): None for run in runs for row in run.companies().rows()}
    asked = make_run(folders, [], ["financials"], waiting=[*companies])
    manifest, ended, at = stage(asked), asked.finish("stopped", "", NOON), asked.plan.started_at

    def load(connection: duckdb.DuckDBPyConnection, number: int) -> None:
        load_run(connection, asked, manifest, ended, Load(number, asked.run_id, at, at))
        for run in runs:
            load_members(connection, run, number)
        create_views(connection)

    publish(folders, load, memory_limit="256MB", keep=1, start=None)
    return folders


def show(path: Path, written: Written) -> bytes:
    """Show a file: text as it is, others value by value; a workbook with the number formats of its first sheet."""
    if path.suffix in (".csv", ".json"):
        return path.read_bytes()
    lines = [f"renamed {written.renamed}, replaced {written.replaced}, {written.refused_count} refused"]
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        lines += [
            f"{each.name}: {each.type}: {table[each.name].cast(pa.string()).to_pylist()}" for each in table.schema
        ]
    else:
        with python_calamine.CalamineWorkbook.from_path(path) as book:
            for name in book.sheet_names:
                lines += [f"# {name}", *map(str, book.get_sheet_by_name(name).to_python())]
        entries = read_entries(path, IntakeSettings())
        formats = {entries.table.columns[n]: known for n, known in entries.table.formats.items()}
        lines.append(f"# kinds and number formats\n{pl.concat(entries.batches)['kinds'].to_list()}\n{formats}")
    return "".join(f"{line}\n" for line in lines).encode()


CASES = sorted(RETURNED.iterdir())
FILES = [f"{path.parent.name}/{path.name}" for path in sorted(RETURNED.glob("*/out.*"))]


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """The lists of all cases in one data folder, which nobody changes."""
    return publish_cases(tmp_path_factory.mktemp("lists"), CASES)


def give_back(folders: Folders, file: str, scratch: Path, columns: tuple[str, ...] = COLUMNS) -> tuple[Path, bytes]:
    name, _, out = file.partition("/")
    written = write_list(folders, name, FileBack(scratch / out.removesuffix(".json"), columns), "256MB")
    return written.path, show(scratch / out, written)


@pytest.mark.parametrize("file", FILES)
def test_a_list_comes_back_as_its_case_says(cases, tmp_path, file):
    assert give_back(cases, file, tmp_path)[1] == (RETURNED / file).read_bytes()


@pytest.mark.slow
def test_every_line_comes_back_once_and_in_order_however_many_companies_are_gathered_at_once(
    cases, tmp_path, monkeypatch
):
    monkeypatch.setattr(list_file, "_PORTION", 1)
    assert give_back(cases, "every_line/out.csv", tmp_path)[1] == (RETURNED / "every_line/out.csv").read_bytes()


@pytest.mark.parametrize("file", ["blank_lines/out.csv", "blank_lines/out.xlsx"])
def test_a_blank_line_comes_back_with_its_number_and_is_no_refused_line_of_the_next_list(cases, tmp_path, file):
    read = read_company_list(give_back(cases, file, tmp_path)[0])
    assert (read.line_count, read.blank_count, read.refused.height) == (5, 2, 0)
    cells = [json.loads(line) for line in pl.concat(read.lines.batches()).filter(status="blank")["columns"]]
    assert [(line["status"], line["line"]) for line in cells] == [("blank", "3"), ("blank", "4")]


@pytest.mark.slow
def test_a_list_whose_stored_lines_are_lost_comes_back_as_texts(tmp_path):
    folders = publish_cases(tmp_path, [RETURNED / "workbook"])
    for stored in folders.lists.iterdir():
        stored.unlink()
    shown = give_back(folders, "workbook/out.xlsx", tmp_path)[1].decode()
    assert "['00123', '12.5', '=1+1', '0403227515'" in shown


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=12)


@pytest.mark.slow
@settings(max_examples=6)
@given(
    names=st.lists(NAMES, min_size=1, max_size=4, unique_by=str.casefold),
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20), min_size=8, max_size=8),
)
def test_whatever_columns_and_cells_hold_they_come_back_as_they_were(tmp_path_factory, names, texts):
    folder = tmp_path_factory.mktemp("list")
    cells = [{name: texts[(row + n) % 8] for n, name in enumerate(names)} for row in range(2)]
    folders = Folders(folder / "data")
    publish_list(folders, [ACME, None], cells=cells)
    with_views(folders)
    found = pl.read_parquet(give_back(folders, "customers/out.parquet", folder, ("name",))[0])
    assert found.select(names).to_dicts() == cells
    path, _ = give_back(folders, "customers/out.csv", folder, ("name",))
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file))
    assert [row[: len(names)] for row in rows[1:]] == [[guard(line[name]) for name in names] for line in cells]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["name", "portfolio.days_to_file"], ["company_figures.name", "portfolio.days_to_file"]),
        (["company_status.*"], ["company_status.status", "company_status.reason"]),
        (["place", "place"], ["company_figures.place"]),
    ],
)
def test_columns_are_chosen_by_name_or_view(names, expected):
    assert [each.full_name for each in choose_added(names)] == expected


@pytest.mark.parametrize(
    ("name", "near"), [("revnue", "revenue"), ("portfolo.*", "portfolio.*"), ("portfolio.plac", "portfolio.place")]
)
def test_a_wrong_column_is_refused_with_the_nearest_ones(name, near):
    with pytest.raises(UsageError) as refused:
        choose_added([name])
    assert near in refused.value.next_step


@pytest.mark.parametrize(
    ("name", "lines", "said"),
    [
        ("out.pdf", 1, r"cannot be written as \.pdf"),
        ("out", 1, ".csv, .parquet, .xlsx"),
        ("missing/out.csv", 1, "missing"),
        (".", 1, r"."),
        ("list.csv", 1, "the list itself"),
        ("a.xlsx", 1_048_576, r"1,048,576 lines.*\.csv or \.parquet"),
        ("a.xlsx", 1_048_575, None),
        ("a.csv", 1_048_576, None),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_fetched(tmp_path, name, lines, said):
    (tmp_path / "list.csv").write_text("x")
    with nullcontext() if said is None else pytest.raises(UsageError, match=said):
        check_file_back(FileBack(tmp_path / name), tmp_path / "." / "list.csv", lines)


def test_a_folder_without_permission_is_refused_before_anything_is_fetched(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: (path, mode) != (tmp_path, os.W_OK))  # root may write anywhere
    with pytest.raises(UsageError, match="you may not write to"):
        check_file_back(FileBack(tmp_path / "out.csv"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_workbook_that_a_full_disk_cannot_hold_is_an_error_and_nothing_more(capfd):
    with pytest.raises(OSError, match="No space left"):
        write_result(Path("/dev/full"), "numbers", {"n": "BIGINT"}, pa.table({"n": range(2)}).to_batches())
    assert capfd.readouterr() == ("", "")


def test_numbers_have_the_decimal_sign_that_belongs_to_the_delimiter():
    schema = {"id": pl.String, "revenue": pl.Decimal(18, 2), "growth": pl.Float64}
    batches = pl.DataFrame([["1,5", Decimal("-1234.50"), 0.25], [None, None, None]], schema, orient="row")
    written = {}
    for delimiter in (";", ","):
        table, file = batches.to_arrow(), io.BytesIO()
        write_rows(file, table.to_reader(), delimiter)
        written[delimiter] = file.getvalue().decode("utf-8-sig").splitlines()[1:]
    assert written == {";": ['"1,5";-1234,50;0,25', ";;"], ",": ['"1,5",-1234.50,0.25', ",,"]}


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        world = publish_cases(Path(folder), CASES)
        for each in FILES:
            (RETURNED / each).write_bytes(give_back(world, each, Path(folder))[1])
