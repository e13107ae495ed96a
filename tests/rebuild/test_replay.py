"""Replay gives the same warehouse from what landed; verify finds whatever is not the same."""

from __future__ import annotations

import shutil
from functools import partial

import msgspec
import polars as pl
import pytest

from firmlake.core.errors import DamagedError
from firmlake.core.files import sha256_of, write_json
from firmlake.landing.run import Run
from firmlake.rebuild.replay import finished_runs
from firmlake.rebuild.replay import replay as _replay
from firmlake.rebuild.verify import content_hashes, verify
from firmlake.tables.schemas import WAREHOUSE_TABLES
from firmlake.tables.stage import read_manifest
from firmlake.warehouse.generations import newest, open_warehouse
from firmlake.warehouse.loads import loaded_runs
from support import (
    ACME,
    BOLT,
    DAY,
    MINUTE,
    NOON,
    answer,
    edit_warehouse,
    found,
    header,
    land,
    lookalike,
    make_run,
    publish_landed,
    query,
    slow,
    stage,
)  # fmt: skip

from .conftest import FIRST, SECOND


def clock():
    return NOON + 9 * DAY


replay = partial(_replay, now=clock)
verified = partial(verify, now=clock)


OF_LISTS = {
    name for name in WAREHOUSE_TABLES if name.startswith(("service_list", "list_", "contact_", "company_lists"))
}
"""Tables that runs do not fill; test_lists.py is about them."""


def content(folders):
    with open_warehouse(folders) as connection:
        hashes = content_hashes(connection)
    return {name: value for name, value in hashes.items() if name != "loads"}


def files(folder):
    return {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("*"))}


@pytest.mark.slow
def test_replay_needs_neither_staged_files_nor_a_warehouse(two_runs):
    before = content(two_runs)
    shutil.rmtree(two_runs.data / "staged")
    shutil.rmtree(two_runs.warehouse)
    replay(two_runs)
    assert content(two_runs) == before
    assert [row[0] for row in query(two_runs, "SELECT run_id FROM loads ORDER BY generation")] == [FIRST, SECOND]


@pytest.mark.slow
def test_replay_loads_a_run_that_was_killed_before_its_publish(two_runs):
    run = make_run(two_runs, [ACME], ["lookalikes"], run_id="20260107T120000Z-0003", at=NOON + 2 * DAY)
    land(run, answer("lookalikes", found(ACME, "lookalikes"), at=NOON + 2 * DAY))
    unfinished = make_run(two_runs, [BOLT], ["lookalikes"], run_id="20260108T120000Z-0004", at=NOON + 3 * DAY)
    stage(run)
    run.finish("done", "", NOON + 2 * DAY)
    replay(two_runs)
    loaded = [row[0] for row in query(two_runs, "SELECT run_id FROM loads ORDER BY generation")]
    assert loaded == [FIRST, SECOND, run.run_id]
    assert unfinished.run_id not in loaded


GIVEN_UP = header("lookalikes", [ACME], kind="given_up", status=None, error="x", at=NOON - 4 * DAY), b""
ANSWERED = answer("lookalikes", found(ACME, "lookalikes", lookalike()), at=NOON - 4 * DAY)


@pytest.mark.parametrize("landed", [pytest.param(ANSWERED), *slow((GIVEN_UP,))], ids=["answered", "given up"])
def test_replay_gives_identical_content_as_a_new_generation_even_if_the_clock_was_set_back(two_runs, landed):
    """A later run looks earlier then, and what is held looks as if it came from the future."""
    run = make_run(two_runs, [ACME], ["lookalikes"], run_id="20260101T120000Z-0003", at=NOON - 4 * DAY)
    land(run, landed)
    publish_landed(run, at=NOON - 4 * DAY + MINUTE)
    before, old = content(two_runs), newest(two_runs)
    path = replay(two_runs)
    assert content(two_runs) == before
    filled = {table: count for table, (count, _) in before.items() if table not in OF_LISTS}
    assert all(filled.values()), "or nothing would be shown for some table"
    assert (newest(two_runs), path.name, old.exists()) == (path, "gen_000004.duckdb", True)
    with open_warehouse(two_runs) as connection:
        loaded = loaded_runs(connection)
    assert [run.run_id for run, _ in finished_runs(two_runs, loaded)] == loaded


@pytest.mark.slow
def test_verify_finds_nothing_where_nothing_is_wrong_and_changes_nothing(two_runs):
    """The tables of all runs would need as much disk space again: it keeps those of one run at a time."""
    before, kept = files(two_runs.data), []
    checks = verified(two_runs, on_run=lambda run: kept.append(list((run.folders.made / "staged").glob("*"))))
    assert kept == [[], []]
    pasts = {name.replace("_history", "_as_of") for name in WAREHOUSE_TABLES if name.endswith("_history")}
    assert {check.table for check in checks} == WAREHOUSE_TABLES.keys() - {"loads"} | pasts
    assert all(check.agrees for check in checks)
    after = files(two_runs.data)
    assert after.keys() == before.keys()
    assert {path: after[path] for path in after if path.is_file()} == {
        path: before[path] for path in after if path.is_file()
    }


CHANGES = {
    "companies": "UPDATE companies_versions SET paid_at = paid_at + INTERVAL 1 SECOND WHERE valid_to IS NULL",
    "financials": "UPDATE financials_versions SET revenue = revenue + 0.01 WHERE valid_to IS NULL",
    "financial_joint_committees": "DELETE FROM financial_joint_committees_versions WHERE valid_to IS NULL",
    "lookalikes": "INSERT INTO lookalikes_versions FROM lookalikes_versions WHERE valid_to IS NULL LIMIT 1",
    "relationships": "UPDATE relationships_versions SET function = NULL WHERE valid_to IS NULL",
    "company_state": "UPDATE company_state_versions SET status = 'empty' WHERE valid_to IS NULL",
    "company_changes": "UPDATE company_changes SET kind = 'new_accounts'",
    "dead_letters": "UPDATE dead_letters SET attempt_count = 9",
    "rejects": "UPDATE rejects SET record_json = '6'",
    "refused_lines": "DELETE FROM refused_lines WHERE run_id LIKE '%2'",
    "drift": "UPDATE drift SET record_count = record_count + 1",
    "runs": "UPDATE runs SET credit_count = 7",
    "requests": "UPDATE requests SET duration_seconds = 1e-9",
    "alert_rules": "UPDATE alert_rules_versions SET condition = 'another' WHERE valid_to IS NULL",
    "alerts": "UPDATE alerts_versions SET evidence = '{}' WHERE valid_to IS NULL",
}


HISTORIES = [name for name in WAREHOUSE_TABLES if name.endswith("_history") and name not in OF_LISTS]


@pytest.mark.slow
def test_verify_finds_a_changed_past(two_runs):
    tables = [table.replace("history", "versions") for table in HISTORIES]
    changes = (f"UPDATE {table} SET valid_from = valid_to WHERE valid_to IS NOT NULL" for table in tables)
    edit_warehouse(two_runs, ";".join(changes))
    assert [check.table for check in verified(two_runs) if not check.agrees] == HISTORIES


@pytest.mark.slow
@pytest.mark.parametrize("table", CHANGES)
def test_verify_finds_a_changed_row(two_runs, table):
    assert CHANGES.keys() == WAREHOUSE_TABLES.keys() - {"loads", *HISTORIES, *OF_LISTS}
    edit_warehouse(two_runs, CHANGES[table])
    assert [check.table for check in verified(two_runs) if not check.agrees] == [table]


@pytest.mark.slow
def test_verify_finds_staged_rows_that_do_not_follow_from_the_answers(two_runs):
    """Not damage, but a fault of ours: the manifest agrees with the file, the landed answers do not."""
    run = Run(two_runs, next(run for run, _ in finished_runs(two_runs)).plan)
    path = two_runs.staged(FIRST) / "lookalikes" / "shard=00001.parquet"
    old = read_manifest(run)
    pl.read_parquet(path).with_columns(score=pl.col("score") + 1).write_parquet(path)
    _rewrite_manifest(run, old, path)
    with pytest.raises(DamagedError, match=str(path)):
        verified(two_runs)


def _rewrite_manifest(run, manifest, path):
    folder = run.folders.staged(run.run_id)
    files = tuple(
        msgspec.structs.replace(file, sha256=sha256_of(path)) if folder / file.path == path else file
        for file in manifest.files
    )
    write_json(folder / "manifest.json", msgspec.structs.replace(manifest, files=files))
