"""A finding: one assumption about the service, what was seen, and whether a person has to act."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct

Verdict = Literal["as_assumed", "covered", "needs_you", "not_observed"]

VERDICTS: dict[Verdict, str] = {
    "as_assumed": "as assumed",
    "covered": "differs, covered",
    "needs_you": "differs, needs you",
    "not_observed": "not observed for this price",
}
"""The verdicts as shown. A difference is covered if firmlake handles it, by itself or with the finding's settings."""


class Finding(Struct, frozen=True):
    """The result for one assumption."""

    assumption: str  # the name of a row in docs/service_gaps.md
    seen: str  # what the service did, in one line
    verdict: Verdict
    settings: dict[str, Any] = {}  # by dotted key; they make runs fit this service
    next_step: str = ""  # what a person can do if the verdict is `needs_you`, or should know if it is another


def needs_you(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that a person must look at."""
    return [finding for finding in findings if finding.verdict == "needs_you"]


def worth_saying(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that need no decision, but that a person should know."""
    return [finding for finding in findings if finding.verdict != "needs_you" and finding.next_step]
