"""The output about a data folder claims no more than was compared, and says how to forget a target."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from firmlake.rebuild.prune import Pinned
from firmlake.rebuild.verify import TableCheck
from firmlake.terminal.rows import show
from firmlake.terminal.status import checks_parts, removable_parts


@pytest.mark.parametrize(
    ("landed", "pruned", "said"),
    [
        (2, 0, "The landed answers of 2 runs and the warehouse agree in all 1 table"),
        (
            1,
            2,
            "The landed answers of 1 run and the warehouse agree in all 1 table. "
            "For 2 runs, whose landed answers were pruned, only the staged tables were compared",
        ),
        (0, 2, "The staged tables of 2 runs, whose landed answers were pruned, and the warehouse agree in all 1 table"),
    ],
)
def test_a_proof_says_what_runs_were_replayed_from(capsys, landed, pruned, said):
    runs = [SimpleNamespace(is_pruned=False)] * landed + [SimpleNamespace(is_pruned=True)] * pruned
    show(checks_parts([TableCheck("companies", 1, "x", 1, "x")], runs))
    assert capsys.readouterr().out.splitlines()[-1] == said


def test_a_target_that_keeps_a_generation_is_named_with_its_record(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    pinned = Pinned(Path("warehouse/gen_000001.duckdb"), 2_000_000, "duckdb:/gone firmlake", Path("state/a.json"))
    show(removable_parts([], True, pinned=[pinned]))
    said = capsys.readouterr().out
    assert all(text in said for text in ("gen_000001.duckdb", "duckdb:/gone firmlake", "state/a.json"))
    assert "delete its record" in said
