"""The first run of services that differ: every value is right, or without its questions the ending says what helps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from firmlake_sandbox import Sandbox
from reliability.support import Lake

from .conftest import COUNT, rows_of
from .test_first_contact import PLAIN, UNSAID

SILENT = {"language-header"}
"""What a run cannot notice: names in another language are names. Only `check` compares two languages."""
UNREAD = {"message-ok"}
"""What three companies do not show."""
NAMED = {
    "paging-skip-take": (1, "`firmlake check LIST --write FILE` to find settings that fit"),
    "paging-ignored": (3, "Write {limit} and {offset} in api.requests.financials"),
    "body-short": (1, "`firmlake check LIST --write FILE` to find settings that fit"),
    "body-silent": (1, "`firmlake check LIST --write FILE` to find settings that fit"),
    "message-ok": (3, "if it means success, set api.names.success_message"),
    "zero-required": (3, "the service knows none of 12 Belgian companies"),
    "fractions-100": (3, 'set contract.scales = {"relationships.stake_fraction" = 100}'),
    "scores-100": (0, 'set contract.scales = {"lookalikes.score" = 100}'),
}
"""Exit code of a run, and what it says."""


pytestmark = pytest.mark.slow


@pytest.fixture
def make_lake(sandbox: Sandbox, tmp_path: Path) -> Callable[..., Lake]:
    def make(dialect: str, check: str = "false") -> Lake:
        sandbox.reset()
        sandbox.set_options(dialect=(dialect,))
        return Lake(tmp_path / "lake", sandbox, COUNT, run__check=check)

    return make


@pytest.fixture
def nothing() -> Iterator[str]:
    """A server that answers every path with a bare 404."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def correct(lake: Lake, *command: str) -> None:
    """Follow the advice: write the settings that fit, and go on with them."""
    written = lake.folder / "written.toml"
    assert lake.call("check", str(lake.list), "--write", str(written)).code == 0
    assert lake.call(*command, "--config", str(written)).code == 0, lake.said[-1]


@pytest.mark.parametrize("name", sorted({*PLAIN} - UNREAD - SILENT))
def test_a_first_run_gives_every_value(name, make_lake, world):
    lake = make_lake(name, "true")
    result = lake.run()
    assert result.code == 0, result.err
    left_out = UNSAID.get(name, ())
    assert rows_of(lake, left_out) == rows_of(world, left_out)


@pytest.mark.parametrize("name", NAMED)
def test_without_its_questions_the_ending_names_what_helps(name, make_lake):
    lake = make_lake(name)
    result = lake.call("run", str(lake.list))
    code, said = NAMED[name]
    assert result.code == code, result.err
    assert said in result.out + result.err


def test_companies_that_a_service_spells_otherwise_are_found_once_the_advice_is_followed(make_lake, world):
    lake = make_lake("zero-required")
    result = lake.call("run", str(lake.list))
    assert (result.code, "the service knows none of 12 Belgian companies" in result.error_line) == (3, True), result.err
    assert "Why: the service knows none of 12 Belgian companies" in lake.call("status").out
    correct(lake, "run", str(lake.list), "--refresh")
    assert rows_of(lake) == rows_of(world)
    assert "none of 12 Belgian companies" not in lake.call("status").out


def test_pages_that_a_service_repeats_are_complete_once_the_advice_is_followed(make_lake, world):
    lake = make_lake("paging-ignored")
    result = lake.run()
    assert result.code == 3
    assert "Write {limit} and {offset} in api.requests.financials" in result.error_line
    assert lake.ledger()["companies_charged_again"] == 0
    correct(lake, "redrive")
    assert rows_of(lake) == rows_of(world)
    assert lake.ledger()["companies_charged_again"] == 0


def test_a_first_run_whose_first_request_is_refused_asks_everything_and_is_complete(make_lake, sandbox, world):
    lake = make_lake("oldest-first", "true")
    sandbox.set_options(companies_per_request=6)
    result = lake.run()
    assert result.code == 0, result.err
    assert "it differs from the settings in api.companies_per_request" in result.err
    assert "companies_per_request = 6" in (lake.data / "state/profile.toml").read_text()
    assert lake.ledger()["companies_charged_again"] == 0
    assert rows_of(lake) == rows_of(world)


def test_other_words_for_an_unknown_company_are_named_with_their_setting(make_lake):
    lake = make_lake("not-found-text")
    lake.list.write_text(lake.list.read_text() + "NL,01000001\n")
    result = lake.run()
    assert result.code == 3
    assert "set api.names.not_found_message to it" in result.error_line
    result = lake.call("redrive", "--set", "api.names.not_found_message=Onderneming onbekend")
    assert result.code == 0, result.err


def test_another_structure_of_answers_is_said_with_where_to_look(make_lake):
    result = make_lake("wrapped").run()
    assert result.code == 1
    assert "the answer is not a JSON array" in result.error_line
    assert "`firmlake check` to see how the answers differ" in result.error_line


def test_an_address_at_which_there_is_nothing_is_said_with_what_to_correct(make_lake, nothing):
    lake = make_lake("oldest-first")
    lake.set("api__base_url", nothing)
    result = lake.run()
    assert result.code == 1
    assert "Correct api.base_url, to which /v1/... is appended; `firmlake check` tests it" in result.error_line
    assert "Correct api.base_url" in lake.call("status").out
