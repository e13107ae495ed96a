"""A frozen list in a binary format goes if it names somebody forgotten, and stays as it is if it does not."""

from __future__ import annotations

import gzip
import io
import zipfile

import polars as pl
import pytest

from firmlake.core.settings import PrivacySettings
from firmlake.forget.forget import forget
from firmlake.forget.packed import may_name
from firmlake.privacy.forgotten import Forgotten
from firmlake.privacy.tombstones import Subject, add_tombstones
from support import ACME, NOON

from .everything import places_of
from .support import settings_of

SUBJECTS = [Subject("person", "Jan Peeters"), Subject("company", "", ACME), Subject("contact", "4711")]
NAMES = ["Jan Peeters", "PEETERS, JAN", "0403.227.515", "4711"]


@pytest.fixture
def forgotten(folders) -> Forgotten:
    return Forgotten(*add_tombstones(PrivacySettings(), folders, SUBJECTS, NOON))


def workbook(*cells: object) -> bytes:
    file = io.BytesIO()
    pl.DataFrame({f"c{n}": [cell] for n, cell in enumerate(cells)}).write_excel(file)
    return file.getvalue()


def parquet(*cells: object) -> bytes:
    file = io.BytesIO()
    pl.DataFrame({f"c{n}": [cell] for n, cell in enumerate(cells)}).write_parquet(file)
    return file.getvalue()


def zipped(*cells: object) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("list.xlsx", workbook(*cells))
    return file.getvalue()


def packed(*cells: object) -> bytes:
    return gzip.compress(";".join(map(str, cells)).encode())


def utf16(*cells: object) -> bytes:
    return ";".join(map(str, cells)).encode("utf-16")


@pytest.mark.parametrize("pack", [workbook, parquet, zipped, packed, utf16])
def test_a_binary_list_is_known_to_name_somebody_or_not(forgotten, pack):
    for cell in (*NAMES, 403227515):
        assert may_name(pack("x", cell, 7), forgotten), cell
    assert may_name(pack("Jan", "Peeters"), forgotten)
    assert not may_name(pack("Jan", "Maes", "0404.000.000", 4712), forgotten)


def test_what_cannot_be_unpacked_may_name_anybody(forgotten):
    assert may_name(b"\xd0\xcf\x11\xe0\0\0", forgotten)


def test_only_lists_that_name_somebody_go(folders):
    for name, cell in (("gone", "Jan Peeters"), ("kept", "Jan Maes")):
        path = folders.inputs / name / "list.xlsx"
        path.parent.mkdir(parents=True)
        path.write_bytes(workbook(cell))
    (folders.data / "firmlake.log").write_text("run of Jan Peeters\nrun\n")
    forget(settings_of(folders), SUBJECTS, lambda: NOON)
    assert [path.parent.name for path in folders.inputs.rglob("*.xlsx")] == ["kept"]
    assert (folders.data / "firmlake.log").read_text() == "run of [forgotten]\nrun\n"
    assert places_of(folders.data, "Jan Peeters") == set()
