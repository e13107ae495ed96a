"""The sections of the page about one company. Its queries read the variables `country` and `number`."""

# ruff: noqa: S608 - statements are put together from texts of this module

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from firmlake.report import charts
from firmlake.report.document import Figure, draw_table
from firmlake.report.groups import TREE, draw_groups
from firmlake.report.numbers import heading, shown_number
from firmlake.report.section import Section, shown_text
from firmlake.warehouse.views import GRAVITY

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

__all__ = ["COMPANY", "FIGURES", "PREPARE", "SECTIONS", "SOURCES"]

_COUNTRY, _NUMBER = "getvariable('country')", "getvariable('number')"
PREPARE = f"CREATE OR REPLACE TEMP TABLE standing AS FROM benchmark({_COUNTRY}, {_NUMBER})"
"""Two sections use the place of the company among its peers."""

COMPANY = f"""
    SELECT c.name, c.place, c.country || ' ' || c.company_number AS number, s.status,
        (SELECT max(generation) FROM loads) AS generation
    FROM companies c JOIN company_status s USING (country, company_number)
    WHERE c.country = {_COUNTRY} AND c.company_number = {_NUMBER}
"""
FIGURES = f"""
    SELECT p.end_date, p.revenue_annual AS revenue_amount, p.revenue_growth, p.net_margin,
        p.total_assets AS total_assets_amount, p.equity_fraction, p.employee_count,
        p.health_indicator, p.z, p.zone, p.incomparable_because
    FROM portfolio p WHERE p.country = {_COUNTRY} AND p.company_number = {_NUMBER}
"""

_THIS = f"country = {_COUNTRY} AND company_number = {_NUMBER}"
_EVIDENCE = "array_to_string([replace(key, '_', ' ') || ' ' || (evidence->>key) FOR key IN json_keys(evidence)], '; ')"


def _amounts(first: str, second: str) -> str:
    """Write a query for two amounts of the newest ten periods, the oldest first."""
    return f"""
        SELECT strftime(end_date, '%Y-%m') AS period, series, value FROM (
            SELECT end_date, '{_series(first)}' AS series, {first}::DOUBLE AS value, 1 AS place
            FROM trend WHERE {_THIS} AND recency <= 10
            UNION ALL
            SELECT end_date, '{_series(second)}', {second}::DOUBLE, 2 FROM trend WHERE {_THIS} AND recency <= 10
        ) QUALIFY count(value) OVER () > 0 ORDER BY end_date, place
    """


def _series(column: str) -> str:
    return column.removesuffix("_annual").replace("_", " ")


def _lines(first: str, second: str) -> Callable[[pl.DataFrame], alt.Chart]:
    series = {_series(first): charts.PLUS, _series(second): "var(--middle)"}
    return lambda frame: charts.lines(frame, "period", series)


def _percentiles(frame: pl.DataFrame) -> alt.LayerChart:
    return charts.ranges(frame.with_columns(name=frame["measure"].replace(_LABELS).str.replace_all("_", " ")))


def _benchmark(rows: Sequence[dict[str, Any]]) -> str:
    """Write a table of measures, each in its own unit."""
    first, made = rows[0], []
    for row in rows:
        name = row["measure"] + ("_amount" if row["measure"] in _AMOUNTS else "")
        figures = {
            column: Figure(shown_number(name, row[value]))
            for column, value in (("value", "value"), ("p25", "p25"), ("median", "p50"), ("p75", "p75"))
        }
        rank = Figure(f"{row['value_rank']:,} of {row['value_count']:,}")
        made.append({"measure": _LABELS.get(name, heading(name)), **figures, "rank": rank})
    widened = " Narrower groups have fewer than ten companies." if first["is_widened"] else ""
    return f"<p>Peers: <bdi>{shown_text(first['peer_group'])}</bdi>.{widened}</p>{draw_table(made)}"


_AMOUNTS = ("total_assets", "revenue_annual", "equity")
_LABELS = {
    "z": "Altman's Z''",
    "revenue_annual": "annual revenue",
    "revenue_annual_amount": "annual revenue",
    "equity_fraction": "equity ratio",
    "ebitda_margin": "EBITDA margin",
}
_MEASURES = [
    "revenue_annual", "revenue_growth", "employee_count", "total_assets", "equity", "ebitda_margin", "net_margin",
    "return_on_assets", "return_on_equity", "equity_fraction", "current_ratio", "debt_to_equity", "z",
    "health_indicator",
]  # fmt: skip
_CHOSEN = f"FROM standing WHERE measure IN {tuple(_MEASURES)}"
_BY_MEASURE = f"ORDER BY list_position({_MEASURES}, measure)"

_ASKED = f"{_COUNTRY} || {_NUMBER}"
_OWN_GROUPS = f"""
    WITH RECURSIVE tops AS MATERIALIZED (FROM tops_of({_COUNTRY}, {_NUMBER}, 0.5)),
    reached(head_no, no) AS (
        SELECT no, no FROM tops
        UNION
        SELECT r.head_no, s.child_no FROM reached r JOIN shareholdings s ON s.parent_no = r.no WHERE s.stake >= 0.5
    )
    SELECT head_no, any_value(is_ring), count(*) FROM reached JOIN tops ON tops.no = head_no
    GROUP BY head_no HAVING count(*) > 1 ORDER BY count(*) DESC, head_no LIMIT 3
"""
_OWN_LINE = f"""t.no IN (
    WITH RECURSIVE line(no) AS (
        SELECT no FROM parties WHERE id = {_ASKED}
        UNION
        SELECT s.parent_no FROM line JOIN shareholdings s ON s.child_no = line.no WHERE s.stake >= 0.5
    )
    FROM line
) DESC, """

SECTIONS = (
    Section(
        "Accounts",
        "Revenue and net profit",
        "Per year, by the month in which the accounts end.",
        _amounts("revenue_annual", "net_profit_annual"),
        chart=_lines("revenue_annual", "net_profit_annual"),
    ),
    Section(
        "",
        "Total assets and equity",
        "At the end of the accounts.",
        _amounts("total_assets", "equity"),
        chart=_lines("total_assets", "equity"),
    ),
    Section(
        "",
        "Among its peers",
        "Share of the peers with a lower value. A high share is not good for every measure.",
        f"SELECT measure, percentile {_CHOSEN} AND percentile IS NOT NULL {_BY_MEASURE}",
        chart=_percentiles,
    ),
    Section(
        "",
        "Ten years",
        "Newest first. Revenue, EBITDA, net profit and growth are per year; growth is left out where periods cannot be "
        "compared.",
        f"""
        SELECT t.end_date AS accounts_to, t.period_days AS days, t.revenue_annual AS revenue_amount,
            t.revenue_growth AS growth,
            t.ebitda_annual AS ebitda_amount, t.net_profit_annual AS net_profit_amount,
            t.total_assets AS total_assets_amount, t.equity AS equity_amount, a.debt AS debt_amount,
            t.employee_count AS employees, a.health_indicator, z.zone,
            t.incomparable_because AS doubtful_because, count(*) OVER () AS total
        FROM (FROM trend WHERE {_THIS}) t
        JOIN (FROM accounts WHERE {_THIS}) a USING (country, company_number, start_date, end_date)
        JOIN (FROM altman WHERE {_THIS}) z USING (country, company_number, start_date, end_date)
        ORDER BY t.recency LIMIT 10
        """,
    ),
    Section(
        "",
        "Calendar years",
        "Put together from the periods that overlap each year, so that companies that close in different months can be "
        "compared. Left out: amounts of years of which accounts cover less than 360 days.",
        f"""
        SELECT year::VARCHAR AS year, days_covered AS days, revenue AS revenue_amount, ebitda AS ebitda_amount,
            net_profit AS net_profit_amount, cash_flow AS cash_flow_amount, closed_on AS last_close,
            total_assets AS total_assets_amount
        FROM calendar_years WHERE {_THIS} ORDER BY year DESC LIMIT 5
        """,
    ),
    Section(
        "",
        "Ratios and their place among the peers",
        "Newest accounts. The middle half of the peers lies between p25 and p75; rank 1 is the highest value.",
        f"{_CHOSEN} {_BY_MEASURE}",
        draw=_benchmark,
    ),
    Section(
        "",
        "Scores, capital and working capital",
        "Newest accounts first. FR is net working capital, BFR its requirement. The capital procedure holds if the "
        "company has the legal form named. Second opinions and the credit limit are rough indications, not ratings.",
        f"""
        SELECT s.end_date AS accounts_to, s.zmijewski, s.altman_private, s.cash_flow_to_debt, f.f_score,
            w.net_working_capital AS fr_amount, w.net_working_capital_requirement AS bfr_amount,
            w.net_cash AS net_cash_amount, w.accounts_payable AS accounts_payable_amount,
            l.credit_limit AS credit_limit_amount,
            k.procedure AS capital_procedure
        FROM (FROM distress_scores WHERE {_THIS}) s
        JOIN (FROM working_capital WHERE {_THIS}) w USING (country, company_number, start_date, end_date)
        LEFT JOIN (FROM piotroski WHERE {_THIS}) f USING (country, company_number, start_date, end_date)
        LEFT JOIN (FROM credit_limits() WHERE {_THIS}) l USING (country, company_number, end_date)
        LEFT JOIN (FROM capital_procedure WHERE {_THIS}) k USING (country, company_number, end_date)
        ORDER BY s.end_date DESC LIMIT 5
        """,
    ),
    Section(
        "Owners and group",
        "Owners",
        "Direct owners and those behind them. The effective stake is the product of the stakes along each path.",
        f"""
        SELECT name AS owner, country || ' ' || company_number AS number, replace(kind, '_', ' ') AS kind,
            direct_fraction, effective_fraction, step_count AS steps, count(*) OVER () AS total
        FROM owners_of({_COUNTRY}, {_NUMBER}) ORDER BY steps, effective_fraction DESC, id LIMIT 15
        """,
    ),
    Section(
        "",
        "Presumed beneficial owners",
        "By Regulation (EU) 2024/1624, art. 51 to 54, from stakes of shareholders alone; other control is not known. "
        "Owners without a number may be persons or foreign companies.",
        f"""
        SELECT owner_name AS owner, replace(owner_kind, '_', ' ') AS kind, effective_fraction, step_count AS steps,
            basis, presumed_same AS further_of_the_name, capital_explained AS capital_explained_fraction,
            count(*) OVER () AS total
        FROM beneficial_owners({_COUNTRY} || {_NUMBER}) ORDER BY effective_fraction DESC, owner_id LIMIT 15
        """,
    ),
    Section(
        "",
        "Holdings",
        "Companies in which it holds a stake directly.",
        f"""
        SELECT child_name AS company, child_country || ' ' || child_company_number AS number,
            lower(replace("function", '_', ' ')) AS "function", stake_fraction, count(*) OVER () AS total
        FROM ownership WHERE parent_id = {_ASKED} ORDER BY stake_fraction DESC NULLS LAST, child_id LIMIT 15
        """,
    ),
    Section(
        "",
        "Group",
        "Up to twenty members, reached through stakes of at least 50 %; those on the way to this company first. The "
        "number on a line is the stake. We hold no accounts of members with a dashed border.",
        TREE.format(heads=_OWN_GROUPS, steps=6, is_asked=f"p.id = {_ASKED}", first=_OWN_LINE),
        draw=draw_groups,
    ),
    Section(
        "",
        "Size by the EU's definition",
        "By Recommendation 2003/361/EC, with linked enterprises and, in proportion, partners as far as stakes of "
        "companies show them. Above 0 missing companies, the status may be too small. Amounts are taken to be in euro.",
        f"""
        SELECT status, own_status, employee_count AS employees, revenue_annual AS revenue_amount,
            total_assets AS total_assets_amount, linked_count AS linked, partner_count AS partners,
            missing_count AS missing
        FROM sme_status({_COUNTRY} || {_NUMBER}) WHERE status IS NOT NULL
        """,
    ),
    Section(
        "Similar companies",
        "Lookalikes",
        "In the order of the service's score. Figures are shown for companies that the warehouse holds.",
        f"""
        SELECT coalesce(c.name, '(not held)') AS company,
            l.lookalike_country || ' ' || l.lookalike_company_number AS number,
            l.rank, l.score, a.revenue AS revenue_amount,
            a.total_assets AS total_assets_amount, a.employee_count AS employees, count(*) OVER () AS total
        FROM (FROM lookalikes WHERE {_THIS}) l
        LEFT JOIN companies c ON c.country = l.lookalike_country AND c.company_number = l.lookalike_company_number
        LEFT JOIN (
            FROM financials WHERE (country, company_number) IN (
                SELECT (lookalike_country, lookalike_company_number) FROM lookalikes WHERE {_THIS}
            )
            QUALIFY row_number() OVER (
                PARTITION BY country, company_number ORDER BY end_date DESC, date_received DESC NULLS LAST, dup_no DESC
            ) = 1
        ) a ON a.country = l.lookalike_country AND a.company_number = l.lookalike_company_number
        ORDER BY l.rank LIMIT 10
        """,
    ),
)

SOURCES = (
    Section(
        "Data quality",
        "Findings",
        "Problems that checks of the data found. Nothing is corrected.",
        f"""
        SELECT check_name AS check, severity, start_date AS accounts_from, end_date AS accounts_to,
            {_EVIDENCE} AS evidence, count(*) OVER () AS total
        FROM findings WHERE {_THIS} ORDER BY {GRAVITY}, end_date DESC NULLS LAST, check_name LIMIT 30
        """,
    ),
    Section(
        "Where the figures come from",
        "Answers",
        "The newest answer about each dataset.",
        f"""
        SELECT s.dataset, s.status, s.record_count AS records, s.reject_count AS rejected_records,
            s.fetched_at::TIMESTAMP_S AS fetched_at, s.run_id AS run, d.reason
        FROM (FROM company_state WHERE {_THIS}) s
        LEFT JOIN dead_letters d USING (country, company_number, dataset, run_id) ORDER BY s.dataset
        """,
    ),
    Section(
        "",
        "Records of accounts",
        "Each period with the position of its record in the answer (from 0), the run that first stored it in this "
        "form, and the number of its values that do not fit (table `rejects`).",
        f"""
        SELECT f.end_date AS accounts_to, f.start_date AS accounts_from, f.date_received AS received,
            f.position AS record, f.dup_no + 1 AS filing, f.valid_from_run AS since_run, f.run_id AS last_run,
            f.fetched_at::TIMESTAMP_S AS fetched_at, coalesce(r.discarded, 0) AS discarded, count(*) OVER () AS total
        FROM (FROM financials WHERE {_THIS}) f
        LEFT JOIN (
            SELECT run_id, position, count(*) AS discarded FROM rejects
            WHERE {_THIS} AND dataset = 'financials' AND effect <> 'record' GROUP BY ALL
        ) r USING (run_id, position)
        ORDER BY f.end_date DESC, f.start_date, f.dup_no LIMIT 30
        """,
    ),
)
