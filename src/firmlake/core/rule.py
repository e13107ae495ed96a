"""Rules about the rows of a relation: those that raise alerts, and gates, which decide about a generation."""

from __future__ import annotations

import msgspec


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule, as read and checked by `firmlake.warehouse.rules`.

    Attributes:
        says: What the rule watches for, as a sentence.
        list_name: The company list that the rule is for; empty for all companies.
        view: The relation that the rule reads.
        when: The comparison for each column, such as "< 0". All of them must be true.
    """

    name: str
    says: str
    list_name: str = ""
    view: str
    when: dict[str, str]

    @property
    def condition(self) -> str:
        """The view and the comparisons, for people to read."""
        compared = " and ".join(f"{column} {comparison}" for column, comparison in self.when.items())
        return f"{self.view}: {compared}" if compared else self.view


class AlertRule(Rule, frozen=True, kw_only=True):
    """A rule that raises alerts for companies that meet it; its severity is "high", "medium" or "low"."""

    severity: str


class Gate(Rule, frozen=True, kw_only=True):
    """A rule that decides whether a generation is published.

    Attributes:
        publish_if: What must be true of the number of rows that meet the rule, or with % of their share, such as
            ">= 95 %", "= 0" or ">= last - 10 %", where `last` is the same of the generation published last.
    """

    publish_if: str
