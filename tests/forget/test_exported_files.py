"""Files of exports are cleaned alike in every format, and what names nobody stays as the export wrote it."""

from __future__ import annotations

import io
import json

import duckdb
import polars as pl
import pytest

from firmlake.core.company import Company
from firmlake.core.errors import DamagedError
from firmlake.delivery.deliver import Request
from firmlake.delivery.destination import Folder
from firmlake.delivery.files import FORMATS, Source
from firmlake.delivery.record import ColumnShape, DeliveredFile, DeliveredTable
from firmlake.delivery.selection import Selected, exported_type
from firmlake.forget.copies import clean_file
from firmlake.forget.forget import forget
from firmlake.forget.proof import prove
from firmlake.forget.reach import Copies
from firmlake.privacy.forgotten import Forgotten
from firmlake.privacy.tombstones import Subject, add_tombstones, read_register
from firmlake.tables.schemas import Column, Table
from support import BOLT, export

from .everything import contents, places_of
from .support import NAME, SPELLED, now, settings_of, week

COLUMNS = (
    Column("country", "text", "Country"),
    Column("company_number", "text", "Number"),
    *(
        Column(name, kind, name, "none")
        for name, kind in {
            "name": "text", "amount": "money", "count": "integer", "day": "date", "moment": "timestamp",
            "score": "score",
            "is_so": "boolean",
        }.items()
    ),
)  # fmt: skip
TABLE = Table("odd", "Odd rows", ("country", "company_number"), COLUMNS)
REST = "1234567890123456.78, 24202194, DATE '2026-01-05', TIMESTAMP '2026-01-05 12:34:56.123457', 1e-7, true"
NULLS = "NULL, NULL, NULL, NULL, NULL, NULL"
SPLIT = "Jozefien' || chr(10) || 'Ubelacker"
PLAIN = [
    ("0200000001", "'=1+1'", REST), ("0200000002", "''", "-0.10, -3, DATE '1887-01-05', NULL, 0.5, false"),
    ("0200000003", "NULL", NULLS), ("0200000004", "'_x000D_ \"& <b>,' || chr(13) || chr(10) || 'c'", NULLS),
    ("0200000005", "'''s-Hertogenbosch'", NULLS), ("0200000006", "'-2'", NULLS), ("0200000007", "'''=1'", NULLS),
]  # fmt: skip


def written(rows, form, folder) -> tuple[bytes, DeliveredFile]:
    values = ", ".join(f"('BE', '{number}', {name}, {rest})" for number, name, rest in rows)
    query = f"SELECT * FROM (VALUES {values}) t({', '.join(c.name for c in COLUMNS)})"
    with duckdb.connect() as connection:
        [made] = FORMATS[form](Source(connection, Selected(TABLE, query), folder, 1 << 20))
        with made.file as file:
            return file.read(), DeliveredFile(made.path, made.row_count, 0, "", made.country)


def described() -> DeliveredTable:
    columns = tuple(ColumnShape(c.name, exported_type(c), bool(c.null), c.comment) for c in COLUMNS)
    return DeliveredTable("odd", "Odd rows", TABLE.key, columns, 0)


def unpacked(content: bytes, form: str) -> object:
    if form == "parquet":
        return pl.read_parquet(io.BytesIO(content)).rows()
    return content


@pytest.fixture
def forgetting(folders):
    def make(*subjects) -> Forgotten:
        return Forgotten(*add_tombstones(settings_of(folders).privacy, folders, subjects, now(), is_dry=False))

    return make


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_every_format_loses_the_same_rows_and_names_and_keeps_every_other_cell(forgetting, tmp_path, form):
    """A line end in a name divides no record; a person is forgotten at one company only; amounts name no company."""
    named = [("0403227515", f"'{SPLIT}'", NULLS), ("0200000009", f"'{SPLIT}'", NULLS)]
    gone = ("0417497106", "'Acme NV' || chr(10) || 'Jan Peeters'", REST)
    forgotten = forgetting(
        Subject("company", "", Company("BE", "0417497106")),
        Subject("company", "", BOLT),
        Subject("person", "Jozefien Ubelacker", Company("BE", "0403227515")),
    )
    before, file = written([*PLAIN, *named, gone], form, tmp_path)
    wanted, _ = written([*PLAIN, ("0403227515", "NULL", NULLS), named[1]], form, tmp_path)
    after = clean_file(before, file, described(), forgotten)
    assert unpacked(after.content, form) == unpacked(wanted, form)
    assert (after.row_count, after.changed_count) == (len(PLAIN) + 2, 2)
    again = clean_file(after.content, file, described(), forgotten)
    assert again == (after.content, after.row_count, 0)


@pytest.mark.parametrize(
    ("path", "content"), [("odd.txt", b"x"), ("odd.csv", b"a,b\nc\n"), ("odd.xlsx", b"x"), ("odd.parquet", b"x")]
)
def test_a_file_that_no_export_wrote_is_named_and_not_quoted(forgetting, path, content):
    with pytest.raises(DamagedError, match=path):
        clean_file(content, DeliveredFile(path, 1, 1, ""), described(), forgetting(Subject("person", NAME)))


def test_an_export_whose_address_names_the_person_is_cleaned_and_its_record_still_leads_there(folders, tmp_path):
    week(folders, 0)
    out = tmp_path / f"for {NAME}"
    export(folders, Request(format="csv", tables=("relationships", "companies")), Folder(out))
    settings = settings_of(folders)
    done = forget(settings, [Subject("person", NAME)], now)
    assert done.is_complete
    assert places_of(out, *SPELLED) == set()
    assert any("names a forgotten subject" in each for each in done.out_of_reach)
    forgotten = Forgotten(*read_register(settings.privacy, folders))
    receipt, path = prove(folders, forgotten, now(), Copies(folders, forgotten, settings, now))
    ((place, what, _),) = receipt.found
    assert (place.rpartition("/state/")[2].partition("/")[0], what) == ("exports", "address")
    assert receipt.copies == (f"the export in {tmp_path}/for [forgotten]",)
    assert NAME not in path.read_text()
    assert [json.loads(content)["content"]["target"] for _, content in contents(folders.state / "exports")
            if content.startswith(b"{")] == [str(out)]  # fmt: skip
