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


_known: dict[tuple[int, int], Undisturbed] = {}
_WITH_PAGES = """
    SELECT country, company_number FROM financials GROUP BY ALL HAVING count(*) > 6 ORDER BY ALL LIMIT 1 OFFSET 3
"""


@pytest.fixture
def undisturbed(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Undisturbed]:
    """What an undisturbed run over so many companies, in such shards, gives; ask before the first fault."""

    def run(count: int, shard_companies: int = 5000) -> Undisturbed:
        if (key := (count, shard_companies)) not in _known:
            lake = Lake(tmp_path_factory.mktemp("undisturbed"), sandbox, count, run__shard_companies=shard_companies)
            assert lake.run().code == 0
            ledger = lake.ledger()
            company, *_ = [*lake.query(_WITH_PAGES), ("", "")]
            content, neighbours = lake.content(), lake.content(without=company)
            figures = ledger["requests"], ledger["credits_charged"]
            _known[key] = Undisturbed(lake, content, *figures, company, neighbours)
            sandbox.reset()
        return _known[key]

    return run
