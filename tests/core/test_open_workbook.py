"""A workbook on a disk that is full."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from firmlake.core.open_workbook import open_workbook

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("is_by_row", [True, False])
def test_a_full_disk_is_named_and_nothing_stays_beside_the_file(is_by_row, tmp_path):
    with (
        FULL.open("wb", buffering=0) as file,
        pytest.raises(OSError, match="No space left") as caught,
        open_workbook(file, tmp_path, is_by_row=is_by_row) as book,
    ):
        book.add_worksheet("List").write_string(0, 0, "a")
    assert caught.value.errno == errno.ENOSPC
    assert not list(tmp_path.iterdir())
