"""One process at a time works on a data folder."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from firmlake.core.errors import LockHeldError
from firmlake.core.work import holder, lock

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


def test_a_name_that_is_not_utf_8_is_shown_all_the_same(folders):
    folders.state.mkdir(parents=True)
    (folders.state / "lock").write_bytes(b"\xff\xfe")
    assert holder(folders) == ""
    with lock(folders, "second"):
        (folders.state / "lock").write_bytes(b"\xff\xfe")
        assert holder(folders) == "\ufffd\ufffd"
        with pytest.raises(LockHeldError, match="in use by"), lock(folders, "third"):
            pass


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
