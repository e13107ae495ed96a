"""The sections of the report in order: the portfolio first, our own work last."""

# ruff: noqa: S608 - statements are put together from our own texts

from __future__ import annotations

from firmlake.report import charts
from firmlake.report.groups import GROUPS
from firmlake.report.operations import OPERATIONS
from firmlake.report.portfolio import MOVERS
from firmlake.report.section import Section
from firmlake.warehouse.views import GRAVITY

__all__ = ["COUNT_FINDINGS", "PREPARE", "SECTIONS"]

PREPARE = """
    CREATE OR REPLACE TEMP TABLE shown AS FROM portfolio;
    CREATE OR REPLACE TEMP TABLE years AS
        SELECT year(end_date)::VARCHAR AS year,
            count(*) FILTER (is_comparable) AS companies,
            sum(revenue_annual) FILTER (is_comparable) AS revenue,
            sum(net_profit_annual) FILTER (is_comparable) AS net_profit,
            sum(total_assets) FILTER (is_comparable) AS total_assets,
            sum(employee_count) FILTER (is_comparable) AS employees,
            quantile_cont(revenue_growth::DOUBLE, [0.25, 0.5, 0.75]) AS growth,
            ratio(
                count(*) FILTER (net_profit < 0 AND is_comparable), count(net_profit) FILTER (is_comparable)
            ) AS losses
        FROM (
            FROM trend WHERE year(end_date) > (SELECT max(year(end_date)) FROM shown) - 10
            QUALIFY row_number() OVER (
                PARTITION BY country, company_number, year(end_date) ORDER BY is_comparable DESC, recency
            ) = 1
        )
        GROUP BY ALL;
    CREATE OR REPLACE TEMP TABLE group_sizes AS
        SELECT h.head_id, h.is_ring, sum(m.member_count)::BIGINT AS member_count
        FROM branches_at_half h
        JOIN (
            SELECT branch_no, count(b.id) AS member_count, count(c.country) AS company_count
            FROM branches_at_half b
            LEFT JOIN companies c ON c.country = b.id[:2] AND c.company_number = b.id[3:]
            GROUP BY branch_no
        ) m USING (branch_no)
        WHERE h.head_id IS NOT NULL
        GROUP BY h.head_id, h.is_ring
        HAVING sum(m.company_count) > 0;
    CREATE OR REPLACE TEMP TABLE last_run AS SELECT max_by(run_id, finished_at) AS run_id FROM runs;
    CREATE OR REPLACE TEMP TABLE last_fetch AS
        SELECT coalesce(max_by(run_id, finished_at) FILTER (target_count > 0), max_by(run_id, finished_at)) AS run_id
        FROM runs;
    CREATE OR REPLACE TEMP TABLE due (day DATE, credits BIGINT, free_refreshes BIGINT);
    CREATE OR REPLACE TEMP TABLE found (severity TEXT, check_name TEXT, what TEXT, found BIGINT);
"""
"""What several sections use is computed once. A report on a list leaves out groups without any company of the list. The
last run may have found everything fresh; the last fetch is the last run that asked for something."""

COUNT_FINDINGS = "INSERT INTO found SELECT ?, ?, ?, count(*) FROM ({})"
"""Checks are counted one by one: the view `findings`, which runs all of them, needs several times the memory."""

CHANGED = (
    Section(
        "Changes",
        "Events of the last run",
        "`firmlake changes` lists them all, also since a given day, and as CSV or JSON.",
        """
        SELECT replace(kind, '_', ' ') AS event, count(*) AS events,
            count(DISTINCT country || company_number) AS companies
        FROM changes JOIN last_fetch USING (run_id) GROUP BY kind ORDER BY events DESC, kind
        """,
    ),
    Section(
        "",
        "Largest changes",
        "Up to three of each kind, without new companies and lookalikes.",
        """
        SELECT
            coalesce(c.name, c.country || ' ' || c.company_number) AS company,
            c.country || ' ' || c.company_number AS number,
            replace(kind, '_', ' ') AS event,
            concat_ws(' ', end_date::VARCHAR, direction, related_name, related_country, related_company_number)
                AS about,
            coalesce(
                array_to_string([
                    format('{} {} → {}', replace(field->>'field', '_', ' '), coalesce(field->>'old', '-'),
                        coalesce(field->>'new', '-'))
                    FOR field IN (fields->'$[*]')[:3]
                ], '; ') || if(json_array_length(fields) > 3, format('; {} more', json_array_length(fields) - 3), ''),
                regexp_replace(
                    if(coalesce(old_value, new_value) IS NULL, NULL,
                        format('{} → {}', coalesce(old_value, '-'), coalesce(new_value, '-'))),
                    '([.][0-9]*[1-9])0+( |$)|[.]0+( |$)', '\\1\\2\\3', 'g'
                )
            ) AS change
        FROM changes c
        JOIN last_fetch USING (run_id)
        WHERE kind NOT IN ('company_appeared', 'lookalike_in', 'lookalike_out')
        QUALIFY row_number() OVER (
            PARTITION BY kind
            ORDER BY abs(coalesce(try_cast(new_value AS DOUBLE), 0) - coalesce(try_cast(old_value AS DOUBLE), 0)) DESC,
                json_array_length(fields) DESC NULLS LAST, end_date DESC NULLS LAST, c.country, c.company_number,
                c.position
        ) <= 3
        ORDER BY list_position([
            'company_gone', 'health_down', 'parent_out', 'parent_in', 'function_changed', 'stake_changed',
            'period_restated', 'child_out', 'child_in', 'period_removed', 'committees_changed', 'health_up',
            'new_accounts', 'period_returned', 'company_renamed', 'company_moved'
        ], kind), c.country, c.company_number, c.position
        """,
    ),
)

FINDINGS = Section(
    "Data quality",
    "Findings",
    "Problems that checks of the data found. Nothing is corrected; the view `findings` has the evidence.",
    f"""
    SELECT severity, check_name AS check, found, what FROM found
    WHERE found IS DISTINCT FROM 0 ORDER BY {GRAVITY}, found DESC NULLS FIRST, check_name
    """,
)

_FILLED = {"revenue": charts.PLUS, "total_assets": "var(--middle)", "employee_count": charts.MINUS}

OVER_TIME = (
    Section(
        "",
        "Filled figures by generation",
        "Share of all held periods with a value, in the last 20 generations; `generation_quality` has every figure.",
        f"""
        SELECT generation::VARCHAR AS generation, name AS series, value / 100 AS value FROM generation_quality
        WHERE kind = 'fill' AND name IN {tuple(_FILLED)} AND generation > (SELECT max(generation) FROM loads) - 20
        ORDER BY generation_quality.generation, name
        """,
        chart=lambda frame: charts.lines(frame, "generation", _FILLED, formatted=".0%"),
    ),
    Section(
        "",
        "Gates by generation",
        "What the gates of `paths.gates` measured in the last five generations. A generation whose gate failed was "
        "held back until it was released or replaced.",
        """
        SELECT generation::VARCHAR AS generation, says AS gate, list_name, value, publish_if, last_value, is_failed
        FROM generation_quality WHERE kind = 'gate' AND generation > (SELECT max(generation) FROM loads) - 5
        ORDER BY generation_quality.generation DESC, is_failed DESC, gate
        """,
    ),
)

SECTIONS = (*MOVERS, *CHANGED, *GROUPS, FINDINGS, *OVER_TIME, *OPERATIONS)
"""All after the portfolio and alerts."""
