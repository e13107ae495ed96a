"""An error of the disk at every n-th change of a file: the run ends in one line, and the next one goes on."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from lake import Lake

from .support import assert_whole, sized

COUNT, SHARD = 40, 20
STEP = 12
"""Calls of one test: its lake is made anew for each."""
CALLS_MAX = 360
"""More than a run makes; those beyond its end change nothing."""
_ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT)


class _Disk:
    """Counts the changes below a folder, and fails at one of them."""

    def __init__(self, folder: Path, fails_at: int) -> None:
        self.folder, self.fails_at, self.calls, self.failed = str(folder), fails_at, 0, ""

    def changed(self, name: str, target: object) -> bool:
        """Whether this call is the one to fail."""
        path = str(Path(f"/proc/self/fd/{target}").readlink()) if isinstance(target, int) else os.fspath(target)
        if not path.startswith(self.folder):
            return False
        self.calls += 1
        if self.calls == self.fails_at:
            self.failed = f"{name} {path}"
        return self.calls == self.fails_at

    def error(self, target: object) -> OSError:
        """As the system's: a call by path names it, one about an open file names nothing."""
        number = _ERRORS[self.fails_at % len(_ERRORS)]
        return OSError(number, os.strerror(number), None if isinstance(target, int) else str(target))

    def failing(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(target: Any, *arguments: Any, **options: Any) -> Any:
            if self.changed(name, target):
                if name == "write" and len(arguments[0]) > 1:
                    function(target, bytes(arguments[0])[: len(arguments[0]) // 2])  # a disk fills in the middle
                if name == "write_bytes":
                    function(target, bytes(arguments[0])[: len(arguments[0]) // 2])
                raise self.error(target)
            return function(target, *arguments, **options)

        return call


@contextmanager
def failing_disk(folder: Path, fails_at: int) -> Iterator[_Disk]:
    """Let the n-th change of a file below a folder fail: open, write, fsync, rename, link, mkdir, chmod, unlink."""
    disk = _Disk(folder, fails_at)
    os_names = ("write", "fsync", "rename", "replace", "mkdir", "symlink", "chmod", "unlink", "open")
    patches = [patch.object(os, name, disk.failing(name, getattr(os, name))) for name in os_names]
    patches.append(patch.object(Path, "write_bytes", disk.failing("write_bytes", Path.write_bytes)))
    patches.append(patch.object(shutil, "copyfile", disk.failing("copyfile", shutil.copyfile)))
    for one in patches:
        one.start()
    try:
        yield disk
    finally:
        for one in patches:
            one.stop()


def _last(first: int) -> range:
    return range(first, first + STEP)


@pytest.mark.parametrize("first", sized([], range(1, CALLS_MAX, STEP)))
def test_whatever_file_call_fails_the_run_ends_in_one_line_and_the_next_goes_on(
    first, sandbox, make_lake, undisturbed, record_property
):
    expected = undisturbed(COUNT)
    record_property("faults", sum(_fails_at(n, make_lake, sandbox, expected) for n in _last(first)))


def _fails_at(n: int, make_lake: Callable[..., Lake], sandbox: Any, expected: Any) -> bool:
    """Whether the run made so many calls."""
    sandbox.reset()
    lake = make_lake(COUNT, f"call-{n}", run__shard_companies=SHARD)
    with failing_disk(lake.data, n) as disk:
        result = lake.run()
    if not disk.failed:
        assert result.code == 0
        shutil.rmtree(lake.data)
        return False
    if result.code != 0:
        assert (result.code, bool(result.error_line)) == (1, True), disk.failed
        assert str(lake.data) in result.error_line, (disk.failed, result.error_line)
    again = lake.run()
    assert again.code == 0, (disk.failed, again.err)
    assert_whole(lake, expected)
    shutil.rmtree(lake.data)
    return True
