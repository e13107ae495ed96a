"""What failed stays on record until it has succeeded: work on the folder, and each delivery by itself."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from firmlake.core.errors import DamagedError, FirmlakeError, UsageError
from firmlake.core.files import read_json
from firmlake.core.folders import Folders
from firmlake.core.work import about_run, failed_deliveries, failed_work, lock, recorded_delivery
from firmlake.rebuild.replay import replay
from firmlake.report.metrics import render_metrics
from firmlake.report.status import read_status
from firmlake.terminal.rows import show
from firmlake.terminal.status import status_parts
from support import ACME, MINUTE, NOON, answer, found, land, lookalike, make_run, stage


def fail(context, error=None):
    with pytest.raises(FirmlakeError), context:
        raise error or FirmlakeError("No space left on device", "Make room")


def test_the_record_goes_when_the_same_work_succeeds_and_not_when_other_work_does(folders: Folders):
    fail(lock(folders, "firmlake verify"))
    with lock(folders, "firmlake prune"):
        pass
    assert failed_work(folders.state)[-1].what == "firmlake verify"
    with lock(folders, "firmlake verify"):
        pass
    assert failed_work(folders.state) == []


def test_the_record_goes_when_what_mends_it_has_succeeded(folders: Folders):
    """Otherwise `status` would go on asking for a replay that has been done."""
    fail(lock(folders, "firmlake run a.csv"), DamagedError("No warehouse", "Rebuild it with `firmlake replay`"))
    with lock(folders, "firmlake verify"):
        pass
    assert failed_work(folders.state)
    with lock(folders, "firmlake replay"):
        pass
    assert failed_work(folders.state) == []


def test_a_delivery_that_fails_is_told_apart_and_named_until_it_succeeds(folders: Folders, capsys):
    folders.state.mkdir(parents=True)
    fail(recorded_delivery(folders.state, "an export to x"))
    fail(recorded_delivery(folders.state, "a load into y"))
    status = read_status(folders)
    assert (status.failure, sorted(each.what for each in status.undelivered)) == (
        None, ["a load into y", "an export to x"],
    )  # fmt: skip
    metrics = render_metrics(status)
    assert 'firmlake_failed{list=""} 0' in metrics
    assert "firmlake_failed_deliveries 2" in metrics
    show(status_parts(status, NOON))
    assert "Not delivered: a load into y" in capsys.readouterr().out
    with recorded_delivery(folders.state, "a load into y"):
        pass
    (left,) = failed_deliveries(folders.state)
    assert left.what == "an export to x"
    (record,) = (folders.state / "failures").iterdir()
    assert str(record) in left.next_step, "what is given up would stay there for good"


def test_a_delivery_that_was_called_wrongly_is_told_to_the_caller_only(folders: Folders):
    fail(recorded_delivery(folders.state, "an export to x"), UsageError("There is no table x"))
    assert failed_deliveries(folders.state) == []


@pytest.mark.parametrize("is_named", [True, False])
def test_the_failure_of_a_run_is_over_when_a_replay_publishes_that_run(is_named, folders: Folders):
    """Not that of a run that failed before it began, which a replay of earlier ones leaves to do."""
    run = make_run(folders, [ACME], ["lookalikes"])
    land(run, answer("lookalikes", found(ACME, "lookalikes", lookalike())))
    stage(run)
    run.finish("done", "", NOON + MINUTE)
    with (
        pytest.raises(FirmlakeError),
        lock(folders, "firmlake run list.csv"),
        about_run(run.run_id if is_named else ""),
    ):
        raise FirmlakeError("No space left on device", "Make room")
    assert read_status(folders).failure
    replay(folders, lambda: NOON + 2 * MINUTE)
    assert bool(read_status(folders).failure) is not is_named


@pytest.mark.parametrize(
    ("number", "next_step"),
    [
        (errno.EACCES, "Give access, or run as the owner of the data folder"),
        (errno.EROFS, "Give access"),
        (errno.ENOSPC, "Make room on the disk"),
        (errno.EIO, "Check the disk and the path"),
    ],
)
def test_a_file_that_the_system_refuses_is_told_with_its_path_and_recorded(folders: Folders, number, next_step):
    """A file that root owns, or a share that is gone: wherever it is read, there is no traceback."""
    with pytest.raises(FirmlakeError), lock(folders, "firmlake verify"):
        raise OSError(number, os.strerror(number), "landing/00001.zst")
    line = failed_work(folders.state)[-1].line
    assert line.startswith(f"landing/00001.zst: {os.strerror(number)}. {next_step}")


def test_a_record_that_may_not_be_read_is_not_called_damaged(tmp_path, monkeypatch):
    """To restore it from a copy would mend nothing."""

    def forbidden(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", forbidden)
    with pytest.raises(FirmlakeError, match=r"Permission denied. Give access"):
        read_json(tmp_path / "plan.json", int)
