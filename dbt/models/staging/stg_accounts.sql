-- One row for each financial period; if it was filed more than once, the filing received last. period_rank is 1 for the
-- newest period of a company.
WITH filings AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY country, company_number, start_date, end_date
            ORDER BY date_received DESC NULLS LAST, dup_no DESC
        ) AS filing_rank
    FROM {{ source("firmlake", "financials") }}
)

SELECT
    country || ' ' || company_number AS company,
    start_date,
    end_date,
    date_received,
    row_number() OVER (
        PARTITION BY country, company_number ORDER BY end_date DESC, date_received DESC NULLS LAST, start_date
    ) AS period_rank,
    end_date - start_date + 1 AS period_days,
    revenue,
    -- A year of 365 days; periods of 52 or 53 weeks and leap years count as one, and those below 90 days have none.
    CASE
        WHEN end_date - start_date + 1 BETWEEN 360 AND 371 THEN revenue
        WHEN end_date - start_date >= 89 THEN round(CAST(revenue AS numeric(28, 2)) * 365 / (end_date - start_date + 1), 2)
    END AS revenue_annual,
    gross_margin,
    net_profit,
    total_assets,
    cash,
    equity,
    capital,
    retained_earnings,
    debt,
    long_term_debt,
    short_term_debt,
    employee_count,
    health_indicator,
    fetched_at
FROM filings
WHERE filing_rank = 1
