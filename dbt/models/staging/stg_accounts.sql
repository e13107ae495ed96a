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
    row_number() OVER (
        PARTITION BY country, company_number ORDER BY end_date DESC, date_received DESC NULLS LAST, start_date
    ) AS period_rank,
    revenue,
    net_profit,
    total_assets,
    equity,
    employee_count,
    health_indicator,
    fetched_at
FROM filings
WHERE filing_rank = 1
