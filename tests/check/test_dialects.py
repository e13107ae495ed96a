"""Services that differ from the embedded one: after a check, and on a first run, every value is right.

Without its questions, the ending of a run says what helps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from firmlake_sandbox import Sandbox
from firmlake_sandbox.dialects import DIALECTS, combine
from lake import Lake

from .conftest import COUNT, rows_of

PLAIN = [name for name, dialect in DIALECTS.items() if not dialect.ending]
_NAMES = ("related_identifier_name", "related_place")
UNSAID = {"children-company-id": _NAMES, "children-flat": _NAMES, "functions-new": ("function",)}
"""What a dialect leaves unsaid, or says otherwise: columns."""
NAMELESS = ({"nulls-omitted", "fields-added"}, {"empties-omitted", "fields-added"})
"""Each two leave persons without `identifier` but with undocumented fields: unknown rather than named parties."""


def unsaid_by(dialects: tuple[str, ...]) -> set[str]:
    """Columns whose values these dialects leave unsaid."""
    names = {name for given in dialects for name in (combine(int(given[5:])) if ":" in given else [given])}
    left_out = {column for name in names for column in UNSAID.get(name, ())}
    return left_out | ({"related_kind"} if any(two <= names for two in NAMELESS) else set())


# --- a check, and a run with what it wrote ---------------------------------------------------------------------------


class Scene(NamedTuple):
    """A first contact, and what it must come to.

    Attributes:
        dialects: How the service differs, several at once.
        codes: Exit codes of the check and the run.
        needs: The finding that needs a person.
        lacks: The dataset of which there is nothing.
        left_out: Columns that may differ from the plain service.
        apart: The table that may differ.
        settings: Beginnings of settings that the check has written.
    """

    dialects: tuple[str, ...]
    codes: tuple[int, int] = (0, 0)
    needs: str = ""
    lacks: str = ""
    left_out: frozenset[str] = frozenset()
    apart: str = ""
    settings: dict[str, str] = {}  # noqa: RUF012 - it is never changed


CONTACTS = {
    "several names": Scene(
        ("body-short", "paging-skip-take", "language-header", "companies-20", "records-200", "credits-renamed")
    ),
    "a wrapped array": Scene(("wrapped",)),
    "several forms": Scene(("body-silent", "zero-required", "page-100", "oldest-first", "errors-nested", "gzip")),
    "as assumed": Scene((), settings={"api.totals": "company"}),
    "a dataset is forbidden": Scene(("forbidden",), (1, 3), "endpoints of relationships", "relationships"),
    "a dataset is down": Scene(("down",), (1, 3), "endpoints of lookalikes", "lookalikes"),
    "fractions of people": Scene(
        ("decimal-integers",), left_out=frozenset({"health_indicator", "employee_count", "reject_count"})
    ),
    "another scale of health": Scene(("health-hundred",), left_out=frozenset({"health_indicator"})),
    "another language": Scene(
        ("language-default",),
        left_out=frozenset({"name", "place", "related_identifier_name", "related_place", "related_name"}),
    ),
    "children of no known shape": Scene(
        ("children-unknown",), left_out=frozenset({"reject_count"}), apart="relationships"
    ),
}


def assert_scene(scene: Scene, make_contact: Any, world: Lake) -> Any:
    """Every value is that of the plain service, nobody is paid twice, and nothing is left to do."""
    contact = make_contact(*scene.dialects)
    assert (contact.check.code, contact.run.code) == scene.codes, contact.check.out + contact.run.err
    assert {name for name, verdict in contact.verdicts.items() if verdict == "needs_you"} >= {
        *filter(None, [scene.needs])
    }
    assert all(contact.settings[key].startswith(value) for key, value in scene.settings.items())
    assert contact.lake.ledger()["companies_charged_again"] == 0
    left_out = {*scene.left_out, *unsaid_by(scene.dialects), *(["status"] if scene.lacks else [])}
    found, expected = rows_of(contact.lake, left_out), rows_of(world, left_out)
    apart = {scene.apart, scene.lacks, *(["company_state"] if scene.lacks else [])}
    assert {name: rows for name, rows in found.items() if name not in apart} == {
        name: rows for name, rows in expected.items() if name not in apart
    }
    assert not scene.lacks or found[scene.lacks] == []
    return contact


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTACTS)
def test_a_checked_service_gives_every_value(name: str, make_contact: Any, world: Lake) -> None:
    contact = assert_scene(CONTACTS[name], make_contact, world)
    if name == "as assumed":
        assert set(contact.verdicts.values()) == {"as_assumed", "not_observed"}
        assert contact.check.content["credits_charged"] == 2, "the third company does not exist"
        spent = contact.lake.ledger()["credits_charged"]
        assert spent == contact.run.content["expected_credit_count"] + 2
        run_id = contact.check.content["run_id"]
        ((requests, charged),) = contact.lake.query(
            f"SELECT count(*), sum(credits_charged) FROM requests WHERE run_id = '{run_id}'"
        )
        assert (requests > 15, charged) == (True, 2), "what was asked before the run landed in it"
        assert contact.lake.call("check", "--json").code == 0
        assert contact.lake.ledger()["credits_charged"] == spent, "a second check costs nothing"


@pytest.mark.reliability
@pytest.mark.parametrize("seed", range(40))
def test_combinations_give_every_value(seed: int, make_contact: Any, world: Lake) -> None:
    contact = assert_scene(Scene((f"seed:{seed}",)), make_contact, world)
    assert contact.lake.call("verify", "--json").code == 0


# The options of a check -> its exit code, and what it says.
CHECKS = {
    "one credit": (("--companies", "1"), 0, ""),
    "no credit": (("--set", "run.max_credits=0"), 4, "max_credits"),
    "no country": (("--company", "0403227515"), 2, "does not begin with BE, NL or FR"),
    "a wrong number": (("--company", "BE 0403227516"), 2, "0403227516"),
    "too many": (
        ("--company", "NL 33011433", "--company", "FR 552032534", "--companies", "1"), 2, "2 companies are named",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_keeps_to_what_it_may_spend_and_says_what_it_cannot_ask(name: str, make_contact: Any) -> None:
    options, code, said = CHECKS[name]
    contact = make_contact(check=options, runs=False)
    assert contact.check.code == code
    assert said in contact.check.err
    if code == 0:
        assert contact.check.content["credits_charged"] == 1
        assert contact.verdicts["company not found"] == "not_observed"
        contact.lake.environment["FIRMLAKE_API_TOKEN"] = "wrong"
        assert contact.lake.call("check").code == 5
        assert contact.lake.call("status", "--json").content["unfinished"] == [], "nothing was paid for"
    else:
        assert contact.lake.ledger()["requests"] == 0


@pytest.mark.slow
def test_a_person_sees_a_table_and_what_to_do(make_contact: Any) -> None:
    contact = make_contact("forbidden", check=("--companies", "1"), runs=False)
    shown = contact.lake.call("check", "--company", "BE 0403.091.220").out
    assert "endpoints of relationships" in shown
    assert "differs, needs you" in shown
    assert "- endpoints of relationships: GET 403, POST 403: forbidden" in shown
    assert "Ask the service to allow or repair relationships" in shown


# --- a first run -----------------------------------------------------------------------------------------------------

UNSEEN = {"message-ok"}
"""What three companies do not show."""
FIT = "`firmlake check LIST --write FILE` to find settings that fit"
NAMED: dict[str, tuple[int, str, tuple[str, ...]]] = {
    # dialect -> exit code of a run that asks nothing, what it says, and what mends it with the settings of a check
    "paging-skip-take": (1, FIT, ()),
    "paging-ignored": (3, "Write {limit} and {offset} in api.requests.financials", ("redrive",)),
    "body-short": (1, FIT, ()),
    "body-silent": (1, FIT, ()),
    "message-ok": (3, "if it means success, set api.names.success_message", ()),
    "zero-required": (3, "the service knows none of 12 Belgian companies", ("run", "--refresh")),
    "fractions-100": (3, 'set contract.scales = {"relationships.stake_fraction" = 100}', ()),
    "scores-100": (0, 'set contract.scales = {"lookalikes.score" = 100}', ()),
    "not-found-text": (3, "set api.names.not_found_message to it", ("redrive",)),
}


@pytest.fixture
def make_lake(sandbox: Sandbox, tmp_path: Path) -> Callable[..., Lake]:
    def make(dialect: str, check: str = "false") -> Lake:
        sandbox.reset()
        sandbox.set_options(dialect=(dialect,))
        return Lake(tmp_path / "lake", sandbox, COUNT, run__check=check)

    return make


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*PLAIN} - UNSEEN))
def test_a_first_run_gives_every_value(name, make_lake, world):
    lake = make_lake(name, "true")
    result = lake.run()
    assert result.code == 0, result.err
    left_out = UNSAID.get(name, ())
    assert rows_of(lake, left_out) == rows_of(world, left_out)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMED)
def test_without_its_questions_the_ending_names_what_helps_and_that_helps(name, make_lake, world):
    code, said, command = NAMED[name]
    lake = make_lake(name)
    if name == "not-found-text":
        lake.list.write_text(lake.list.read_text() + "NL,01000001\n")
    result = lake.call("run", str(lake.list))
    assert (result.code, said in result.out + result.err) == (code, True), result.out + result.err
    assert lake.ledger()["companies_charged_again"] == 0
    if code == 3 and name == "zero-required":
        assert f"Why: {said}" in lake.call("status").out
    if command:
        written = lake.folder / "written.toml"
        assert lake.call("check", str(lake.list), "--write", str(written)).code == 0
        again = [*command[:1], *([str(lake.list)] if command[0] == "run" else []), *command[1:]]
        assert lake.call(*again, "--config", str(written)).code == 0, lake.said[-1]
        assert name == "not-found-text" or rows_of(lake) == rows_of(world)
        assert lake.ledger()["companies_charged_again"] == 0
        assert name != "zero-required" or said not in lake.call("status").out


@pytest.mark.slow
def test_a_first_run_whose_first_request_is_refused_asks_everything_and_is_complete(make_lake, sandbox, world):
    lake = make_lake("oldest-first", "true")
    sandbox.set_options(companies_per_request=6)
    result = lake.run()
    assert result.code == 0, result.err
    assert "it differs from the settings in api.companies_per_request" in result.err
    assert "companies_per_request = 6" in (lake.data / "state/profile.toml").read_text()
    assert lake.ledger()["companies_charged_again"] == 0
    assert rows_of(lake) == rows_of(world)


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

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.slow
def test_an_address_at_which_there_is_nothing_is_said_with_what_to_correct(make_lake, nothing):
    lake = make_lake("oldest-first")
    lake.set("api__base_url", nothing)
    result = lake.run()
    assert result.code == 1
    assert "Correct api.base_url, to which /v1/... is appended; `firmlake check` tests it" in result.error_line
    assert "Correct api.base_url" in lake.call("status").out
