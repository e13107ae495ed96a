-- table portfolio, company
-- One row per company with accounts: the main figures and ratios of its newest period, and their growth since the
-- previous period, as in trend, ratios and altman.
--
-- is_comparable: Whether there is no reason against comparing the figures of the newest period with those of others, see
-- doubtful_periods
-- incomparable_because: Why the figures are not comparable. Null: they are comparable
-- revenue_annual: Revenue converted to a year of 365 days. Null: it is missing, or the period is shorter than 90 days
-- revenue_annual_before: Revenue of the previous period, converted to a year. Null: a figure is missing or not comparable
-- gap_days: Days between the previous period and the newest; 0 if they follow each other. Null: there is no previous
-- period
-- revenue_growth: Growth of annualised revenue since the previous period, 0.1 is 10 %. Null: a figure is missing or not
-- comparable, or the earlier one is not above zero
-- employee_growth: Growth of the number of employees since the previous period, 0.1 is 10 %. Null: as in revenue_growth
-- total_assets_growth: Growth of total assets since the previous period, 0.1 is 10 %. Null: as in revenue_growth
-- days_to_file: Days from the end of the period to the day on which its accounts were first received; corrections do
-- not count. Null: the day of receipt is not stated
-- z: Altman's Z'', see altman. Null: a part is missing
-- zone: safe (above 2.6), grey or distress (below 1.1). Null: there is no score
-- loss_period_count: Number of periods in a row with a loss, back from the newest; 0 if the newest is not a loss
-- gross_margin_fraction: Gross margin divided by revenue. Null: one is missing, or revenue is not above zero
-- ebitda_margin: EBITDA divided by revenue. Null: one is missing, or revenue is not above zero
-- net_margin: Net profit divided by revenue. Null: one is missing, or revenue is not above zero
-- return_on_assets: Annualised net profit divided by total assets. Null: one is missing, or total assets are
-- not above zero
-- return_on_equity: Annualised net profit divided by equity. Null: one is missing, or equity is not above
-- zero
-- equity_fraction: Equity divided by total assets. Null: one is missing, or total assets are not above zero
-- debt_to_equity: Debt divided by equity. Null: one is missing, or equity is not above zero
-- net_debt_to_ebitda: Net debt divided by annualised EBITDA. Null: one is missing, or EBITDA is not above
-- zero
-- previous_start_date: First day of the previous period, see period_order. Null: there is none
-- previous_end_date: Last day of the previous period. Null: there is none
-- committee: First joint committee of the newest accounts, without leading zeros. Null: the accounts have none
-- size_band: Size of the company: micro, small, medium or large, see the function size_band. Null: neither employees
-- nor total assets are stated
WITH newest AS MATERIALIZED (
    SELECT * EXCLUDE (recency) FROM period_order WHERE recency = 1
)
SELECT
    n.country, n.company_number, c.name, c.place, n.start_date, n.end_date, n.period_days, n.health_indicator,
    d.incomparable_because IS NULL AS is_comparable, d.incomparable_because,
    n.revenue, annualised(n.revenue, n.period_days) AS revenue_annual,
    annualised(b.revenue, b.period_days) AS revenue_annual_before,
    growth(revenue_annual, revenue_annual_before) AS revenue_growth,
    n.net_profit, n.total_assets, n.equity, n.debt,
    ratio(n.equity, n.total_assets) AS equity_fraction,
    ratio(n.net_profit, n.revenue) AS net_margin, n.current_ratio,
    altman_of(n.total_assets, n.net_working_capital, n.retained_earnings, n.ebit, n.equity, n.debt, n.period_days) AS z,
    altman_zone(z) AS zone,
    n.employee_count,
    growth(n.employee_count, b.employee_count) AS employee_growth,
    n.first_received - n.end_date AS days_to_file,
    coalesce(l.loss_period_count, 0) AS loss_period_count,
    growth(n.total_assets, b.total_assets) AS total_assets_growth,
    -- Not from ratios, which would compute those of all periods.
    ratio(n.gross_margin, n.revenue) AS gross_margin_fraction,
    ratio(n.ebitda, n.revenue) AS ebitda_margin,
    ratio(annualised(n.net_profit, n.period_days), n.total_assets) AS return_on_assets,
    ratio(annualised(n.net_profit, n.period_days), n.equity) AS return_on_equity,
    n.quick_ratio,
    ratio(n.debt, n.equity) AS debt_to_equity,
    ratio(
        ((n.long_term_debt_financial::DECIMAL(19, 2) + n.short_term_debt_financial)::DECIMAL(20, 2)
            - n.cash)::DECIMAL(20, 2),
        annualised(n.ebitda, n.period_days)
    ) AS net_debt_to_ebitda,
    o.usual_days_to_file,
    o.previous_start_date, o.previous_end_date,
    n.start_date - o.previous_end_date - 1 AS gap_days,
    j.committee, size_band(n.employee_count, n.total_assets) AS size_band
FROM newest o
JOIN (
    -- Without recency, which would sort wide rows.
    SELECT * EXCLUDE (recency) FROM accounts
) n USING (country, company_number, start_date, end_date)
JOIN companies c USING (country, company_number)
LEFT JOIN doubtful_periods d USING (country, company_number, start_date, end_date)
LEFT JOIN loss_streaks l USING (country, company_number)
LEFT JOIN (
    SELECT country, company_number, start_date, end_date, arg_min(committee(c.code), c.position) AS committee
    FROM financial_joint_committees c
    SEMI JOIN newest USING (country, company_number, start_date, end_date)
    LEFT JOIN refiled again USING (country, company_number, start_date, end_date)
    WHERE c.dup_no = coalesce(again.dup_no, 0)
    GROUP BY ALL
) j USING (country, company_number, start_date, end_date)
LEFT JOIN (
    SELECT country, company_number, start_date, end_date, period_days, revenue, total_assets, employee_count
    FROM (SELECT * EXCLUDE (recency) FROM accounts)
    ANTI JOIN doubtful_periods USING (country, company_number, start_date, end_date)
) b ON b.country = o.country AND b.company_number = o.company_number
    AND b.start_date = o.previous_start_date AND b.end_date = o.previous_end_date
    AND d.incomparable_because IS NULL
