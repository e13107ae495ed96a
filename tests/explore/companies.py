"""A small warehouse with a name that would be markup if a page took it as such."""

from __future__ import annotations

from firmlake.core.folders import Folders
from firmlake.core.rule import AlertRule
from support import ACME, BOLT, CIRC, DAY, MINUTE, NOON, answer, found, land, make_run, party, period, publish_landed

HOSTILE = "<img src=x onerror=alert(1)>"
RULE = AlertRule(name="poor", says="Poor", severity="high", view="watched_figures", when={"equity": "< 1000"})


def publish_companies(folders: Folders, week: int) -> None:
    """Publish three companies, one with a hostile name, which owns another."""
    at = NOON + week * 7 * DAY
    run = make_run(folders, run_id=f"2026010{5 + week}T120000Z-000{week}", at=at, alert_rules=(RULE,))
    for company in (ACME, BOLT, CIRC):
        years = [period(year, solvency__totalAssets=1000 + year - week) for year in (2024, 2023)]
        financials = found(company, "financials", *years)
        financials["identifier"]["name"] = HOSTILE if company == BOLT else f"{company.country} company"
        parents = [party(BOLT, percentage=0.6)] if company == ACME else []
        land(run, answer("financials", financials, at=at))
        land(run, answer("relationships", found(company, "relationships", *parents), at=at))
        land(run, answer("lookalikes", found(company, "lookalikes"), at=at))
    publish_landed(run, at=at + MINUTE)
