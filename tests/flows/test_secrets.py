"""Prefect's database holds no piece of the token, however the service repeats it."""

from __future__ import annotations

import itertools
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from firmlake.core.folders import Folders
from spellings import SPELLINGS, echo, holds_piece

from .support import ByHand, write_list

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TOKEN = "canary/7f3a9c51+e0d24b86~token=="
_CELL_MIN = 12
"""A piece of the token is as long as this, at least."""


def cells(path: Path) -> set[str]:
    """Everything that a database of SQLite holds, its write-ahead log included."""
    found: set[str] = set()
    with closing(sqlite3.connect(path)) as database:
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in database.execute(f'SELECT * FROM "{table}"'):
                found |= {str(value) for value in row if value is not None}
    return found


@pytest.mark.parametrize("status", [401, 404, 500])
def test_no_piece_of_the_token_is_in_prefects_database(status: int, by_hand: ByHand, folders: Folders) -> None:
    write_list(by_hand.folder / "list.csv", 3)
    by_hand.environment["FIRMLAKE_API_TOKEN"] = TOKEN
    settings = {
        "api.requests_per_minute": "0",
        "api.retry_wait_max_seconds": "0.01",
        "api.tries": "2",
        "paths.data": str(folders.data),
    }
    with echo(status, itertools.cycle(SPELLINGS.values()).__next__) as address:
        ended = by_hand.run("list.csv", settings={**settings, "api.base_url": address})
    assert ended.code == (5 if status == 401 else 1), ended.err
    held = cells(folders.data / "prefect/prefect.db")
    assert any("[token]" in cell for cell in held), "what the service said is there, without the token"
    assert not [cell[:200] for cell in held if len(cell) >= _CELL_MIN and holds_piece(cell, TOKEN)]
    assert not holds_piece(json.dumps([ended.out, ended.err]), TOKEN)
    raw = b"".join(path.read_bytes() for path in (folders.data / "prefect").rglob("*") if path.is_file())
    assert TOKEN.encode() not in raw
