"""Lakes on the sandbox, whose token is a canary: no lake may hold it when its test is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from firmlake_sandbox import Sandbox
from lake import Lake

from .support import Undisturbed, find_token

MakeLake = Callable[..., Lake]


@pytest.fixture
def make_lake(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeLake]:
    """Make data folders; at the end the token must be in none of their files and in nothing that was printed."""
    lakes: list[Lake] = []

    def make(count: int, name: str = "lake", service: Sandbox = sandbox, **settings: object) -> Lake:
        lakes.append(Lake(tmp_path / name, service, count, **settings))
        return lakes[-1]

    yield make
    said = [text for lake in lakes for text in lake.said]
    assert find_token(tmp_path, said) == []


_known: dict[int, Undisturbed] = {}
_WITH_PAGES = """
    SELECT country, company_number FROM financials GROUP BY ALL HAVING count(*) > 6 ORDER BY ALL LIMIT 1 OFFSET 3
"""


@pytest.fixture
def undisturbed(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Undisturbed]:
    """What an undisturbed run over so many companies gives; ask before the first fault."""

    def run(count: int) -> Undisturbed:
        if count not in _known:
            lake = Lake(tmp_path_factory.mktemp("undisturbed"), sandbox, count)
            assert lake.run().code == 0
            ledger = lake.ledger()
            company, *_ = [*lake.query(_WITH_PAGES), ("", "")]
            content, neighbours = lake.content(), lake.content(without=company)
            figures = ledger["requests"], ledger["credits_charged"]
            _known[count] = Undisturbed(lake, content, *figures, company, neighbours)
            sandbox.reset()
        return _known[count]

    return run
