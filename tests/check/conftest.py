"""A data folder and the command line on it, and what a run over the plain service gives."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from firmlake.tables.schemas import TABLES
from firmlake.warehouse.generations import open_warehouse
from firmlake_sandbox import Sandbox
from lake import Lake, Result

COUNT = 12
_VARIES = {"run_id", "valid_from_run", "request_id", "fetched_at", "paid_at", "payload_hash", "position", "extra_json"}
"""Of a run, of the bytes that came, and of the order in which the service lists them."""
_TABLES = ("companies", "financials", "financial_joint_committees", "lookalikes", "relationships", "company_state")


class Contact(NamedTuple):
    """A check and the run after it."""

    check: Result
    run: Result
    lake: Lake

    @property
    def verdicts(self) -> dict[str, str]:
        return {one["assumption"]: one["verdict"] for one in self.check.content["findings"]}

    @property
    def seen(self) -> dict[str, str]:
        return {one["assumption"]: one["seen"] for one in self.check.content["findings"]}

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self.check.content["settings"])


def rows_of(lake: Lake, left_out: Collection[str] = ()) -> dict[str, list[tuple[Any, ...]]]:
    """All rows about the companies of the list, without columns that vary and those that are left out."""
    found = {}
    listed = ", ".join(map(str, lake.numbers))
    with open_warehouse(lake.folders) as connection:
        for table in _TABLES:
            columns = ", ".join(c.name for c in TABLES[table].columns if c.name not in {*_VARIES, *left_out})
            sql = f"SELECT {columns} FROM {table} WHERE (country, company_number) IN ({listed}) ORDER BY ALL"
            found[table] = connection.execute(sql).fetchall()
    return found


@pytest.fixture(scope="session")
def world(sandbox_process: tuple[Sandbox, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A run over the same list with the service that was assumed."""
    sandbox, options = sandbox_process
    sandbox.reset()  # of the faults of whichever test was before
    sandbox.set_options(**options)
    lake = Lake(tmp_path_factory.mktemp("world"), sandbox, COUNT)
    assert lake.run().code == 0
    return lake


@pytest.fixture
def make_contact(sandbox: Sandbox, tmp_path: Path) -> Callable[..., Contact]:
    """First contact with a service of these dialects: check, then a run with what the check wrote."""

    def make(*dialects: str, name: str = "lake", check: tuple[str, ...] = (), runs: bool = True) -> Contact:
        sandbox.reset()
        sandbox.set_options(dialect=dialects)
        lake = Lake(tmp_path / name, sandbox, COUNT)
        written = lake.folder / "written.toml"
        checked = lake.call("check", "--write", str(written), "--json", *check)
        return Contact(checked, lake.run("--config", str(written)) if runs else checked, lake)

    return make
