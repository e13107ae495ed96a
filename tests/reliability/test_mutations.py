"""A damaged file: harmless, or detected and named; never silently other data. And what repairs it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from lake import Content, Lake

from .support import sized

COUNT = 60
EACH = 10
"""Mutations of one test."""
KINDS = {
    "landed": "landing/*/shard=*/*.zst",
    "staged": "staged/*/*/*.parquet",
    "marker": "staged/*/shard=*.json",
    "manifest": "staged/*/manifest.json",
    "generation": "warehouse/gen_*.duckdb",
    "log": "landing/*/log/*.zst",
    "frozen": "landing/*/*.parquet",
}
MADE = ("staged", "marker", "manifest", "generation")
"""What replay makes again from the landed answers."""


def flip(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.chmod(0o644)
    path.write_bytes(content)


def truncate(path: Path, chance: random.Random) -> None:
    content = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(content[: chance.randrange(len(content))])


def delete(path: Path, chance: random.Random) -> None:
    path.unlink()


WAYS = (flip, flip, flip, truncate, truncate, delete)


@pytest.mark.parametrize(
    "case",
    sized([], [("landed", 0, 1), *((kind, seed, EACH) for kind in KINDS for seed in range(1, 5))]),
)
def test_damage_is_harmless_or_named_and_repaired(case, make_lake, sandbox, tmp_path, record_property):
    kind, seed, each = case
    chance = random.Random(f"{kind} {seed}")
    lake = make_lake(COUNT, run__shard_companies=30)
    sandbox.set_options(credits=40)
    assert lake.run().code == 4
    sandbox.set_options(credits=1_000_000)
    assert lake.run().code == 0
    whole, content = tmp_path / "whole", lake.content()
    lake.data.rename(whole)
    outcomes = [_damage(lake, whole, content, kind, chance) for _ in range(each)]
    record_property("damage", f"{kind}: {outcomes.count('named')} named, {outcomes.count('harmless')} harmless")


def _damage(lake: Lake, whole: Path, content: Content, kind: str, chance: random.Random) -> str:
    """Damage a copy; whether that was named or did no harm."""
    shutil.rmtree(lake.data, ignore_errors=True)
    shutil.copytree(whole, lake.data, symlinks=True)
    requests = lake.ledger()["requests"]
    path = chance.choice(sorted(lake.data.glob(KINDS[kind])))
    spared = path.with_name("spared")
    shutil.copyfile(path, spared)
    backup = spared.rename(lake.folder / "spared")
    way = chance.choice(WAYS)
    way(path, chance)
    what = f"{way.__name__} {path}"
    verified = lake.call("verify", "--json")
    if verified.code == 0:
        assert lake.content() == content, what
        outcome = "harmless"
    else:
        assert verified.code == 1, what
        line = verified.error_line
        assert str(path) in line or path.parent.name in line or "differs" in line or path.parent.name == "warehouse", (
            what,
            line,
        )
        outcome = "named"
    replayed = lake.call("replay", "--json")
    if kind in MADE:
        assert replayed.code == 0, (what, replayed.err)
    if replayed.code:
        assert replayed.error_line
    else:
        assert lake.content() == content, (what, "after replay")
    if kind not in MADE:
        shutil.copyfile(backup, path)
        assert lake.call("replay").code == 0, (what, lake.said[-1])
    assert lake.call("verify", "--json").code == 0, (what, lake.said[-1])
    assert lake.run().code == 0, (what, lake.said[-1])
    assert lake.content() == content, (what, "after the next run")
    assert lake.ledger()["requests"] == requests, (what, "what was held was asked for again")
    return outcome
