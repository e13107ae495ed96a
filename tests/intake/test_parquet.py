"""Columns of Parquet have types: texts and numbers are company numbers, any other type is read beside them."""

import datetime
import decimal
import json

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.lines import read_company_list


@pytest.fixture
def read_table(tmp_path):
    """Read a list of columns: its lines, each as line, number, status and cells, and what is known of columns."""

    def read(**columns):
        pq.write_table(pa.table(columns), tmp_path / "list")
        lines = read_company_list(tmp_path / "list").lines
        frame = pl.concat(lines.batches())
        return frame.select("line", "company_number", "status", "columns").rows(), frame["kinds"], lines.columns

    return read


@pytest.mark.parametrize(
    "numbers",
    [
        ["0403227515", "0403.091.220"],
        [403227515, 403091220],
        [403227515.0, 403091220.0],
        [decimal.Decimal("403227515.00"), decimal.Decimal("403091220.00")],
        pl.Series(["0403227515", "0403.091.220"], dtype=pl.Categorical).to_arrow(),
    ],
    ids=["text", "integers", "floats", "decimals", "categories"],
)
def test_numbers_may_be_text_or_numbers_and_a_missing_one_is_refused(read_table, numbers):
    numbers = pa.concat_arrays([pa.array(numbers), pa.nulls(1, pa.array(numbers).type)])
    lines, _, _ = read_table(name=["KBC", "Solvay", "x"], kbo=numbers)
    assert [line[:3] for line in lines] == [
        (1, "0403227515", "accepted"), (2, "0403091220", "accepted"), (3, None, "refused"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([33011433.0], pa.float32()), "lost the last digits"),  # one KVK number would be rounded to another
        (pa.array([["17085815"]]), "no line names a company"),
        (pa.array([], pa.string()), "is empty"),
        (pa.array([datetime.date(2023, 1, 1)]), "a date"),
    ],
)
def test_a_column_that_cannot_hold_numbers_is_refused(read_table, column, message):
    with pytest.raises(CompanyListError, match=message):
        read_table(kvk=column)


@pytest.mark.parametrize(
    ("values", "text", "kind"),
    [
        ([1.5], '"1.5"', "n"),
        ([True], '"true"', "b"),
        ([datetime.date(2026, 9, 1)], '"2026-09-01"', "d"),
        ([datetime.timedelta(hours=1)], '"3600000000"', "n"),
        ([datetime.time(9, 30)], '"09:30:00"', "d"),
        ([datetime.time(9, 30, 0, 500_000)], '"09:30:00.5"', "d"),
        (pa.array([1], pa.time64("ns")), '"00:00:00.000000001"', "d"),
        ([{"a": [b"\xff"]}], r'"{\"a\":[\"\\\\xFF\"]}"', "s"),
        (pa.array(['{"a":1}'], pa.json_()), r'"{\"a\":1}"', "s"),
        (pa.array([None], pa.list_(pa.int8())), "null", "s"),
    ],
)
def test_a_column_of_any_type_is_read_beside_the_numbers_and_keeps_its_kind(read_table, values, text, kind):
    """A column that nobody needs must not stop the list."""
    lines, kinds, columns = read_table(kbo=["0403227515"], odd=values)
    assert lines == [(1, "0403227515", "accepted", f'{{"kbo":"0403227515","odd":{text}}}')]
    assert (kinds.to_list(), "odd" in columns.types) == ([f"s{kind}"], kind != "s")


def test_files_of_a_folder_are_one_list_and_a_column_of_two_types_is_text(tmp_path):
    for number, value in enumerate([1, "1"]):
        pq.write_table(pa.table({"kbo": ["0403227515"], "x": [value]}), tmp_path / f"{number}.parquet")
    lines = read_company_list(tmp_path).lines
    assert (pl.concat(lines.batches())["kinds"].to_list(), lines.columns.types) == (["ss", "ss"], {})


def test_a_folder_with_partitions_is_one_list(tmp_path):
    companies = {("BE", "0403227515"), ("NL", "17085815"), ("FR", "552032534")}
    for country, number in companies:
        folder = tmp_path / "year=2026" / f"land={country}"
        folder.mkdir(parents=True)
        pl.DataFrame({"reg_no": [number]}).write_parquet(folder / "0.parquet")
    read = read_company_list(tmp_path / "year=2026")
    assert set(json.loads(pl.concat(read.lines.batches())["columns"][0])) == {"land", "reg_no"}, "the list is one year"
    found = read.companies
    assert set(found.select("country", "company_number").rows()) == companies
    assert found["line"].to_list() == [1, 2, 3]


def test_rows_are_counted_from_the_footer(tmp_path):
    pl.DataFrame({"kbo": ["0403227515"] * 11}).write_parquet(tmp_path / "list")
    with pytest.raises(CompanyListError, match="more than 10 lines"):
        read_company_list(tmp_path / "list", IntakeSettings(max_rows=10))


def repeated(count, **texts):
    """A table with these texts in each of so many rows."""
    rows = pa.repeat(pa.scalar(0, pa.int32()), count)
    return pa.table({name: pa.DictionaryArray.from_arrays(rows, [text]) for name, text in texts.items()})


@pytest.mark.slow
def test_a_long_text_in_every_row_is_refused_and_so_are_millions_of_lines_in_a_few_kilobytes(tmp_path):
    path = tmp_path / "list"
    pq.write_table(repeated(50_000, kbo="0403227515", note="x" * 100_000), path)
    assert path.stat().st_size < 1_000_000
    with pytest.raises(CompanyListError, match=r"takes more than .* of memory to read"):
        read_company_list(path)
    pq.write_table(repeated(4_000_001, company_number="0403227515"), path)
    with pytest.raises(CompanyListError, match="unfolds to more than 4,000,000 lines"):
        read_company_list(path)
