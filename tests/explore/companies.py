"""A small warehouse with a name that would be markup if a page took it as such."""

from __future__ import annotations

from firmlake.core.folders import Folders
from firmlake.landing.run import AlertRule
from support import ACME, BOLT, CIRC, found, party, period, run_of

HOSTILE = "<img src=x onerror=alert(1)>"
RULE = AlertRule(name="poor", says="Poor", severity="high", view="watched_figures", when={"equity": "< 1000"})


def publish_companies(folders: Folders, week: int = 0) -> None:
    """Publish three companies, one with a hostile name, which owns another."""
    years = [period(year, solvency__totalAssets=1000 + year - week) for year in (2024, 2023)]
    answers = {}
    for company in (ACME, BOLT, CIRC):
        financials = found(company, "financials", *years)
        financials["identifier"]["name"] = HOSTILE if company == BOLT else f"{company.country} company"
        owners = [party(BOLT, percentage=0.6)] if company == ACME else []
        answers[company] = {"financials": financials, "relationships": owners, "lookalikes": []}
    run_of(folders, 7 * week, answers, alert_rules=(RULE,))
