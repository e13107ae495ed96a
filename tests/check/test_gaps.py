"""docs/service_gaps.md, the dialects and the check speak of the same gaps by the same names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from firmlake_sandbox import Sandbox
from firmlake_sandbox.dialects import DIALECTS

PAGE = (Path(__file__).parents[2] / "docs/service_gaps.md").read_text("utf-8")
ROWS = {line.split(" | ")[0].removeprefix("| ") for line in PAGE.splitlines() if line.startswith("| ")}
APART = {"address", "a run with these settings", "values"}
"""Findings about no gap of the specification."""
AROUND = {"JSON", "transfer", "elements"}
"""Gaps that a paragraph is about, not a row."""


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_stands_beside_its_gap(name: str) -> None:
    gap = DIALECTS[name].gap
    if gap in AROUND:
        assert f"`{name}`" in PAGE
    else:
        assert gap in ROWS
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| {gap} |"))
        assert f"`{name}`" in row


@pytest.mark.slow
def test_every_finding_is_about_a_row(make_contact: Any) -> None:
    verdicts = make_contact(check=("--companies", "1"), runs=False).verdicts
    found = {re.sub("^endpoints of .*", "endpoints", assumption) for assumption in verdicts}
    assert found - APART <= ROWS


def test_every_dialect_that_is_named_exists() -> None:
    named = set(re.findall(r"`([a-z]+(?:-[a-z0-9]+)*)`", PAGE))
    assert {name for name in named if "-" in name and not name.startswith("service-")} <= DIALECTS.keys()


def test_the_examples_are_answers_of_the_embedded_service(sandbox: Sandbox) -> None:
    """An answer may be shortened to its first records."""
    examples = re.findall(r"```http\nPOST (\S+)\n(.*?)\n```.*?```json\n(.*?)\n```", PAGE, re.DOTALL)
    assert len(examples) == 3
    for path, asked, shown in examples:
        headers = {"Authorization": f"Bearer {sandbox.token}", "Content-Type": "application/json"}
        answer = httpx.post(sandbox.base_url + path, content=asked, headers=headers).json()
        expected = json.loads(shown)
        if path.endswith("lookalikes"):
            assert len(answer[0]["data"]) == 20
            answer[0]["data"] = answer[0]["data"][: len(expected[0]["data"])]
        assert answer == expected
