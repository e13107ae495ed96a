"""Memory: collecting rarely ends with the outermost work that wanted it, and what was freed goes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmlake.core.process import give_back, greater_limit


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux says how much memory there is in use")
def test_what_was_freed_goes_back_to_the_system():
    """One block that stays at the end keeps all before it."""
    blocks = [bytes(4_000) for _ in range(15_000)]
    stays, held = blocks[-1], _pages()
    blocks.clear()
    give_back()
    assert stays
    assert _pages() < held - 10_000


def _pages():
    return int(Path("/proc/self/statm").read_text().split()[1])


@pytest.mark.parametrize(
    ("limits", "greatest"),
    [(("400MB", "224MB"), "400MB"), (("400MB", "1 GiB"), "1 GiB"), (("400MB", "390MiB"), "390MiB")],
)
def test_limits_are_compared_by_their_size(limits, greatest):
    assert greater_limit(*limits) == greater_limit(*reversed(limits)) == greatest
