-- view trend
-- One row for each financial period of a company: its figures, amounts converted to a year, and growth since the
-- previous period. Growth of revenue, margins and profit compares amounts converted to a year; period_days and gap_days
-- show how well the two periods match. Growth is null if the figures of one of the two periods are not comparable, such
-- as accounts filed in thousands, see quality.
--
-- previous_end_date: Last day of the previous period. Null: this is the first period
-- gap_days: Days between the two periods; 0 if they follow each other, negative if they overlap. Null: this is the
-- first period
-- is_comparable: Whether the figures of the period are comparable with those of the company's other periods, see
-- quality
-- incomparable_because: Why the figures are not comparable. Null: they are comparable
-- revenue_annual: Revenue converted to a year of 365 days. Null: it is missing
-- gross_margin_annual: Gross margin converted to a year of 365 days. Null: it is missing
-- ebitda_annual: EBITDA converted to a year of 365 days. Null: it is missing
-- net_profit_annual: Net profit converted to a year of 365 days. Null: it is missing
-- revenue_growth: Growth of annualised revenue since the previous period, 0.1 is 10 %. Null: a figure is missing or not
-- comparable, or the earlier one is not above zero
-- gross_margin_growth: Growth of the annualised gross margin since the previous period, 0.1 is 10 %. Null: as in
-- revenue_growth
-- ebitda_growth: Growth of annualised EBITDA since the previous period, 0.1 is 10 %. Null: as in revenue_growth
-- net_profit_growth: Growth of annualised net profit since the previous period, 0.1 is 10 %. Null: as in revenue_growth
-- total_assets_growth: Growth of total assets since the previous period, 0.1 is 10 %. Null: as in revenue_growth
-- equity_growth: Growth of equity since the previous period, 0.1 is 10 %. Null: as in revenue_growth
-- employee_growth: Growth of the number of employees since the previous period, 0.1 is 10 %. Null: as in revenue_growth
SELECT
    country, company_number, start_date, end_date, date_received, period_days, recency,
    previous_end_date,
    start_date - previous_end_date - 1 AS gap_days,
    is_comparable, incomparable_because,
    revenue, revenue_annual,
    CASE WHEN is_comparable THEN growth(revenue_annual, previous_revenue) END AS revenue_growth,
    gross_margin, gross_margin_annual,
    CASE WHEN is_comparable THEN growth(gross_margin_annual, previous_gross_margin) END AS gross_margin_growth,
    ebitda, ebitda_annual,
    CASE WHEN is_comparable THEN growth(ebitda_annual, previous_ebitda) END AS ebitda_growth,
    net_profit, net_profit_annual,
    CASE WHEN is_comparable THEN growth(net_profit_annual, previous_net_profit) END AS net_profit_growth,
    total_assets, CASE WHEN is_comparable THEN growth(total_assets, previous_total_assets) END AS total_assets_growth,
    equity, CASE WHEN is_comparable THEN growth(equity, previous_equity) END AS equity_growth,
    employee_count, CASE WHEN is_comparable THEN growth(employee_count, previous_employee_count) END AS employee_growth
FROM (
    -- The order of recency, so that periods are sorted once. Each lead stands alone: a client of DuckDB 1.4 cannot read one
    -- inside an expression.
    SELECT
        *,
        row_number() OVER periods AS recency,
        lead(end_date) OVER periods AS previous_end_date,
        lead(CASE WHEN is_comparable THEN revenue_annual END) OVER periods AS previous_revenue,
        lead(CASE WHEN is_comparable THEN gross_margin_annual END) OVER periods AS previous_gross_margin,
        lead(CASE WHEN is_comparable THEN ebitda_annual END) OVER periods AS previous_ebitda,
        lead(CASE WHEN is_comparable THEN net_profit_annual END) OVER periods AS previous_net_profit,
        lead(CASE WHEN is_comparable THEN total_assets END) OVER periods AS previous_total_assets,
        lead(CASE WHEN is_comparable THEN equity END) OVER periods AS previous_equity,
        lead(CASE WHEN is_comparable THEN employee_count END) OVER periods AS previous_employee_count
    FROM (
        SELECT
            a.* EXCLUDE (recency),
            incomparable_because(u.presumed_unit, period_days) AS incomparable_because,
            incomparable_because(u.presumed_unit, period_days) IS NULL AS is_comparable,
            annualised(a.revenue, period_days) AS revenue_annual,
            annualised(a.gross_margin, period_days) AS gross_margin_annual,
            annualised(a.ebitda, period_days) AS ebitda_annual,
            annualised(a.net_profit, period_days) AS net_profit_annual
        FROM accounts a
        LEFT JOIN unit_errors u USING (country, company_number, start_date, end_date)
    )
    WINDOW periods AS (
        PARTITION BY country, company_number ORDER BY end_date DESC, date_received DESC NULLS LAST, start_date
    )
)
