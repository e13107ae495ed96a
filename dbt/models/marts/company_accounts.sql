-- One row for each company: its newest accounts and their growth, null where none are held.
WITH periods AS (
    SELECT a.*, d.company IS NOT NULL AS is_doubtful
    FROM {{ ref("stg_accounts") }} AS a
    LEFT JOIN {{ ref("stg_doubtful_periods") }} AS d
        ON d.company = a.company AND d.start_date = a.start_date AND d.end_date = a.end_date
),

-- The latest period that ended before the newest began; a week may overlap.
previous AS (
    SELECT
        b.*,
        row_number() OVER (
            PARTITION BY b.company ORDER BY b.end_date DESC, b.date_received DESC NULLS LAST, b.start_date
        ) AS place
    FROM periods AS n
    JOIN periods AS b ON b.company = n.company AND b.period_rank > 1 AND b.end_date < n.start_date + 7
    WHERE n.period_rank = 1
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
    -- As in portfolio of firmlake's own warehouse: a doubtful period does not compare.
    CAST(CASE
        WHEN p.revenue_annual > 0 AND NOT n.is_doubtful AND NOT p.is_doubtful
            THEN round(n.revenue_annual / p.revenue_annual - 1, 6)
    END AS double precision) AS revenue_growth,
    CAST(coalesce(r.parent_count, 0) AS bigint) AS parent_count,
    CAST(coalesce(r.child_count, 0) AS bigint) AS child_count
FROM {{ ref("stg_companies") }} AS c
LEFT JOIN periods AS n ON n.company = c.company AND n.period_rank = 1
LEFT JOIN previous AS p ON p.company = c.company AND p.place = 1
LEFT JOIN related AS r ON r.company = c.company
