"""The token goes to the service and nowhere else; times that jump change nothing. See also `make_lake`'s last lines."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from spellings import SPELLINGS, echo, holds_piece, served

from .support import TOKEN, assert_whole, faults, poll, sized

COUNT = 120


class _Stranger(HTTPServer):
    """Keeps the headers of all who come."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[str] = []
        if context:
            self.socket = context.wrap_socket(self.socket, server_side=True)

    def handle_error(self, request, client_address) -> None:
        """A client that refuses our certificate is no trouble."""


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.server.seen.append(str(self.headers))
        self.send_error(500)

    def log_message(self, *arguments) -> None:
        """Say nothing."""


@pytest.fixture
def stranger() -> Iterator[_Stranger]:
    with served(_Stranger()) as server:
        yield server


@pytest.fixture
def unsigned(tmp_path: Path) -> Iterator[_Stranger]:
    """A service whose certificate nobody signed but itself."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
         "-keyout", key, "-out", certificate, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with served(_Stranger(context)) as server:
        yield server


@pytest.mark.parametrize("status", sized([307], [301, 302, 303, 307, 308]))
def test_a_redirect_ends_the_run_and_the_token_does_not_follow_it(status, sandbox, stranger, make_lake):
    lake = make_lake(COUNT)
    location = f"http://127.0.0.1:{stranger.server_port}/v1/companies"
    with faults(sandbox, {"kind": "status", "status": status, "headers": {"location": location}}):
        result = lake.run()
    assert result.code == 1
    assert "redirects" in result.error_line
    assert (stranger.seen, lake.ledger()["requests"]) == ([], 1)
    assert lake.run().code == 0


def test_a_certificate_that_cannot_be_verified_ends_the_run_before_the_token_is_sent(unsigned, make_lake):
    lake = make_lake(COUNT, api__base_url=f"https://localhost:{unsigned.server_port}")
    result = lake.run()
    assert result.code == 1
    assert "certificate" in result.error_line
    assert unsigned.seen == []


def test_plain_http_to_another_machine_is_refused_before_anything_is_sent(make_lake):
    result = make_lake(COUNT, api__base_url="http://service.example").run()
    assert result.code == 2
    assert "https" in result.error_line


@pytest.mark.reliability
def test_the_token_is_in_no_command_line_of_any_process(sandbox, make_lake):
    lake = make_lake(COUNT)
    with faults(sandbox, {"kind": "delay", "seconds": 0.2}):
        process = lake.start("run", str(lake.list))
        poll(lambda: lake.ledger()["requests"] >= 1)
        lines = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                lines.append(path.read_bytes())
            except OSError:
                continue
        assert lake.end(process).code == 0
    assert len(lines) > 2
    assert not [line for line in lines if TOKEN.encode() in line]


@pytest.mark.reliability
def test_a_wrong_token_is_not_repeated_in_what_is_said(sandbox, make_lake):
    lake = make_lake(COUNT)
    with faults(sandbox, {"kind": "status", "status": 401, "message": f"Bad token {TOKEN}"}):
        assert lake.run().code == 5
    assert lake.run().code == 0


@pytest.mark.parametrize("status", [401, pytest.param(404, marks=pytest.mark.reliability)])
@pytest.mark.parametrize("spell", sized(list(SPELLINGS)[::5], [name for n, name in enumerate(SPELLINGS) if n % 5]))
def test_the_token_in_any_spelling_of_the_service_is_written_nowhere(spell, status, make_lake):
    """Neither on stderr, into the log, the folder of failures, what status says, nor the landed answers."""
    with echo(status, lambda: SPELLINGS[spell]) as address:
        lake = make_lake(3, api__base_url=address, api__tries=1)
        result = lake.run("--log", str(lake.folder / "log.jsonl"))
    assert result.code == (5 if status == 401 else 1), result.err
    assert lake.call("status").code == lake.call("status", "--json").code == 0
    texts = [path.read_text() for path in (lake.data / "state").glob("*.json")] + lake.said
    texts.append((lake.folder / "log.jsonl").read_text())
    assert not [text for text in texts if holds_piece(text, TOKEN)]


@pytest.mark.parametrize("days", sized([], [-4000, -400, -2, -1, 1, 20, 25]))
def test_a_clock_that_jumps_between_two_runs_buys_and_loses_nothing(days, make_lake, undisturbed, monkeypatch):
    expected = undisturbed(COUNT)
    lake = make_lake(COUNT)
    assert lake.run("--max-requests", "3").code == 4
    jumped = SimpleNamespace(now=lambda zone: datetime.now(zone) + timedelta(days=days))
    monkeypatch.setattr("firmlake.core.work.datetime", jumped)
    result = lake.run()
    assert result.code == 0, result.err
    assert lake.run().code == 0
    monkeypatch.undo()
    assert lake.run().code == 0
    assert_whole(lake, expected)
