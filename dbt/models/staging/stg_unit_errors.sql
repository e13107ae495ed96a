{{- config(materialized="table") -}}
{#- The amounts that are compared, capital first; `unit_errors` of the warehouse has the same. -#}
{%- set amounts = [
    "capital", "total_assets", "equity", "debt", "revenue", "gross_margin", "cash", "short_term_debt", "long_term_debt",
    "retained_earnings",
] -%}
-- One row for each period whose amounts as a whole are presumably in another unit than those of the company's other
-- periods, such as accounts filed in thousands; presumed_unit is null if the factor is no unit. The rule of the table
-- unit_errors in firmlake's own warehouse, which explains it.
WITH doubtful AS (
    SELECT
        country || ' ' || company_number AS company,
        greatest(max(total_assets), max(revenue)) AS greatest_amount
    FROM {{ source("firmlake", "financials") }}
    GROUP BY country, company_number
    HAVING
        {%- for amount in amounts %}
        CASE WHEN CAST(max(abs({{ amount }})) AS double precision)
            > 20 * CAST(min(abs(nullif({{ amount }}, 0))) AS double precision) THEN 1 ELSE 0 END
            {{- " +" if not loop.last }}
        {%- endfor %} >= 2
),

-- Amounts as powers of ten.
stated AS (
    {%- for amount in amounts %}
    SELECT
        a.company, start_date, end_date, date_received, greatest_amount, {{ loop.index }} AS amount,
        log(CAST(abs({{ amount }}) AS double precision)) AS level
    FROM {{ ref("stg_accounts") }} AS a
    JOIN doubtful AS d ON d.company = a.company
    WHERE {{ amount }} <> 0
    {{- " UNION ALL" if not loop.last }}
    {%- endfor %}
),

counted AS (
    SELECT *, count(*) OVER (PARTITION BY company, start_date, end_date) AS amount_count FROM stated
),

levels AS (
    SELECT
        company, start_date, end_date, greatest_amount, amount, level,
        dense_rank() OVER (
            PARTITION BY company ORDER BY end_date, date_received NULLS FIRST, start_date DESC
        ) AS place
    FROM counted
    WHERE amount_count >= 2
),

-- How each amount differs from that of the period before.
steps AS (
    SELECT n.company, n.place, n.amount, n.level - b.level AS step
    FROM levels AS n
    JOIN levels AS b ON b.company = n.company AND b.amount = n.amount AND b.place = n.place - 1
),

shifts AS (
    SELECT company, place, percentile_cont(0.5) WITHIN GROUP (ORDER BY step) AS shift
    FROM steps
    GROUP BY company, place
    HAVING count(*) >= 2
),

-- The usual growth from one period to the next, without leaps.
usual AS (
    SELECT company, percentile_cont(0.5) WITHIN GROUP (ORDER BY shift) AS growth
    FROM shifts
    WHERE abs(shift) < 1.4
    GROUP BY company
),

grown AS (
    SELECT h.company, h.place, h.shift, coalesce(u.growth, 0) AS growth
    FROM shifts AS h
    LEFT JOIN usual AS u ON u.company = h.company
),

leaps AS (
    SELECT
        s.company, s.place, g.shift - g.growth AS leap, 3 * round((g.shift - g.growth) / 3) AS unit,
        2 * greatest(
            sum(CASE WHEN s.step - g.growth > 1.4 THEN 1 ELSE 0 END),
            sum(CASE WHEN s.step - g.growth < -1.4 THEN 1 ELSE 0 END)
        ) > count(*) AS is_joint,
        count(*) >= 4 AND 2 * sum(CASE WHEN abs(s.step - g.shift) <= 0.15 THEN 1 ELSE 0 END) > count(*) AS is_even,
        sum(CASE WHEN s.amount = 1 AND abs(s.step) <= 0.5 THEN 1 ELSE 0 END) > 0 AS is_capital_same
    FROM steps AS s
    JOIN grown AS g ON g.company = s.company AND g.place = s.place
    GROUP BY s.company, s.place, g.shift, g.growth
),

breaks AS (
    SELECT
        company, place, abs(leap - unit) AS misfit,
        CASE
            WHEN NOT is_joint THEN 0
            WHEN is_capital_same AND (unit = 0 OR abs(leap - unit) > 0.3) THEN 0
            WHEN is_even AND abs(leap - unit) > 0.5 THEN leap
            WHEN unit <> 0 AND abs(leap - unit) <= 0.9 THEN unit
            WHEN is_even THEN leap
            ELSE 0
        END AS leap
    FROM leaps
),

periods AS (
    SELECT l.company, l.place, l.start_date, l.end_date, l.greatest_amount, coalesce(b.leap, 0) AS leap, b.misfit
    FROM (SELECT DISTINCT company, place, start_date, end_date, greatest_amount FROM levels) AS l
    LEFT JOIN breaks AS b ON b.company = l.company AND b.place = l.place
),

-- The unit of each period against that of the first; stretches of equal units are numbered.
units AS (
    SELECT
        p.*,
        sum(leap) OVER stretch AS level,
        round(sum(leap) OVER stretch) AS unit,
        sum(CASE WHEN leap <> 0 THEN 1 ELSE 0 END) OVER stretch AS stretch_no
    FROM periods AS p
    WINDOW stretch AS (PARTITION BY company ORDER BY place)
),

ends AS (
    SELECT company, stretch_no, avg(misfit) AS misfit
    FROM (
        SELECT company, stretch_no, misfit FROM units WHERE leap <> 0
        UNION ALL
        SELECT company, stretch_no - 1, misfit FROM units WHERE leap <> 0
    ) AS both_ends
    GROUP BY company, stretch_no
),

sizes AS (
    SELECT
        u.company, u.unit, count(*) AS period_count,
        coalesce(
            percentile_cont(0.5) WITHIN GROUP (
                ORDER BY CAST(greatest(a.total_assets, a.revenue) AS double precision) / nullif(a.employee_count, 0)
            ) < 1000,
            false
        ) AS is_too_small
    FROM units AS u
    JOIN {{ ref("stg_accounts") }} AS a
        ON a.company = u.company AND a.start_date = u.start_date AND a.end_date = u.end_date
    GROUP BY u.company, u.unit
),

compared AS (
    SELECT
        *,
        sum(period_count) OVER (PARTITION BY company) AS compared_count,
        max(CASE WHEN is_too_small THEN 1 ELSE 0 END) OVER (PARTITION BY company) AS decided_by_employees
    FROM sizes
),

ranked AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY company
            ORDER BY
                CASE WHEN 3 * period_count >= compared_count THEN 0 ELSE 1 END,
                CASE WHEN is_too_small THEN 1 ELSE 0 END, period_count DESC, unit DESC
        ) AS choice
    FROM compared
)

SELECT
    u.company, u.start_date, u.end_date,
    CASE r.unit - u.unit WHEN 3 THEN 1000 WHEN 6 THEN 1000000 WHEN -3 THEN 0.001 WHEN -6 THEN 0.000001 END AS presumed_unit
FROM units AS u
JOIN ranked AS r ON r.company = u.company AND r.choice = 1
LEFT JOIN ends AS e ON e.company = u.company AND e.stretch_no = u.stretch_no
WHERE
    u.unit <> r.unit
    AND (r.unit - u.unit NOT IN (3, 6, -3, -6) OR e.misfit <= 0.602059991327962)
    AND (r.compared_count > 2 OR r.decided_by_employees = 1 OR u.greatest_amount >= 1000000)
