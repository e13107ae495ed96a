"""The report's chapters on the portfolio and its movers: trends by year, distributions, who grew, shrank or is late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmlake.report import charts
from firmlake.report.section import Section

# ruff: noqa: S608 - statements are put together from texts of this module


if TYPE_CHECKING:
    import altair as alt
    import polars as pl


POINTS_MAX = 1500
"""Companies drawn in a scatter, the same in each report on the same companies."""


def _zones(frame: pl.DataFrame) -> alt.Chart:
    return charts.bars(frame, "year", "companies", colours=_present(frame), shares=True)


def _growth_by_margin(frame: pl.DataFrame) -> alt.Chart:
    import altair as alt

    x = alt.X("growth", type="quantitative", title="growth of revenue").scale(domain=[-1.1, 1.65], nice=False)
    x = x.axis(format="%", values=[-1, -0.5, 0, 0.5, 1, 1.5])
    y = alt.Y("margin", type="quantitative", title="net margin").axis(format="%", tickCount=5)
    return charts.scatter(frame, x, y, _present(frame))


def _size_by_health(frame: pl.DataFrame) -> alt.Chart:
    import altair as alt

    x = (
        alt.X("assets", type="quantitative", title="total assets")
        .scale(type="log")
        .axis(labelExpr=charts.AMOUNT, tickCount=5)
    )
    y = alt.Y("health", type="quantitative", title="health indicator").axis(tickCount=5)
    return charts.scatter(frame, x, y, _present(frame))


def _migration(frame: pl.DataFrame) -> alt.LayerChart:
    return charts.matrix(frame, list(charts.ZONES), across="today", down="a year before")


def _present(frame: pl.DataFrame) -> dict[str, str]:
    found = frame["part"].unique().to_list()
    return {zone: colour for zone, colour in charts.ZONES.items() if zone in found}


def _histogram(measure: str, low: int, high: int, width: int) -> str:
    """Write a query that counts companies in classes of a share. What lies beyond the classes counts in the outermost.

    Args:
        measure: Column of shown.
        low: Lower end of the first class, in per cent.
        high: Upper end of the last class, in per cent.
        width: Width of a class, in per cent.
    """
    count = (high - low) // width
    place = f"least(greatest(floor(({measure}::DOUBLE * 100 - {low}) / {width}), 0), {count - 1})::INTEGER"
    return f"""
        SELECT format('{{}}%', {low} + place * {width}) AS class, count(s.place) AS companies
        FROM range({count}) AS r(place)
        LEFT JOIN (SELECT {place} AS place FROM shown WHERE {measure} IS NOT NULL AND is_comparable) s USING (place)
        GROUP BY place HAVING (SELECT count({measure}) FROM shown WHERE is_comparable) > 0 ORDER BY place
    """


def _classes(frame: pl.DataFrame) -> alt.Chart:
    return charts.bars(frame, "class", "companies")


_SAMPLE = f"ORDER BY hash(country, company_number), country, company_number LIMIT {POINTS_MAX}"
_ABOUT = "name || ' (' || country || ' ' || company_number || ')'"
_DOUBTFUL = "doubtful figures are left out."
_EDGE = "Values beyond the axis count at its edge."
_CLASSES = f"Each bar starts at the value under it. {_EDGE}"
_YEARS = "year(end_date) > (SELECT max(year(end_date)) FROM shown) - 10"

PORTFOLIO = (
    Section(
        "The portfolio",
        "Revenue growth by year",
        "The median, and the middle half of the companies, by the year in which accounts end.",
        "SELECT year, growth[1] AS p25, growth[2] AS p50, growth[3] AS p75 FROM years "
        "WHERE growth IS NOT NULL ORDER BY year",
        chart=lambda frame: charts.quartiles(frame, "year"),
    ),
    Section(
        "",
        "Altman's Z'' by year",
        f"Share of companies in each zone, by their last accounts that end in the year; {_DOUBTFUL} "
        "An indication, not a rating.",
        f"""
        SELECT year, part, count(*) AS companies
        FROM (
            SELECT year(end_date)::VARCHAR AS year,
                arg_max(coalesce(zone, 'no score'), (end_date, end_date - start_date)) AS part
            FROM altman ANTI JOIN doubtful_periods USING (country, company_number, start_date, end_date)
            WHERE {_YEARS} GROUP BY country, company_number, year
        )
        GROUP BY ALL ORDER BY year, part
        """,
        chart=_zones,
    ),
    Section(
        "",
        "Zones a year before and today",
        "Companies by Altman zone: of their newest accounts (columns), and of those newest a year before (rows). "
        "Doubtful figures are included.",
        """
        WITH counts AS (
            FROM zone_migration(
                (SELECT (least(max(end_date), max(published_at)) - INTERVAL 1 YEAR)::DATE FROM shown, loads),
                (SELECT least(max(end_date), max(published_at))::DATE FROM shown, loads))
        )
        SELECT from_zone AS row, replace(zone, '_', ' ') AS "column", companies AS count,
            companies / greatest(max(companies) OVER (), 1) AS shade
        FROM (UNPIVOT counts ON safe, grey, distress, no_score INTO NAME zone VALUE companies)
        """,
        chart=_migration,
    ),
    Section(
        "",
        "Equity ratio",
        f"Companies by equity in per cent of total assets, newest accounts; {_DOUBTFUL} {_CLASSES}",
        _histogram("equity_fraction", -20, 100, 10),
        chart=_classes,
    ),
    Section(
        "",
        "Net margin",
        f"Companies by net profit in per cent of revenue, newest accounts; {_DOUBTFUL} {_CLASSES}",
        _histogram("net_margin", -30, 30, 5),
        chart=_classes,
    ),
    Section(
        "",
        "Health indicator",
        f"Companies by the health indicator of the service, newest accounts. {_CLASSES}",
        """
        WITH ends AS (
            SELECT quantile_cont(health_indicator::DOUBLE, 0.01) AS low,
                quantile_cont(health_indicator::DOUBLE, 0.99) AS high
            FROM shown
        ), rough AS (
            SELECT *, pow(10, floor(log10(greatest(high - low, 1e-6) / 10))) AS unit FROM ends
        ), steps AS (
            SELECT *, unit * CASE WHEN (high - low) / 10 <= unit THEN 1 WHEN (high - low) / 10 <= 2 * unit THEN 2
                WHEN (high - low) / 10 <= 5 * unit THEN 5 ELSE 10 END AS step
            FROM rough
        ), places AS (
            SELECT step, floor(least(greatest(health_indicator::DOUBLE, low), high) / step)::INTEGER AS place
            FROM shown, steps WHERE health_indicator IS NOT NULL
        ), bounds AS (SELECT min(place) AS first, max(place) AS last, any_value(step) AS step FROM places)
        SELECT format('{:g}', round(r.place * step, 6)) AS class, count(p.place) AS companies
        FROM (SELECT unnest(range(first, last + 1)) AS place, step FROM bounds) r
        LEFT JOIN (SELECT place FROM places) p USING (place)
        GROUP BY r.place, step ORDER BY r.place
        """,
        chart=_classes,
    ),
    Section(
        "",
        "Growth and margin",
        f"One point for each company, newest accounts; {_DOUBTFUL} {_EDGE}",
        f"""
        SELECT
            least(greatest(revenue_growth::DOUBLE, -1), 1.5) AS growth,
            least(greatest(net_margin::DOUBLE, -0.6), 0.6) AS margin,
            coalesce(zone, 'no score') AS part,
            {_ABOUT} || format(': growth {{:.1f}} %, margin {{:.1f}} %', 100 * revenue_growth::DOUBLE,
                100 * net_margin::DOUBLE) AS about,
            count(*) OVER () AS total
        FROM shown WHERE revenue_growth IS NOT NULL AND net_margin IS NOT NULL {_SAMPLE}
        """,
        chart=_growth_by_margin,
    ),
    Section(
        "",
        "Size and health",
        f"One point for each company, newest accounts; {_DOUBTFUL}",
        f"""
        SELECT total_assets::DOUBLE AS assets, health_indicator::DOUBLE AS health, coalesce(zone, 'no score') AS part,
            {_ABOUT} || format(': total assets {{:.0f}}, health {{:.2f}}', total_assets::DOUBLE,
                health_indicator::DOUBLE) AS about,
            count(*) OVER () AS total
        FROM shown WHERE total_assets > 0 AND health_indicator IS NOT NULL AND is_comparable {_SAMPLE}
        """,
        chart=_size_by_health,
    ),
    Section(
        "",
        "Newest accounts",
        "Companies by the year in which their newest accounts end.",
        f"SELECT year(end_date)::VARCHAR AS class, count(*) AS companies FROM shown WHERE {_YEARS} "
        "GROUP BY ALL ORDER BY class",
        chart=_classes,
    ),
    Section(
        "",
        "The portfolio by year",
        "Sums and medians over the last accounts of each company that end in the year, without doubtful figures. "
        "Accounts of the newest years may still be filed.",
        """
        SELECT year, companies, revenue AS revenue_amount, net_profit AS net_profit_amount,
            total_assets AS total_assets_amount, employees, growth[2] AS median_growth, losses AS loss_making_share
        FROM years WHERE companies > 0 ORDER BY year DESC
        """,
    ),
)


_NUMBER = "country || ' ' || company_number AS number, count(*) OVER () AS total"
_GROWTH = f"""
    SELECT name AS company, {_NUMBER}, revenue_growth, revenue_annual AS revenue_amount,
        revenue_annual_before AS revenue_before_amount, end_date AS accounts_to,
        if(gap_days > 0, gap_days, NULL) AS days_between
    FROM shown
    WHERE is_comparable AND revenue_growth {{}}
        AND NOT 1 + revenue_growth::DOUBLE BETWEEN 300 AND 3000
        AND NOT 1 + revenue_growth::DOUBLE BETWEEN 1 / 3000 AND 1 / 300
    ORDER BY revenue_growth {{}}, country, company_number LIMIT 8
"""

MOVERS = (
    Section(
        "Movers",
        "Grew most",
        "Annual revenue against the period before. Accounts that cannot be compared (view `quality`) and jumps by a "
        "factor of 300 to 3,000 (view `leaps`) are left out. Days between the two periods are named, if there are any.",
        _GROWTH.format("> 0", "DESC"),
    ),
    Section(
        "",
        "Shrank most",
        "Annual revenue against the period before. The same accounts are left out.",
        _GROWTH.format("< 0", ""),
    ),
    Section(
        "",
        "Negative equity",
        "Debts exceed total assets. The lowest equity ratio first; doubtful figures are left out.",
        f"""
        SELECT name AS company, {_NUMBER}, equity_fraction, equity AS equity_amount,
            total_assets AS total_assets_amount, end_date AS accounts_to
        FROM shown WHERE equity < 0 AND is_comparable ORDER BY equity_fraction, country, company_number LIMIT 8
        """,
    ),
    Section(
        "",
        "Losses in a row",
        "Companies that made a loss in at least their two newest periods; doubtful figures are left out.",
        f"""
        SELECT name AS company, {_NUMBER}, loss_period_count AS losses, net_profit AS last_result_amount,
            equity AS equity_amount, end_date AS accounts_to
        FROM shown WHERE loss_period_count > 1 AND is_comparable
        ORDER BY losses DESC, net_profit, country, company_number LIMIT 8
        """,
    ),
    Section(
        "",
        "Late accounts",
        "Companies whose next accounts were overdue, by their usual filing date, when this generation was published.",
        f"""
        SELECT name AS company, {_NUMBER}, overdue_days AS days_late, expected_date AS expected,
            end_date AS newest_accounts
        FROM overdue((SELECT max(published_at)::DATE FROM loads))
        ORDER BY overdue_days DESC, country, company_number LIMIT 8
        """,
    ),
    Section(
        "",
        "Figures left out as doubtful",
        "Newest accounts that cannot be compared with the company's others. Nothing is corrected; see the views "
        "`quality` and `unit_errors`.",
        f"""
        SELECT name AS company, {_NUMBER}, end_date AS accounts_to, incomparable_because AS because,
            total_assets AS total_assets_amount
        FROM shown WHERE NOT is_comparable ORDER BY total_assets DESC NULLS LAST, country, company_number LIMIT 8
        """,
    ),
)
