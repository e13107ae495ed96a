"""Lists with further columns, such as contacts of companies."""

import polars as pl
import pytest

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.columns import COMPANY_COLUMNS, header_names
from firmlake.intake.entries import read_entries
from firmlake.intake.table import cell

CONTACTS = {**COMPANY_COLUMNS, "contact_id": header_names("contact", "contact id")}


def lines(path, **mapping):
    entries = read_entries(path, IntakeSettings(), CONTACTS, mapping)
    contact = pl.coalesce(map(cell, entries.choice["contact_id"])).alias("contact")
    return [
        row for batch in entries.batches for row in batch.select("line", "country", "company_number", contact).rows()
    ]


def test_further_columns_come_with_the_company_of_their_line(write):
    path = write("land;Contact-ID;kbo\nBE;12;403227515\nBE;;0403227516\n")
    assert lines(path) == [(2, "BE", "0403227515", "12"), (3, None, None, "")]
    assert lines(write('{"siren":404833048,"contactId":7}\n')) == [(1, "FR", "404833048", "7")]


def test_further_columns_can_be_mapped_by_name_or_position(write):
    assert lines(write("kbo;persoon\n403227515;12\n"), contact_id="persoon") == [(2, "BE", "0403227515", "12")]
    assert lines(write("BE403227515;12\n"), contact_id="2") == [(1, "BE", "0403227515", "12")]


def test_a_further_column_is_needed(write):
    with pytest.raises(CompanyListError, match="no column looks like a contact id"):
        lines(write("kbo;persoon\n403227515;12\n"))
    with pytest.raises(CompanyListError, match="no column looks like a contact id"):
        lines(write("BE403227515;12\n"))
