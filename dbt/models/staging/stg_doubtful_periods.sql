{%- set figures = ["total_assets", "revenue", "equity", "debt"] -%}
-- One row for each period whose figures are not comparable with those of other periods, as in doubtful_periods of
-- firmlake's own warehouse: presumably another unit, less than 90 days, a total below zero, or several amounts that leap by
-- about a thousand.
WITH steps AS (
    SELECT
        a.*,
        u.company IS NOT NULL AS is_in_other_unit
        {%- for figure in figures %},
        CAST({{ figure }} AS double precision)
            / CAST(nullif(lag({{ figure }}) OVER earlier, 0) AS double precision) AS {{ figure }}_step
        {%- endfor %},
        lag(CASE WHEN u.company IS NOT NULL THEN 1 ELSE 0 END) OVER earlier AS previous_in_other_unit
    FROM {{ ref("stg_accounts") }} AS a
    LEFT JOIN {{ ref("stg_unit_errors") }} AS u
        ON u.company = a.company AND u.start_date = a.start_date AND u.end_date = a.end_date
    WINDOW earlier AS (
        PARTITION BY a.company ORDER BY a.end_date, a.date_received NULLS FIRST, a.start_date DESC
    )
)

SELECT company, start_date, end_date
FROM steps
WHERE
    is_in_other_unit
    OR period_days < 90
    OR least(total_assets, debt, long_term_debt, short_term_debt, employee_count) < 0
    OR (
        previous_in_other_unit = 0
        AND {% for figure in figures -%}
        CASE WHEN {{ figure }}_step BETWEEN 300 AND 3000 OR 1 / nullif({{ figure }}_step, 0) BETWEEN 300 AND 3000
            THEN 1 ELSE 0 END {{- " + " if not loop.last }}
        {%- endfor %} >= 2
    )
