{{- config(materialized="table") -}}
{#- The amounts that are compared; `unit_errors` of the warehouse has the same. -#}
{%- set amounts = [
    "total_assets", "equity", "debt", "revenue", "gross_margin", "cash", "capital", "short_term_debt", "long_term_debt",
    "retained_earnings",
] -%}
-- One row for each period whose figures are presumably in another unit than those of its neighbours, such as accounts
-- filed in thousands: the rule of the table unit_errors in firmlake's own warehouse, which explains it. By windows rather
-- than joins with aggregates, whose size PostgreSQL cannot estimate: it would choose nested loops.
WITH doubtful AS (
    SELECT
        country || ' ' || company_number AS company,
        greatest(max(total_assets), max(revenue)) AS greatest_amount
    FROM {{ source("firmlake", "financials") }}
    GROUP BY country, company_number
    HAVING
        {%- for amount in amounts %}
        CASE WHEN CAST(max(abs({{ amount }})) AS double precision)
            > 150 * CAST(min(abs(nullif({{ amount }}, 0))) AS double precision) THEN 1 ELSE 0 END
            {{- " +" if not loop.last }}
        {%- endfor %} >= 2
),

periods AS (
    SELECT a.*, d.greatest_amount
    FROM {{ ref("stg_accounts") }} AS a
    JOIN doubtful AS d ON d.company = a.company
),

-- Amounts as powers of ten.
levels AS (
    {%- for amount in amounts %}
    SELECT
        company, start_date, end_date, greatest_amount, period_rank, {{ loop.index }} AS amount,
        log(CAST(abs({{ amount }}) AS double precision)) AS level
    FROM periods
    WHERE {{ amount }} <> 0
    {{- " UNION ALL" if not loop.last }}
    {%- endfor %}
),

-- How each of up to twelve neighbours differs from a period.
neighbours AS (
    SELECT
        p.company, p.start_date, p.end_date, p.greatest_amount,
        p.period_rank - n.period_rank AS distance,
        2 * greatest(
            sum(CASE WHEN n.level - p.level > 1.5 THEN 1 ELSE 0 END),
            sum(CASE WHEN n.level - p.level < -1.5 THEN 1 ELSE 0 END)
        ) > count(*) AS is_leap,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY n.level - p.level) AS shift
    FROM levels AS p
    JOIN levels AS n
        ON n.company = p.company AND n.amount = p.amount
            AND n.period_rank <> p.period_rank AND n.period_rank - p.period_rank BETWEEN -6 AND 6
    GROUP BY p.company, p.start_date, p.end_date, p.greatest_amount, p.period_rank, n.period_rank
    HAVING count(*) >= 2
),

-- The median of the growth from one period to the next is taken out, after leaps by a unit.
ranked AS (
    SELECT
        *,
        shift - 3 * round(shift / 3) AS growth,
        row_number() OVER (PARTITION BY company, distance ORDER BY shift - 3 * round(shift / 3)) AS place,
        count(*) OVER (PARTITION BY company, distance) AS place_count
    FROM neighbours
),

differences AS (
    SELECT
        *,
        shift - distance * coalesce(
            avg(CASE WHEN distance = 1 AND 2 * place BETWEEN place_count AND place_count + 2 THEN growth END)
                OVER (PARTITION BY company),
            0
        ) AS difference
    FROM ranked
),

-- In powers of a thousand; null if by no unit.
powers AS (
    SELECT
        *,
        CASE WHEN is_leap AND abs(difference - 3 * round(difference / 3)) <= 0.9 THEN round(difference / 3) END AS power
    FROM differences
),

suspects AS (
    SELECT
        company, start_date, end_date, greatest_amount,
        count(*) AS compared_count,
        CASE
            {%- for power, unit in [(1, "1000"), (2, "1000000"), (-1, "0.001"), (-2, "0.000001")] %}
            WHEN 2 * sum(CASE WHEN power = {{ power }} THEN 1 ELSE 0 END) > count(*) THEN {{ unit }}
            {%- endfor %}
        END AS presumed_unit
    FROM powers
    GROUP BY company, start_date, end_date, greatest_amount
),

sides AS (
    SELECT
        *,
        sum(CASE WHEN presumed_unit > 1 THEN 1 ELSE 0 END) OVER (PARTITION BY company) AS small_count,
        sum(CASE WHEN presumed_unit < 1 THEN 1 ELSE 0 END) OVER (PARTITION BY company) AS large_count
    FROM suspects
)

SELECT company, start_date, end_date, presumed_unit
FROM sides
WHERE
    (
        presumed_unit > 1 AND (small_count <= large_count OR large_count = 0)
        OR presumed_unit < 1 AND (large_count < small_count OR small_count = 0)
    )
    AND (compared_count > 1 OR greatest_amount >= 1000000)
