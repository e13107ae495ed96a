-- One row for each company: its newest accounts and their growth, null where none are held.
WITH periods AS (
    SELECT a.*, u.company IS NOT NULL AS is_in_other_unit
    FROM {{ ref("stg_accounts") }} AS a
    LEFT JOIN {{ ref("stg_unit_errors") }} AS u
        ON u.company = a.company AND u.start_date = a.start_date AND u.end_date = a.end_date
),

related AS (
    SELECT
        company,
        sum(CASE WHEN direction = 'parent' THEN 1 ELSE 0 END) AS parent_count,
        sum(CASE WHEN direction = 'child' THEN 1 ELSE 0 END) AS child_count
    FROM {{ ref("stg_relationships") }}
    GROUP BY company
)

SELECT
    c.company,
    c.country,
    c.name,
    c.place,
    n.start_date AS accounts_from,
    n.end_date AS accounts_to,
    n.revenue,
    n.net_profit,
    n.total_assets,
    n.equity,
    n.employee_count,
    n.health_indicator,
    -- As in portfolio of firmlake's own warehouse: a period that is presumably in another unit does not compare.
    CASE
        WHEN p.revenue_annual > 0 AND NOT n.is_in_other_unit AND NOT p.is_in_other_unit
            THEN round(n.revenue_annual / p.revenue_annual - 1, 6)
    END AS revenue_growth,
    coalesce(r.parent_count, 0) AS parent_count,
    coalesce(r.child_count, 0) AS child_count
FROM {{ ref("stg_companies") }} AS c
LEFT JOIN periods AS n ON n.company = c.company AND n.period_rank = 1
LEFT JOIN periods AS p ON p.company = c.company AND p.period_rank = 2
LEFT JOIN related AS r ON r.company = c.company
