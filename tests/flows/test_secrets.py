"""Prefect's database holds no piece of the token, however the service repeats it."""

from __future__ import annotations

import itertools
import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from firmlake.core.folders import Folders
from spellings import SPELLINGS, holds_piece

from .support import ByHand, write_list

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TOKEN = "canary/7f3a9c51+e0d24b86~token=="
_CELL_MIN = 12
"""A piece of the token is as long as this, at least."""


class _Echo(BaseHTTPRequestHandler):
    """Refuses each request and repeats the token, each time in another spelling."""

    server: _Server

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        spelled = next(self.server.spellings)(self.headers["Authorization"].removeprefix("Bearer ")).replace('"', "")
        body = b'{"status": 404, "message": "bad token %s"}' % spelled.encode()
        self.send_response(self.server.status)
        self.send_header("X-Request-Id", "x" * 245 + spelled)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    def __init__(self, status: int) -> None:
        super().__init__(("127.0.0.1", 0), _Echo)
        self.status, self.spellings = status, itertools.cycle(SPELLINGS.values())


@pytest.fixture(params=[401, 404, 500])
def echo(request: pytest.FixtureRequest) -> Iterator[_Server]:
    server = _Server(request.param)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def cells(path: Path) -> set[str]:
    """Everything that a database of SQLite holds, its write-ahead log included."""
    found: set[str] = set()
    with closing(sqlite3.connect(path)) as database:
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in database.execute(f'SELECT * FROM "{table}"'):
                found |= {str(value) for value in row if value is not None}
    return found


def test_no_piece_of_the_token_is_in_prefects_database(echo: _Server, by_hand: ByHand, folders: Folders) -> None:
    write_list(by_hand.folder / "list.csv", 3)
    by_hand.environment["FIRMLAKE_API_TOKEN"] = TOKEN
    settings = {
        "api.base_url": f"http://127.0.0.1:{echo.server_port}",
        "api.requests_per_minute": "0",
        "api.retry_wait_max_seconds": "0.01",
        "api.tries": "2",
        "paths.data": str(folders.data),
    }
    ended = by_hand.run("list.csv", settings=settings)
    assert ended.code == (5 if echo.status == 401 else 1), ended.err
    held = cells(folders.data / "prefect/prefect.db")
    assert any("[token]" in cell for cell in held), "what the service said is there, without the token"
    assert not [cell[:200] for cell in held if len(cell) >= _CELL_MIN and holds_piece(cell, TOKEN)]
    assert not holds_piece(json.dumps([ended.out, ended.err]), TOKEN)
    raw = b"".join(path.read_bytes() for path in (folders.data / "prefect").rglob("*") if path.is_file())
    assert TOKEN.encode() not in raw
