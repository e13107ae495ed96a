"""One process at a time works on a data folder, and what failed stays on record until it has succeeded."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pytest

from firmlake.core.errors import FirmlakeError, LockHeldError, UsageError
from firmlake.core.files import read_json
from firmlake.core.folders import Folders
from firmlake.core.work import failed_deliveries, failed_work, holder, lock, recorded_delivery

_HOLD = """
import sys
from pathlib import Path
from firmlake.core.work import lock
from firmlake.core.folders import Folders
with lock(Folders(Path(sys.argv[1])), "firmlake run list.csv"):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def other(folders):
    """Another process that holds the data folder."""
    command = [sys.executable, "-c", _HOLD, str(folders.data)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_process_is_kept_out_and_told_who_is_in(folders, other):
    with pytest.raises(LockHeldError) as caught, lock(folders, "second"):
        pass
    assert f"firmlake run list.csv, process {other.pid}" in caught.value.message
    assert str(folders.data) in caught.value.message
    assert caught.value.exit_code == 7
    assert f"process {other.pid}" in holder(folders)


def test_a_process_that_has_just_taken_the_lock_is_named_too(folders, other, monkeypatch):
    """Its name follows a moment later, and the second process waits for it."""
    path = folders.state / "lock"
    name = path.read_text()
    path.write_text("")
    monkeypatch.setattr("firmlake.core.work.sleep", lambda seconds: path.write_text(name))
    with pytest.raises(LockHeldError, match=f"process {other.pid} "), lock(folders, "second"):
        pass


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, None], ids=["kill -9", "kill", "its own end"])
def test_the_lock_dies_with_its_process(folders, other, how):
    if how is None:
        other.stdin.close()
    else:
        other.send_signal(how)
    other.wait(30)
    assert holder(folders) == ""
    with lock(folders, "second"):
        assert "second" in holder(folders)
    assert holder(folders) == ""


def test_looking_who_holds_the_folder_makes_nothing_and_takes_nothing(folders):
    assert holder(folders) == ""
    assert not folders.data.exists()
    with lock(folders, "first"):
        assert "first" in holder(folders)
        assert "first" in holder(folders)


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


def test_a_delivery_that_was_called_wrongly_is_told_to_the_caller_only(folders: Folders):
    folders.state.mkdir(parents=True)
    fail(recorded_delivery(folders.state, "an export to x"), UsageError("There is no table x"))
    assert failed_deliveries(folders.state) == []


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


@pytest.mark.parametrize(
    ("number", "is_reader"), [(errno.EROFS, True), (errno.EROFS, False), (errno.ENOSPC, True)], ids=str
)
def test_only_a_reader_works_in_a_folder_that_is_read_only(folders: Folders, monkeypatch, number, is_reader):
    folders.state.mkdir(parents=True)
    monkeypatch.setattr(Path, "touch", Mock(side_effect=OSError(number, os.strerror(number))))
    works = is_reader and number == errno.EROFS
    refused = nullcontext() if works else pytest.raises(FirmlakeError, match=os.strerror(number))
    with refused, lock(folders, "firmlake verify", is_reader=is_reader):
        pass


def test_a_record_that_may_not_be_read_is_not_called_damaged(tmp_path, monkeypatch):
    """To restore it from a copy would mend nothing."""

    def forbidden(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", forbidden)
    with pytest.raises(FirmlakeError, match=r"Permission denied. Give access"):
        read_json(tmp_path / "plan.json", int)
