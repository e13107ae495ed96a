"""Files are whole or not there, whatever happens while they are written."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from firmlake.core.errors import DamagedError, FirmlakeError
from firmlake.core.files import read_json, write_file, write_json


class Value(msgspec.Struct, frozen=True):
    text: str
    number: float = 0.0


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_is_named(tmp_path, monkeypatch, step):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os if step == "fsync" else type(path), step, fail)
    with pytest.raises(FirmlakeError, match=f"{path}: No space left on device") as caught:
        write_file(path, lambda aside: aside.write_bytes(b"new"))
    assert caught.value.next_step
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("write", ["write_json(path, {'a': 'x' * 100_000})", "write_parquet(path, frame)"])
def test_a_limit_of_the_file_size_is_a_full_disk(tmp_path, write):
    """A real limit of the kernel, in a process of its own."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    done = subprocess.run(
        [sys.executable, "-c", _FULL, str(path), write], capture_output=True, text=True, timeout=60, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
    )  # fmt: skip
    assert "File too large" in done.stdout, done.stderr
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


_FULL = """
import sys
from pathlib import Path
import polars as pl
from firmlake.core.errors import FirmlakeError
from firmlake.core.files import write_json, write_parquet
frame = pl.DataFrame({"n": pl.int_range(100_000, eager=True).shuffle(0)})
path = Path(sys.argv[1])
try:
    exec(sys.argv[2])
except FirmlakeError as error:
    print(error)
"""


def test_what_a_killed_write_left_goes_and_what_others_write_beside_it_is_left_alone(tmp_path):
    others = [".other.json.1.part", ".file.json2.1.part", "file.json.part"]
    for name in (*others, ".file.json.77.part"):
        (tmp_path / name).write_bytes(b"x")
    write_json(tmp_path / "file.json", 1)
    assert names(tmp_path) == sorted([*others, "file.json"])


def test_a_file_is_durable_before_it_has_its_name_and_its_name_after(tmp_path, monkeypatch):
    seen = []
    fsync = os.fsync

    def note(handle):
        seen.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", note)
    path = tmp_path / "new" / "file"
    write_file(path, lambda aside: aside.write_bytes(b"x"))
    assert seen == [str(tmp_path), str(path.with_name(f".file.{os.getpid()}.part")), str(path.parent)]


def test_every_changed_byte_of_a_json_file_is_found(tmp_path):
    """Or changes nothing, where it is a blank between two values."""
    path = tmp_path / "a.json"
    write_json(path, Value("abc", 1.5))
    content = bytearray(path.read_bytes())
    for position in range(len(content)):
        for flip in (0x01, 0x20, 0x80):
            content[position] ^= flip
            path.write_bytes(content)
            with suppress(DamagedError):
                assert read_json(path, Value) == Value("abc", 1.5)
            content[position] ^= flip


@pytest.mark.parametrize(
    ("error", "next_step"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "Make room on the disk"),
        (OSError("No space left on device (os error 28)"), "Make room on the disk"),  # as Polars says it
        (OSError("Permission denied (os error 13)"), "Give access"),
        (OSError("failed"), "Check the disk and the path"),
    ],
)
def test_what_a_refused_write_needs_is_told_whoever_words_the_error(tmp_path, error, next_step):
    def write(path):
        raise error

    with pytest.raises(FirmlakeError) as caught:
        write_file(tmp_path / "a", write)
    assert caught.value.next_step.startswith(next_step)
    assert not [*tmp_path.iterdir()]
