"""A rule that raises alerts: what it is called, whom it is for, and what has to be true."""

from __future__ import annotations

import msgspec

__all__ = ["AlertRule"]


class AlertRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule, as read and checked by `firmlake.warehouse.alerts`.

    Attributes:
        says: What the rule watches for, as a sentence.
        severity: "high", "medium" or "low".
        list_name: The company list that the rule is for; empty for all companies.
        view: The relation with one row for each company that the rule reads.
        when: The comparison for each column, such as "< 0". All of them must be true.
    """

    name: str
    says: str
    severity: str
    list_name: str = ""
    view: str
    when: dict[str, str]

    @property
    def condition(self) -> str:
        """The view and the comparisons, for people to read."""
        return f"{self.view}: " + " and ".join(f"{column} {comparison}" for column, comparison in self.when.items())
