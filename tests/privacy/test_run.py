"""A run with masked persons: their names reach no file, and everything else is as it would be."""

from __future__ import annotations

from pathlib import Path

import pytest

import firmlake_sandbox
from firmlake.core.folders import Folders
from firmlake.core.settings_layers import load_settings
from firmlake.enrich.run import enrich
from firmlake.landing.segments import read_segment
from support import UNASKED, query

_ROWS = """
    SELECT country, company_number, direction, position, related_country, related_company_number, function,
           stake_fraction, related_kind FROM relationships ORDER BY ALL
"""
_NAMES = "SELECT country, company_number, direction, position, related_name FROM relationships ORDER BY ALL"
_PERSONS = "SELECT DISTINCT related_name FROM relationships WHERE related_kind = 'named_party'"


@pytest.fixture(scope="module")
def made(tmp_path_factory, sandbox_process):
    """The same companies with each value of the setting."""
    sandbox, options = sandbox_process
    folder = tmp_path_factory.mktemp("persons")
    numbers = firmlake_sandbox.sample_numbers(40)
    (folder / "list.csv").write_text("land;nummer\n" + "".join(f"{country};{number}\n" for country, number in numbers))
    made = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRMLAKE_API_TOKEN", sandbox.token)
        for persons in ("keep", "hash", "drop"):
            sandbox.set_options(**options)
            sandbox.reset()
            flags = {
                "api.base_url": sandbox.base_url, "api.requests_per_minute": "0", "run.datasets": "relationships",
                "paths.data": str(folder / persons), "privacy.persons": persons,
            }  # fmt: skip
            enrich(load_settings(flags=flags, environment=UNASKED)[0], folder / "list.csv", "a test")
            made[persons] = Folders(folder / persons)
    return made


def _landed(folders: Folders) -> bytes:
    return b"".join(one.body for path in folders.data.rglob("landing/**/*.zst") for one in read_segment(Path(path)))


@pytest.mark.parametrize("persons", ["hash", "drop"])
def test_no_name_lands(made, persons):
    names = [name for (name,) in query(made["keep"], _PERSONS)]
    assert len(names) > 5
    assert all(name.encode() in _landed(made["keep"]) for name in names)
    assert not any(name.encode() in _landed(made[persons]) for name in names)
    assert len(query(made[persons], _PERSONS)) == (len(names) if persons == "hash" else 0)


def test_hashed_persons_leave_structures_stakes_and_counts_as_they_are(made):
    assert query(made["hash"], _ROWS) == query(made["keep"], _ROWS)
    pairs = {
        (row[4], kept[4]) for row, kept in zip(query(made["hash"], _NAMES), query(made["keep"], _NAMES), strict=True)
    }
    assert len({new for new, _ in pairs}) == len({old for _, old in pairs}) == len(pairs)


def test_dropped_persons_leave_stakes_and_counts_as_they_are(made):
    as_anonymous = [(*row[:-1], row[-1].replace("named_party", "anonymous")) for row in query(made["keep"], _ROWS)]
    assert query(made["drop"], _ROWS) == as_anonymous
