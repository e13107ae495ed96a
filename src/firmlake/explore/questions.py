"""The questions of the application, each answered with a frame; none takes a text from a user into its SQL."""

# ruff: noqa: S608 - statements are put together from our own texts

from __future__ import annotations

from functools import lru_cache
from typing import Final

import polars as pl

from firmlake.core.sql import read_queries
from firmlake.explore.holding import Holding
from firmlake.report.feed import alert_row
from firmlake.report.sections import find_section

_SQL = read_queries(__file__)

ALL: Final = "All companies"
_FOUND_MAX = 200
_CHANGES_MAX = 20_000


def generation(holding: Holding) -> dict[str, object]:
    """Tell how many companies and runs there are, and when the last run ended."""
    return holding.ask(_SQL["generation"]).to_dicts()[0]


def lists(holding: Holding) -> list[str]:
    """List the names of company lists, after the name that stands for all companies."""
    return [ALL, *holding.ask("SELECT list_name FROM company_lists ORDER BY ALL")["list_name"]]


@lru_cache(maxsize=4)
def portfolio(holding: Holding, company_list: str) -> pl.DataFrame:
    """Read the newest figures of all companies, or of those of a list: one row for each company with accounts."""
    return holding.ask(_SQL["portfolio"].format(listed=_LISTED if company_list != ALL else ""), _of(company_list))


def find(holding: Holding, text: str, company_list: str) -> pl.DataFrame:
    """Find companies by a part of their name or number, those whose name begins with it first."""
    words = text.strip()
    if not words:
        return holding.ask(f"SELECT * FROM ({_FOUND.format(listed='')}) LIMIT 0", {"text": "", "digits": ""})
    digits = "".join(each for each in words if each.isdigit())
    sql = _FOUND.format(listed=_LISTED if company_list != ALL else "")
    return holding.ask(sql, {"text": words, "digits": digits if len(digits) >= 4 else "-", **_of(company_list)})


@lru_cache(maxsize=4)
def groups(holding: Holding) -> pl.DataFrame:
    """List the largest groups, as the report does."""
    found = holding.ask(find_section("report/largest_groups").sql).filter(pl.col("members") > 1)
    return found.drop("total").with_columns(pl.selectors.decimal().cast(pl.Float64))


def members(holding: Holding, head: str) -> pl.DataFrame:
    """List the members of a group with its stake, its steps below the head, and its newest figures."""
    return holding.ask(_SQL["members"], {"head": head})


def peers(holding: Holding, country: str, number: str) -> pl.DataFrame:
    """List the peers of a company, the largest first."""
    return holding.ask("SELECT * FROM peers_of($country, $number) LIMIT 200", {"country": country, "number": number})


def changes(holding: Holding, company_list: str, kinds: tuple[str, ...]) -> pl.DataFrame:
    """List the newest changes that runs found, of these kinds, or without any of all."""
    sql = _CHANGES.format(listed=_LISTED if company_list != ALL else "")
    return holding.ask(sql, {"kinds": list(kinds), **_of(company_list)})


def alerts(holding: Holding, company_list: str, *, with_closed: bool) -> pl.DataFrame:
    """List alerts, the gravest and newest first."""
    rows = [
        {name: alert[name] for name in ("name", "country", "company_number")}
        | alert_row(alert)
        | {"because": alert["closed_because"]}
        for alert in holding.alerts(with_closed=with_closed)
    ]
    frame = pl.DataFrame(rows, infer_schema_length=None)
    if company_list == ALL or frame.is_empty():
        return frame
    listed = holding.ask(
        "SELECT DISTINCT country, company_number FROM list_members WHERE list_name = $list", _of(company_list)
    )
    return frame.join(listed, on=["country", "company_number"], how="semi", maintain_order="left")


def _of(company_list: str) -> dict[str, str]:
    return {"list": company_list} if company_list != ALL else {}


_LISTED = "SEMI JOIN (FROM list_members WHERE list_name = $list) listed USING (country, company_number)"

_FOUND = f"""
    SELECT name, country, company_number, place
    FROM companies {{listed}}
    WHERE contains(lower(name), lower($text)) OR contains(company_number, $digits)
    ORDER BY NOT coalesce(starts_with(lower(name), lower($text)), false), name, country, company_number
    LIMIT {_FOUND_MAX}
"""
_CHANGES = f"""
    SELECT found_at::DATE AS found, country, company_number, name, event, about, change
    FROM described_changes {{listed}}
    WHERE list_id IS NULL AND (len($kinds) = 0 OR kind IN $kinds)
    ORDER BY found_at DESC, country, company_number, position
    LIMIT {_CHANGES_MAX}
"""
