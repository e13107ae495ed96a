"""After a forget nobody finds the name, in any byte of the data folder, and everything else is as it was."""

from __future__ import annotations

import gzip
import io
import zipfile
from fnmatch import fnmatch

import polars as pl
import pytest

from firmlake.core.company import Company
from firmlake.core.folders import Folders
from firmlake.forget.forget import forget
from firmlake.forget.proof import prove
from firmlake.landing.segments import read_segment
from firmlake.privacy.forgotten import Forgotten
from firmlake.privacy.tombstones import Subject, read_register
from firmlake.rebuild.prune import find_removable, prune
from firmlake.warehouse.generations import list_generations
from support import (
    ACME,
    BOLT,
    CIRC,
    answer,
    found,
    land,
    lookalike,
    make_run,
    publish_landed,
    query,
    slow,
    with_views,
)

from .world import NAME, SPELLED, agrees, make_weeks, now, places_of, settings_of

PERSON, COMPANY = Subject("person", NAME), Subject("company", "", BOLT)
SUBJECTS = [PERSON, Subject("contact", "ct-4711"), Subject("company", "", Company("BE", "0770493071"))]

PLACES = {
    "landing/run=*/shard=*/*.zst": "answers",
    "landing/lists/*.parquet": "rows",
    "staged/run=*/drift/*": "rows",
    "staged/run=*/financials/*": "rows",
    "staged/run=*/refused_lines/*": "rows",
    "staged/run=*/relationships/*": "rows",
    "warehouse/gen_000002.duckdb": "relationships",
    "warehouse/gen_000003.duckdb": "relationships",
}
"""Where the person stands, and what a forget and a dry run call it."""


def workbook(*cells):
    pl.DataFrame({f"c{n}": [cell] for n, cell in enumerate(cells)}).write_excel(file := io.BytesIO())
    return file.getvalue()


def parquet(*cells):
    pl.DataFrame({f"c{n}": [cell] for n, cell in enumerate(cells)}).write_parquet(file := io.BytesIO())
    return file.getvalue()


def zipped(*cells):
    with zipfile.ZipFile(file := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("list", workbook(*cells))
    return file.getvalue()


def long(*cells):
    return bytes((1 << 22) - 9) + ";".join(cells).encode()


PACKS = {
    "workbook": workbook,
    "parquet": parquet,
    "zipped": zipped,
    "gzip": lambda *cells: gzip.compress(";".join(cells).encode()),
    "utf-16": lambda *cells: ";".join(cells).encode("utf-16"),
    "long": long,
    "long.sqlite": long,
}
"""Files that are no texts, or are searched in parts: a proof looks into them."""
LINES = {"ascii": "name;director\r\n", "cp1252": "Piñon;{}\r\n", "utf-8": "Grün;{}\r\n"}
"""A list from a pipe may be in Windows-1252, and a log may hold lines of both encodings."""
PIPED, *CLEANED = (
    b"".join(line.format(name).encode(encoding) for encoding, line in LINES.items()) for name in (NAME, "[forgotten]")
)
FILES = {
    "firmlake.log": (f"run of {NAME}\nrun\n".encode(), b"run of [forgotten]\nrun\n"),
    "state/inputs/piped/list.csv": (PIPED, *CLEANED),
    "state/inputs/workbook/list.xls": (b"\xd0\xcf\x11\xe0\0\0", None),  # it cannot be cleaned
}
"""Files beside the tables: their content, and what is left of it; None for nothing."""

_STRUCTURE = """
    SELECT country, company_number, direction, position, related_country, related_company_number, function,
           stake_fraction, valid_from_run FROM relationships ORDER BY ALL
"""
_LOADS = "SELECT run_id, loaded_at, row_counts FROM loads ORDER BY ALL"
_PAST = "SELECT valid_from_run, valid_to_run, stake_fraction FROM relationships_history ORDER BY ALL"


def make_world(folders: Folders) -> None:
    make_weeks(folders, 2)
    for name, (content, _) in FILES.items():
        (folders.data / name).parent.mkdir(parents=True, exist_ok=True)
        (folders.data / name).write_bytes(content)


@pytest.fixture
def folders(copy_of) -> Folders:
    return copy_of(make_world)


def places_in(folders):
    """Where the person, or who else is forgotten, is named."""
    return places_of(folders.data, *SPELLED, "ct-4711")


def receipt_of(folders):
    register = read_register(settings_of(folders).privacy, folders)
    return prove(folders, Forgotten(*register), now())[0]


def test_no_byte_of_the_data_folder_holds_the_name_afterwards(folders):
    named = places_in(folders)
    assert [place for place in PLACES if not any(fnmatch(path, place) for path in named)] == []
    kept = [query(folders, sql) for sql in (_STRUCTURE, _PAST, _LOADS)]
    assert all(kept)
    dry = forget(settings_of(folders), SUBJECTS, now, is_dry=True)
    done = forget(settings_of(folders), SUBJECTS, now)
    assert (dry.places, dry.names) == (done.places, done.names), "a dry run counts the same"
    assert places_in(folders) == set()
    assert [query(folders, sql) for sql in (_STRUCTURE, _PAST, _LOADS)] == kept
    assert len(list_generations(folders)) == 1, "older ones named it too"
    told = {(str(place.path.relative_to(folders.data)), place.what) for place in done.places}
    assert [
        one for one in PLACES.items() if not any(fnmatch(path, one[0]) and what == one[1] for path, what in told)
    ] == []
    left = {name: path.read_bytes() if (path := folders.data / name).exists() else None for name in FILES}
    assert [name for name, (_, wanted) in FILES.items() if left[name] != wanted] == []
    assert read_register(settings_of(folders).privacy, folders)[0].is_done
    receipt = receipt_of(folders)
    assert (receipt.found, receipt.unread, receipt.byte_count > 1_000_000) == ((), (), True)
    for kind, pack in PACKS.items():
        (folders.data / f"named {kind}").write_bytes(pack("x", "ÜBELACKER, JOZEFIEN"))
        (folders.data / f"others {kind}").write_bytes(pack("Jozefien", "Maes"))
    (folders.data / "state/inputs/piped/list.csv").write_bytes(FILES["state/inputs/piped/list.csv"][0])
    found_in = {(place.removeprefix(f"{folders.data}/"), what) for place, what, _ in receipt_of(folders).found}
    assert {place for place, _ in found_in} == {"state/inputs/piped/list.csv", *(f"named {kind}" for kind in PACKS)}
    assert {what for place, what in found_in if place.endswith("csv")} == {"bytes", "lines"}
    assert [place.what for place in forget(settings_of(folders), [], now).places] == ["lines"], "a restored file"
    assert agrees(folders)


@pytest.mark.slow
def test_a_dry_run_names_every_place_and_changes_no_byte(folders):
    before = {path: path.read_bytes() for path in folders.data.rglob("*") if path.is_file()}
    dry = forget(settings_of(folders), SUBJECTS, now, is_dry=True)
    assert {path: path.read_bytes() for path in folders.data.rglob("*") if path.is_file()} == before
    named = {str(place.path.relative_to(folders.data)) for place in dry.places}
    assert places_in(folders) <= named | {"warehouse/firmlake.duckdb"}


@pytest.mark.slow
def test_a_run_whose_answers_were_pruned_is_cleaned_in_its_staged_tables(folders):
    removable, _ = find_removable(folders, now(), keep_generations=9, landed_days=0)
    prune(folders, removable, now())
    structure = query(folders, _STRUCTURE)
    forget(settings_of(folders), SUBJECTS, now)
    assert places_in(folders) == set()
    assert query(folders, _STRUCTURE) == structure
    assert agrees(folders)


@pytest.mark.slow
def test_a_forgotten_company_leaves_nothing_but_places_without_a_name(folders):
    sums = "SELECT count(*), sum(stake_fraction) FROM relationships"
    [(count, stakes)], [(gone, gone_stakes)] = (
        query(folders, f"{sums} {of}") for of in ("", f"WHERE company_number = '{BOLT[1]}'")
    )
    assert gone
    forget(settings_of(folders), [COMPANY], now)
    assert places_of(folders.data, BOLT.company_number) == set()
    assert query(folders, sums) == [(count - gone, stakes - gone_stakes)]
    assert agrees(folders)


@pytest.mark.parametrize(("charged", "unexplained"), [*slow((2, 0), (3, 1))])
def test_the_credit_of_a_forgotten_company_stays_explained(tmp_path, charged, unexplained):
    """It remains charged. What the service charged beyond it remains unexplained."""
    folders = Folders(tmp_path / "data")
    run = make_run(folders, [ACME, BOLT], ["lookalikes"])
    elements = [found(company, "lookalikes", lookalike(CIRC)) for company in (ACME, BOLT)]
    told = {run.plan.names.credits_charged_header.lower(): str(charged)}
    land(run, answer("lookalikes", *elements, headers=told))
    publish_landed(run)
    with_views(folders)
    for company in (BOLT, ACME):
        forget(settings_of(folders), [Subject("company", "", company)], now)
        bill = "SELECT credit_count, expected_credit_count, unexplained_credit_count FROM spend"
        assert query(folders, bill) == [(charged, 2, unexplained)]
    assert agrees(folders)


@pytest.mark.slow
def test_a_person_forgotten_about_one_company_stays_elsewhere(folders):
    forget(settings_of(folders), [Subject("person", NAME, ACME)], now)
    rows = query(folders, "SELECT DISTINCT company_number, related_name FROM relationships WHERE related_name NOT NULL")
    assert (BOLT.company_number, NAME) in rows
    assert not [name for number, name in rows if number == ACME.company_number and "belacker" in name.lower()]
    assert agrees(folders)


@pytest.mark.slow
def test_no_checksum_of_the_original_is_left(folders):
    """Whoever guesses a name must not be able to test the guess."""
    of_named = "WHERE dataset = 'relationships' AND company_number <> '552032534'"
    changed = query(
        folders,
        f"SELECT payload_hash FROM company_state {of_named} UNION "
        f"SELECT payload_hash FROM company_state_history {of_named}",
    )
    sums = [one.header.body_sha256 for path in folders.data.rglob("*.zst") for one in read_segment(path)]
    forget(settings_of(folders), [PERSON], now)
    left = {one.header.body_sha256 for path in folders.data.rglob("*.zst") for one in read_segment(path)}
    assert len(changed) > 2
    gone = [*(value for (value,) in changed), *(each for each in sums if each not in left)]
    assert places_of(folders.data, *gone) == set()
