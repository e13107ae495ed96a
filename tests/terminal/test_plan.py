"""What is said of a list and its plan before a run."""

from __future__ import annotations

from types import SimpleNamespace

import polars as pl

from firmlake.terminal.plan import describe_refused


def test_a_refused_line_without_text_is_named_by_its_reason_alone():
    """The text of a line is not kept if its company was forgotten."""
    refused = {"line": [2, 3, 4], "given": [None, "x", ""], "reason": ["forgotten", "wrong form", "empty"]}
    lines = list(describe_refused(SimpleNamespace(refused=pl.DataFrame(refused)), "customers"))
    assert lines == ["  line 2: forgotten", "  line 3: x: wrong form", "  line 4: (empty): empty"]
