"""Tables of alerts: the rules of the newest run that had any, and what they found."""

from __future__ import annotations

from firmlake.tables.schemas.shape import Column, Table
from firmlake.tables.schemas.shared import COMPANY

__all__ = ["TABLES_OF_ALERTS"]

_RULE = Column("rule", "text", "Name of the rule")
_SAYS = Column("says", "text", "What the rule looks for, as a sentence")
_SEVERITY = Column("severity", "text", "Severity of the rule: high, medium or low")
_LIST = Column("list_name", "text", "Company list to which the rule is limited", "the rule is for all companies")
_CONDITION = Column("condition", "text", "View that the rule reads, and the comparisons that it makes")

TABLES_OF_ALERTS = (
    Table(
        "alert_rules",
        "One row for each alert rule of the newest run that had rules",
        ("rule",),
        (
            _RULE,
            Column("position", "integer", "Position in the file of rules, from 0"),
            _SAYS,
            _SEVERITY,
            _LIST,
            _CONDITION,
            Column("run_id", "text", "First run that had the rule with these values"),
        ),
        volatile=("position",),
    ),
    Table(
        "alerts",
        "One row for each alert, open or closed. A run opens an alert when it finds that a company meets a rule, and "
        "closes it when the company no longer does",
        ("rule", "country", "company_number", "opened_run"),
        (
            _RULE,
            *COMPANY,
            Column("opened_run", "text", "Run that opened the alert"),
            Column("opened_at", "timestamp", "Time of that run's last answer, UTC"),
            Column("state", "text", "opened (by the last run), still open, or closed"),
            _SAYS,
            _SEVERITY,
            _LIST,
            _CONDITION,
            Column(
                "evidence",
                "json",
                "Figures that the rule compared, as text by column, with the dates of their periods, as of the last "
                "run that found the rule met",
                privacy="text",
            ),
            Column("doubt", "text", "Why the newest figures may be wrong, see quality", "there is no known reason"),
            Column("seen_run", "text", "Last run in which the company met the rule"),
            Column("seen_at", "timestamp", "Time of that run's last answer, UTC"),
            Column("closed_run", "text", "Run that closed the alert", "the alert is open"),
            Column("closed_at", "timestamp", "Time of that run's last answer, UTC", "the alert is open"),
            Column(
                "closed_because",
                "text",
                "Why the alert was closed: no longer true, left the list, rule changed (and no longer met) or rule "
                "removed",
                "the alert is open",
            ),
        ),
        volatile=("state", "seen_run", "seen_at"),
    ),
)
