-- view trend
-- One row per financial period of a company: its figures, amounts converted to a year, and growth since the
-- previous period (see period_order). Growth of revenue, margins and profit compares amounts converted to a year.
--
-- previous_end_date: Last day of the previous period. Null: there is none
-- gap_days: Days between the two periods; 0 if they follow each other, below 0 if they overlap (by seven days at
-- most). Null: there is no previous period
-- is_comparable: Whether there is no reason against comparing the figures of the period with those of others, see
-- doubtful_periods
-- incomparable_because: Why the figures are not comparable. Null: they are comparable
-- revenue_annual: Revenue converted to a year of 365 days. Null: it is missing, or the period is shorter than 90 days
-- gross_margin_annual: Gross margin converted to a year of 365 days. Null: it is missing, or the period is shorter than 90 days
-- ebitda_annual: EBITDA converted to a year of 365 days. Null: it is missing, or the period is shorter than 90 days
-- net_profit_annual: Net profit converted to a year of 365 days. Null: it is missing, or the period is shorter than 90 days
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
    country, company_number, start_date, end_date, n.date_received, n.period_days, o.recency,
    o.previous_end_date,
    start_date - o.previous_end_date - 1 AS gap_days,
    d.incomparable_because IS NULL AS is_comparable,
    d.incomparable_because,
    n.revenue,
    annualised(n.revenue, n.period_days) AS revenue_annual,
    growth(revenue_annual, annualised(b.revenue, b.period_days)) AS revenue_growth,
    n.gross_margin,
    annualised(n.gross_margin, n.period_days) AS gross_margin_annual,
    growth(gross_margin_annual, annualised(b.gross_margin, b.period_days))
        AS gross_margin_growth,
    n.ebitda,
    annualised(n.ebitda, n.period_days) AS ebitda_annual,
    growth(ebitda_annual, annualised(b.ebitda, b.period_days)) AS ebitda_growth,
    n.net_profit,
    annualised(n.net_profit, n.period_days) AS net_profit_annual,
    growth(net_profit_annual, annualised(b.net_profit, b.period_days)) AS net_profit_growth,
    n.total_assets, growth(n.total_assets, b.total_assets) AS total_assets_growth,
    n.equity, growth(n.equity, b.equity) AS equity_growth,
    n.employee_count, growth(n.employee_count, b.employee_count) AS employee_growth
FROM (SELECT * EXCLUDE (recency) FROM accounts) n
JOIN period_order o USING (country, company_number, start_date, end_date)
LEFT JOIN doubtful_periods d USING (country, company_number, start_date, end_date)
LEFT JOIN (
    SELECT a.*
    FROM (SELECT * EXCLUDE (recency) FROM accounts) a
    ANTI JOIN doubtful_periods USING (country, company_number, start_date, end_date)
) b ON b.country = n.country AND b.company_number = n.company_number
    AND b.start_date = o.previous_start_date AND b.end_date = o.previous_end_date
    AND d.incomparable_because IS NULL
