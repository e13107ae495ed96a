-- One row for each company: its newest accounts and their growth, null where none are held.
WITH newest AS (
    SELECT * FROM {{ ref("stg_accounts") }} WHERE period_rank = 1
),

previous AS (
    SELECT * FROM {{ ref("stg_accounts") }} WHERE period_rank = 2
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
    -- Periods of different length are not compared.
    CASE
        WHEN p.revenue > 0 AND (n.end_date - n.start_date) - (p.end_date - p.start_date) BETWEEN -31 AND 31
            THEN n.revenue / p.revenue - 1
    END AS revenue_growth,
    coalesce(r.parent_count, 0) AS parent_count,
    coalesce(r.child_count, 0) AS child_count
FROM {{ ref("stg_companies") }} AS c
LEFT JOIN newest AS n ON n.company = c.company
LEFT JOIN previous AS p ON p.company = c.company
LEFT JOIN related AS r ON r.company = c.company
