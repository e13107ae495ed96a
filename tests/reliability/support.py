"""What the content of a data folder must be after it was run, killed, cut off and lied to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from firmlake.core.files import ZstdError, decompress_frames
from firmlake_sandbox import Sandbox
from lake import TOKEN, Content, Lake
from spellings import SPELLINGS, holds_piece

KILLED = Path(__file__).with_name("killed.py")
"""Runs firmlake and kills it at an instant."""


def sized(sample: Iterable[object], full: Iterable[object], *, timeout: int = 600) -> list[Any]:
    """The cases of the default run, and those of `-m reliability`."""
    marks = [pytest.mark.reliability, pytest.mark.timeout(timeout)]
    return [
        *(pytest.param(case, id=f"slice-{_name(case)}") for case in sample),
        *(pytest.param(case, id=f"full-{_name(case)}", marks=marks) for case in full),
    ]


class Undisturbed(NamedTuple):
    """What a run over so many companies gives when nothing goes wrong.

    Attributes:
        lake: Where it ran.
        content: All rows.
        requests: How many requests it took.
        charged: What it cost.
        company: A company that exists and has several pages of periods, if one is among them.
        neighbours: The content without that company.
    """

    lake: Lake
    content: Content
    requests: int
    charged: int
    company: tuple[str, str]
    neighbours: Content


def assert_whole(lake: Lake, expected: Undisturbed) -> None:
    """Nothing lost, nothing double, nobody paid twice, nothing left lying about, and landed = staged = warehouse."""
    assert lake.content() == expected.content
    ledger = lake.ledger()
    assert ledger["companies_charged_again"] == 0
    assert ledger["credits_charged"] == expected.charged
    assert lake.call("verify", "--json").code == 0, lake.said[-1]
    assert not (strays := lake.strays()), strays


def assert_accounted(summary: dict[str, Any]) -> None:
    """Every company is in exactly one status of each dataset."""
    for dataset, counts in summary["datasets"].items():
        assert sum(counts.values()) == summary["company_count"], dataset


def name_of(company: tuple[str, str]) -> str:
    """A company as the sandbox's rules and charges have it."""
    return "".join(company)


@contextmanager
def faults(sandbox: Sandbox, *rules: dict[str, Any]) -> Iterator[None]:
    """Let the service be so for a while."""
    sandbox.set_faults(list(rules))
    try:
        yield
    finally:
        sandbox.set_faults([])


def find_token(folder: Path, said: Iterable[str]) -> list[str]:
    """Where the token is to be read, though it must not be: whole, in any spelling, also in what is compressed."""
    spelled = {spell(TOKEN).encode() for spell in SPELLINGS.values()} | {spell(TOKEN[:-2]).encode() for spell in _PLAIN}
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    found = [str(path) for path in files if any(secret in content for content in _contents(path) for secret in spelled)]
    return found + [text for text in said if holds_piece(text, TOKEN)]


_PLAIN = (SPELLINGS["plain"], SPELLINGS["base64"])


def _contents(path: Path) -> Iterator[bytes]:
    yield path.read_bytes()
    if path.suffix == ".zst":
        with suppress(ZstdError):  # damaged by a test
            yield decompress_frames(path.read_bytes())


def _name(case: object) -> str:
    return "-".join(map(str, case)) if isinstance(case, tuple) else str(case)
