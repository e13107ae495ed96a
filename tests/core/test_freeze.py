"""Frozen tables that the plan of a run does not name are removed, whichever crash left them."""

from __future__ import annotations

import polars as pl

from firmlake.core.files import sha256_of
from firmlake.core.run import freeze_again
from support import ACME, make_run


def test_replaced_tables_and_those_that_a_crash_left_go_when_tables_are_frozen_again(folders):
    run = make_run(folders, [ACME], ["lookalikes"])
    run = freeze_again(run, run.plan, {"members": pl.DataFrame({"name": ["Ann"]})})
    for name in ("members-0a1b2c.parquet", ".members-0a1b2c.parquet.77.part", ".plan.json.77.part"):
        (run.folder / name).write_text("Ann")
    again = freeze_again(run, run.plan, {"members": pl.DataFrame({"name": ["Els"]})})
    kept = {path.name for path in again.folder.iterdir()}
    named = {again.plan.files.get(name, f"{name}.parquet") for name in again.plan.sha256}
    assert kept == {"plan.json", *named}
    assert all(sha256_of(again.checked(name)) == sha256 for name, sha256 in again.plan.sha256.items())
    assert run.plan.files["members"] not in kept
