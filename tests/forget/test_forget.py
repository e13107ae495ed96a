"""After a forget nobody finds the name, in any byte of the data folder, and everything else is as it was."""

from __future__ import annotations

import json

import pytest

from firmlake.core.folders import Folders
from firmlake.forget.forget import forget
from firmlake.forget.proof import prove
from firmlake.landing.segments import read_segment
from firmlake.privacy.forgotten import Forgotten
from firmlake.privacy.tombstones import Subject, read_register
from firmlake.rebuild.prune import find_removable, prune
from firmlake.rebuild.verify import verify
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

from .everything import places_of
from .support import NAME, SPELLED, WEEKS, make_weeks, now, settings_of


@pytest.fixture
def folders(request, copy_of) -> Folders:
    return copy_of(make_weeks, getattr(request, "param", WEEKS))


def agrees(folders) -> bool:
    return all(check.agrees for check in verify(folders, now))


_STRUCTURE = """
    SELECT country, company_number, direction, position, related_country, related_company_number, function,
           stake_fraction, valid_from_run FROM relationships ORDER BY ALL
"""


_LOADS = "SELECT run_id, loaded_at, row_counts FROM loads ORDER BY ALL"


_PAST = "SELECT valid_from_run, valid_to_run, stake_fraction FROM relationships_history ORDER BY ALL"


@pytest.mark.parametrize("folders", [2, *slow(WEEKS)], indirect=True)
def test_no_byte_of_the_data_folder_holds_the_name_afterwards(folders):
    assert len(places_of(folders.data, *SPELLED)) >= 20
    kept = [query(folders, sql) for sql in (_STRUCTURE, _PAST, _LOADS)]
    assert all(kept)
    done = forget(settings_of(folders), [Subject("person", NAME)], now)
    assert places_of(folders.data, *SPELLED) == set()
    assert [query(folders, sql) for sql in (_STRUCTURE, _PAST, _LOADS)] == kept
    assert len(list_generations(folders)) == 1, "older ones named it too"
    assert {place.what for place in done.places} >= {"answers", "list", "relationships", "drift"}
    register = json.loads(folders.tombstones.read_text())["content"]  # which tells no name
    assert [one["is_done"] for one in register["tombstones"]] == [True]
    again = forget(settings_of(folders), [], now)
    assert again.places == []
    assert agrees(folders)
    receipt, path = prove(folders, Forgotten(*read_register(settings_of(folders).privacy, folders)), now())
    assert (receipt.found, receipt.unread) == ((), ())
    assert path
    assert receipt.byte_count > 1_000_000


@pytest.mark.slow
def test_a_dry_run_names_every_place_and_changes_no_byte(folders):
    before = {path: path.read_bytes() for path in folders.data.rglob("*") if path.is_file()}
    dry = forget(settings_of(folders), [Subject("person", NAME)], now, is_dry=True)
    assert {path: path.read_bytes() for path in folders.data.rglob("*") if path.is_file()} == before
    named = {str(place.path) for place in dry.places}
    assert {str(folders.data / path) for path in places_of(folders.data, *SPELLED)} <= named | {
        str(folders.warehouse / "firmlake.duckdb")
    }


@pytest.mark.slow
def test_a_run_whose_answers_were_pruned_is_cleaned_in_its_staged_tables(folders):
    removable, _ = find_removable(folders, now(), keep_generations=9, landed_days=0)
    prune(folders, removable, now())
    structure = query(folders, _STRUCTURE)
    forget(settings_of(folders), [Subject("person", NAME)], now)
    assert places_of(folders.data, *SPELLED) == set()
    assert query(folders, _STRUCTURE) == structure
    assert agrees(folders)


@pytest.mark.slow
def test_a_forgotten_company_leaves_nothing_but_places_without_a_name(folders):
    bolt = [row for row in query(folders, _STRUCTURE) if row[1] == BOLT.company_number]
    before = query(folders, "SELECT count(*), sum(stake_fraction) FROM relationships")
    of_bolt = query(
        folders, f"SELECT count(*), sum(stake_fraction) FROM relationships WHERE company_number = '{BOLT[1]}'"
    )
    assert bolt
    forget(settings_of(folders), [Subject("company", "", BOLT)], now)
    assert places_of(folders.data, BOLT.company_number) == set()
    [(count, stakes)], [(gone, gone_stakes)] = before, of_bolt
    assert query(folders, "SELECT count(*), sum(stake_fraction) FROM relationships") == [
        (count - gone, stakes - gone_stakes)
    ]
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
    rows = query(
        folders, "SELECT DISTINCT company_number, related_name FROM relationships WHERE related_name IS NOT NULL"
    )
    assert (BOLT.company_number, NAME) in rows
    assert not [name for number, name in rows if number == ACME.company_number and "belacker" in name.lower()]
    assert agrees(folders)


@pytest.mark.slow
def test_no_checksum_of_the_original_is_left(folders):
    """Whoever guesses a name must not be able to test the guess."""
    changed = query(
        folders,
        "SELECT payload_hash FROM company_state WHERE dataset = 'relationships' AND company_number <> '552032534' "
        "UNION SELECT payload_hash FROM company_state_history WHERE dataset = 'relationships' "
        "AND company_number <> '552032534'",
    )
    sums = [one.header.body_sha256 for path in folders.data.rglob("*.zst") for one in read_segment(path)]
    forget(settings_of(folders), [Subject("person", NAME)], now)
    left = {one.header.body_sha256 for path in folders.data.rglob("*.zst") for one in read_segment(path)}
    assert len(changed) > 3
    assert (
        places_of(folders.data, *(value for (value,) in changed), *(each for each in sums if each not in left)) == set()
    )
