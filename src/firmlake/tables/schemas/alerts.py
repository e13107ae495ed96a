"""Tables of alerts: the rules of the newest run that had any, and what they found."""

from __future__ import annotations

from firmlake.tables.schemas.shape import Column, Table
from firmlake.tables.schemas.shared import COMPANY

__all__ = ["TABLES_OF_ALERTS"]

_RULE = Column("rule", "text", "Name of the rule")
_SAYS = Column("says", "text", "What the rule watches for, as a sentence")
_SEVERITY = Column("severity", "text", "high, medium or low")
_LIST = Column("list_name", "text", "Company list that the rule is for", "it is for all companies")
_CONDITION = Column("condition", "text", "View that the rule reads, and its comparisons")

TABLES_OF_ALERTS = (
    Table(
        "alert_rules",
        "One row for each rule of the newest run that had rules",
        ("rule",),
        (
            _RULE,
            Column("position", "integer", "Place in the file of rules, 0 first"),
            _SAYS,
            _SEVERITY,
            _LIST,
            _CONDITION,
            Column("run_id", "text", "First run with the rule in its present state"),
        ),
        volatile=("position",),
    ),
    Table(
        "alerts",
        "One row for each time that a company began to meet a rule: an alert, open or closed",
        ("rule", "country", "company_number", "opened_run"),
        (
            _RULE,
            *COMPANY,
            Column("opened_run", "text", "Run that opened the alert"),
            Column("opened_at", "timestamp", "When that run had its last answer, UTC"),
            Column("state", "text", "opened: by the last run; still open; or closed"),
            _SAYS,
            _SEVERITY,
            _LIST,
            _CONDITION,
            Column(
                "evidence",
                "json",
                "The figures compared, by column and as text, with the days of their periods; as of the last run that "
                "met the rule",
                privacy="text",
            ),
            Column("doubt", "text", "Why the newest figures may be wrong, see quality", "no doubt is known"),
            Column("seen_run", "text", "Last run in which the company met the rule"),
            Column("seen_at", "timestamp", "When that run had its last answer, UTC"),
            Column("closed_run", "text", "Run that closed the alert", "it is open"),
            Column("closed_at", "timestamp", "When that run had its last answer, UTC", "it is open"),
            Column(
                "closed_because",
                "text",
                "no longer true, left the list, rule changed (and no longer met) or rule removed",
                "it is open",
            ),
        ),
        volatile=("state", "seen_run", "seen_at"),
    ),
)
