"""Whoever starts the work, a command, a flow or Python, with the same settings the warehouse holds the same."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firmlake.core.folders import Folders
from firmlake.core.settings_layers import load_settings
from firmlake.enrich import run as runner
from firmlake.service_lists.apply import read_service_lists
from firmlake.tables.schemas import WAREHOUSE_TABLES
from firmlake.warehouse.generations import open_warehouse
from firmlake_sandbox import Sandbox

from .support import FLOWS, ROOT, settings_for, write_list

pytestmark = pytest.mark.timeout(400)  # on a busy machine Prefect's server alone takes two minutes to start

COMPANIES = 12
PLAIN = {"run__shard_companies": 5, "run__check": "true"}
EXPAND = {"run__shard_companies": 5, "run__check": "false", "run__expand": "lookalikes", "run__max_credits": 40}

# Names and times of runs and requests; which of two requests at the same time is charged; persons are concealed with a
# key of the data folder.
_OF_ONE_RUN = {
    "run_id", "valid_from_run", "valid_to_run", "request_id", "duration_seconds", "credits_charged",
    "credits_remaining", "created_by",
}  # fmt: skip
Start = Callable[..., None]


class Place:
    """Where one entry point works: a data folder, and the settings by dotted key that lead there."""

    def __init__(self, sandbox: Sandbox, folder: Path, company_list: Path, server: str) -> None:
        self.sandbox, self.folder, self.company_list, self.server = sandbox, folder, company_list, server
        self.data = folder / "data"

    def overrides(self, **settings: object) -> dict[str, str]:
        return settings_for(self.sandbox, self.data, **settings)

    def settings(self, **settings: object) -> Any:
        return load_settings(flags=self.overrides(**settings), environment={})[0]

    def flow(self, name: str) -> Any:
        from prefect.flows import load_flow_from_entrypoint

        return load_flow_from_entrypoint(f"{FLOWS / name}.py:{name}")

    def command(self, *arguments: str, **settings: object) -> None:
        """Call `firmlake`, which may end as a budget makes it end."""
        flags = [part for key, value in self.overrides(**settings).items() for part in ("--set", f"{key}={value}")]
        done = subprocess.run(
            [sys.executable, "-m", "firmlake", *arguments, *flags],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in (0, 4), done.stderr

    def content(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of every table, without what no two runs have in common."""
        found = {}
        with open_warehouse(Folders(self.data)) as connection:
            for name, table in WAREHOUSE_TABLES.items():
                columns = [
                    one.name for one in table.columns if one.name not in _OF_ONE_RUN and not one.name.endswith("_at")
                ]
                found[name] = connection.execute(f"SELECT {', '.join(columns)} FROM {name} ORDER BY ALL").fetchall()
        return found


@pytest.fixture
def place(
    enrich: Any, prefect_server: str, sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Place]:
    """Make a place for an entry point, on a service that has forgotten the others; `enrich` prepares Prefect."""
    monkeypatch.setenv("FIRMLAKE_API_TOKEN", sandbox.token)
    monkeypatch.chdir(ROOT)
    write_list(tmp_path / "list.csv", COMPANIES)

    def make(name: str) -> Place:
        sandbox.reset()
        (tmp_path / name).mkdir()
        return Place(sandbox, tmp_path / name, tmp_path / "list.csv", prefect_server)

    return make


def enrich_in_python(at: Place, **settings: object) -> None:
    runner.enrich(at.settings(**settings), at.company_list, "a test")


def enrich_by_command(at: Place, **settings: object) -> None:
    at.command("run", str(at.company_list), **settings)


def enrich_by_flow(at: Place, **settings: object) -> None:
    at.flow("enrich")(str(at.company_list), overrides=at.overrides(**settings), return_state=True)


@pytest.mark.parametrize(
    ("start", "settings"),
    [
        pytest.param(enrich_by_command, EXPAND, id="command-expand", marks=pytest.mark.slow),
        pytest.param(enrich_by_flow, PLAIN, id="flow-list"),
        pytest.param(enrich_by_command, PLAIN, id="command-list", marks=pytest.mark.slow),
        pytest.param(enrich_by_flow, EXPAND, id="flow-expand", marks=pytest.mark.slow),
    ],
)
def test_an_enrichment(place: Callable[[str], Place], start: Start, settings: dict[str, object]):
    expected, found = place("python"), place("other")
    enrich_in_python(expected, **settings)
    at_first = expected.sandbox.ledger(summary=True)["summary"]["credits_charged"]
    found.sandbox.reset()
    start(found, **settings)
    assert found.sandbox.ledger(summary=True)["summary"]["credits_charged"] == at_first
    content = found.content()
    assert content == expected.content()
    assert (at_first, len(content["runs"])) == ((40, 2) if "run__expand" in settings else (COMPANIES, 1))


@pytest.mark.slow
@pytest.mark.parametrize("is_flow", [True, False])
def test_the_overview_of_the_lists(place: Callable[[str], Place], is_flow: bool):
    expected, found = place("python"), place("other")
    expected.sandbox.set_options(lists=20)
    read_service_lists(expected.settings(), "OVERVIEW", "a test")
    if is_flow:
        found.flow("service_lists")(overrides=found.overrides(), return_state=True)
    else:
        found.command("service-lists")
    content = found.content()
    assert content == expected.content()
    assert len(content["service_lists"]) == 20
