"""The report's chapter on the portfolio: trends by year, distributions, and how the companies spread."""

# ruff: noqa: S608 - statements are put together from texts of this module

from __future__ import annotations

from typing import TYPE_CHECKING

from firmlake.report import charts
from firmlake.report.section import Section

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

__all__ = ["PORTFOLIO"]

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
