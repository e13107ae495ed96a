"""Two published runs, which all commands of this package are tried on."""

from __future__ import annotations

import shutil

import pytest

from firmlake.core.folders import Folders
from firmlake.landing.run import AlertRule
from support import (
    ACME,
    BOLT,
    CIRC,
    DATASETS,
    DAY,
    MINUTE,
    NOON,
    answer,
    found,
    header,
    land,
    lookalike,
    make_run,
    not_found,
    party,
    period,
    publish_landed,
)  # fmt: skip

FIRST, SECOND = "20260105T120000Z-0001", "20260106T120000Z-0002"
RECORDS = {"financials": period(), "lookalikes": lookalike(), "relationships": party()}


def watched(*names):
    """Rules about the status of companies; their places differ from run to run."""
    statuses = {"known": "!= 'not found'", "lost": "= 'not found'"}
    for name in names:
        when = {"status": statuses[name]}
        yield AlertRule(name=name, says=f"{name} of {len(names)}", severity="low", view="company_status", when=when)


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Two runs, of which the second changes one company, does not find another and fails on a third."""
    folders = Folders(tmp_path_factory.mktemp("two_runs"))
    for run_id, at, is_second in ((FIRST, NOON, False), (SECOND, NOON + DAY, True)):
        rules = tuple(watched("lost", "known") if is_second else watched("known"))
        run = make_run(folders, run_id=run_id, at=at, refused=[(7, "x", "no number")], alert_rules=rules)
        for dataset in DATASETS:
            changed = {**RECORDS[dataset], **({"unheardOf": 1} if is_second else {})}
            acme = found(ACME, dataset, changed, 5)
            acme["identifier"]["name"] = f"name in {run_id}"
            other = not_found(BOLT, dataset) if is_second else found(BOLT, dataset, changed)
            land(run, answer(dataset, acme, other, at=at, offset=0))
            last = answer(dataset, found(CIRC, dataset, changed), at=at, offset=0)
            ended = header(dataset, [CIRC], kind="given_up", status=None, error="refused", at=at, offset=0), b""
            land(run, ended if is_second else last)
        publish_landed(run, at=at + MINUTE)
    return folders


@pytest.fixture
def two_runs(made, folders):
    """A copy of them, to be harmed."""
    shutil.copytree(made.data, folders.data, symlinks=True)
    return folders
