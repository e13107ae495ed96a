"""A frozen list in a binary format goes if it names somebody forgotten, and stays as it is if it does not."""

from __future__ import annotations

import gzip
import io
import zipfile

import polars as pl
import pytest

from firmlake.core.settings import PrivacySettings
from firmlake.forget.forget import forget
from firmlake.forget.proof import prove
from firmlake.forget.unpack import may_name
from firmlake.privacy.forgotten import Forgotten
from firmlake.privacy.tombstones import Subject, add_tombstones, read_register
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


def test_every_line_is_searched_and_cleaned_in_its_own_encoding(folders):
    """A list from a pipe may be in Windows-1252, and a log may hold lines of both encodings."""
    path = folders.inputs / "piped" / "list.csv"
    path.parent.mkdir(parents=True)
    lines = ["name;director\r\n", "Piñon;José Peeters\r\n", "Grün;José Peeters\r\n"]
    content = b"".join(map(str.encode, lines, ("ascii", "cp1252", "utf-8")))
    path.write_bytes(content)
    forget(settings_of(folders), [Subject("person", "José Peeters")], lambda: NOON)
    assert path.read_bytes().decode("cp1252").count("[forgotten]") == 2
    assert path.read_bytes() == b"".join(
        line.replace("José Peeters", "[forgotten]").encode(encoding)
        for line, encoding in zip(lines, ("ascii", "cp1252", "utf-8"), strict=True)
    )
    path.write_bytes(content)
    receipt, _ = prove(folders, Forgotten(*read_register(settings_of(folders).privacy, folders)), NOON)
    assert {(place, what) for place, what, _ in receipt.found} == {(str(path), "bytes"), (str(path), "lines")}
    assert max(count for _, _, count in receipt.found) == 2


def test_a_zipped_list_in_another_encoding_may_name_somebody(folders):
    forgotten = Forgotten(*add_tombstones(PrivacySettings(), folders, [Subject("person", "José Peeters")], NOON))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("list.csv", "Piñon;José Peeters".encode("cp1252"))
    assert may_name(packed.getvalue(), forgotten)
