"""A finding: one assumption about the service, what was seen of it, and whether anybody has to do something."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct

__all__ = ["VERDICTS", "Finding", "Verdict", "needs_you"]

Verdict = Literal["as_assumed", "covered", "needs_you", "not_observed"]

VERDICTS: dict[Verdict, str] = {
    "as_assumed": "as assumed",
    "covered": "differs, covered",
    "needs_you": "differs, needs you",
    "not_observed": "not observed for this price",
}
"""In a person's words. Covered is what firmlake reads anyway, or what the settings of the finding put right."""


class Finding(Struct, frozen=True):
    """What was found out about one assumption.

    Attributes:
        assumption: A row of docs/service_gaps.md.
        seen: What the service did, in one line.
        settings: By dotted key, the settings that make runs right with this service.
        next_step: What a person can do, where the verdict is `needs_you`.
    """

    assumption: str
    seen: str
    verdict: Verdict
    settings: dict[str, Any] = {}
    next_step: str = ""


def needs_you(findings: Iterable[Finding]) -> list[Finding]:
    """Choose the findings that a person must look at."""
    return [finding for finding in findings if finding.verdict == "needs_you"]
