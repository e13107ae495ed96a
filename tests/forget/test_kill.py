"""A forget that is killed at any change of a file is finished by the next one, which is told no name."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from firmlake.core.folders import Folders
from firmlake.delivery.deliver import Request, deliver
from firmlake.delivery.destination import Folder
from firmlake.forget.forget import forget
from firmlake.privacy.tombstones import Subject
from firmlake.rebuild import replay
from firmlake.rebuild.archive import archive
from firmlake.warehouse.exported import note_archive
from firmlake.warehouse.generations import newest, open_warehouse, publish
from firmlake.warehouse.load import load_run
from firmlake.warehouse.loads import Load
from support import ACME, DAY, export, land_run, party, query, stage

from .world import NAME, SPELLED, make_weeks, now, places_of, settings_of

_COUNT = "SELECT count(*) FROM runs"
_PARTS = 6
_STEP = int(os.environ.get("FORGET_KILL_STEP", "24"))
"""One of so many changes of a file is tried; 6 tries them all, which takes most of an hour of one processor."""


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    """A data folder with an archive, an export and a loaded database."""
    folder = tmp_path_factory.mktemp("kill")
    world = folder / "world"
    folders = make_weeks(Folders(world / "data"), 1)
    archive(folders, Folder(world / "archive"))
    note_archive(folders, str(world / "archive"))
    export(folders, Request(format="csv"), Folder(world / "export"), now=now)
    deliver(folders, Request(target=f"duckdb:{world / 'target.duckdb'}"), now=lambda: now() - DAY)
    world.rename(folder / "template")
    return folder


@pytest.mark.slow
def test_a_kill_between_the_published_and_the_held_generation_loses_neither(copy_of, monkeypatch):
    """The runs of the one that a gate holds back are in no other generation."""
    folders = copy_of(make_weeks, 1)
    held = land_run(folders, 8, {ACME: {"relationships": [party(None, name=NAME)]}})
    load = Load(3, held.run_id, now(), now())
    manifest, ended = stage(held), held.finish("done", "", now())
    publish(
        folders,
        lambda connection, _: load_run(connection, held, manifest, ended, load) is None,
        memory_limit="100MB", keep=9, start=newest(folders),
    )  # fmt: skip
    with open_warehouse(folders, with_held=True) as connection:
        loaded = [query(folders, _COUNT), connection.execute(_COUNT).fetchall()]
    with monkeypatch.context() as patch:
        made = Mock(side_effect=[replay.publish_content, KeyboardInterrupt])
        patch.setattr(replay, "publish_content", lambda *args, **named: made()(*args, **named))
        with pytest.raises(KeyboardInterrupt):
            forget(settings_of(folders), [Subject("person", NAME)], now)
    done = forget(settings_of(folders), [], now)
    assert done.finished_count == 1
    assert places_of(folders.data, *SPELLED) == set()
    with open_warehouse(folders, with_held=True) as connection:
        assert [query(folders, _COUNT), connection.execute(_COUNT).fetchall()] == loaded == [[(2,)], [(3,)]]


@pytest.mark.reliability
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(_PARTS))
def test_the_next_forget_finishes_what_a_killed_one_began(template, part):
    """Each part begins at another change of a file."""
    script = Path(__file__).parent / "killed_points.py"
    arguments = [str(template), str(1 + part), str(_STEP)]
    folders = os.pathsep.join([str(script.parent.parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-P", str(script), *arguments],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": folders},
    )  # fmt: skip
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) > 3, done.stderr
    assert results[-1]["killed"] == 0, done.stderr
    for each in results[:-1]:
        assert each == {"kill_at": each["kill_at"], "killed": -signal.SIGKILL, "ended": 0, "checked": 0}, done.stderr
