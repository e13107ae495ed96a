-- table portfolio
-- One row for each company with accounts: the main figures and ratios of its newest period, and their growth since the
-- previous period, as in trend, ratios and altman. A table made at load, because comparing companies needs these
-- figures of all of them.
--
-- is_comparable: Whether the figures of the newest period are comparable with those of the company's other periods, see
-- quality
-- revenue_growth: Growth of annualised revenue since the previous period, 0.1 is 10 %. Null: a figure is missing or not
-- comparable, or the earlier one is not above zero
-- employee_growth: Growth of the number of employees since the previous period, 0.1 is 10 %. Null: as in revenue_growth
-- total_assets_growth: Growth of total assets since the previous period, 0.1 is 10 %. Null: as in revenue_growth
-- days_to_file: Days from the end of the period to the day on which its accounts were first received; corrections do
-- not count. Null: the day of receipt is not stated
-- z: Altman's Z'', see altman. Null: a part is missing
-- zone: safe (above 2.6), grey or distress (below 1.1). Null: there is no score
-- loss_period_count: Number of periods in a row with a loss, back from the newest; 0 if the newest is not a loss
-- usual_days_to_file: Median of days_to_file over all periods of the company. Null: the day of receipt is never stated
-- gross_margin_fraction: Gross margin divided by revenue. Null: one of the two is missing, or revenue is not above zero
-- ebitda_margin: EBITDA divided by revenue. Null: one of the two is missing, or revenue is not above zero
-- net_margin: Net profit divided by revenue. Null: one of the two is missing, or revenue is not above zero
-- return_on_assets: Annualised net profit divided by total assets. Null: one of the two is missing, or total assets are
-- not above zero
-- return_on_equity: Annualised net profit divided by equity. Null: one of the two is missing, or equity is not above
-- zero
-- equity_fraction: Equity divided by total assets. Null: one of the two is missing, or total assets are not above zero
-- debt_to_equity: Debt divided by equity. Null: one of the two is missing, or equity is not above zero
-- net_debt_to_ebitda: Net debt divided by annualised EBITDA. Null: one of the two is missing, or EBITDA is not above
-- zero
-- previous_start_date: First day of the previous period. Null: there is none
-- previous_end_date: Last day of the previous period. Null: there is none
WITH periods AS MATERIALIZED (FROM two_newest)
SELECT
    n.country, n.company_number, c.name, c.place, n.start_date, n.end_date, n.period_days, n.health_indicator,
    n.incomparable_because IS NULL AS is_comparable, n.incomparable_because,
    n.revenue, n.revenue_annual,
    CASE WHEN is_comparable AND b.incomparable_because IS NULL THEN growth(n.revenue_annual, b.revenue_annual) END
        AS revenue_growth,
    n.net_profit, n.total_assets, n.equity, n.debt,
    ratio(n.equity, n.total_assets) AS equity_fraction,
    ratio(n.net_profit, n.revenue) AS net_margin, n.current_ratio,
    n.z, altman_zone(n.z) AS zone,
    n.employee_count,
    CASE WHEN is_comparable AND b.incomparable_because IS NULL THEN growth(n.employee_count, b.employee_count) END
        AS employee_growth,
    n.first_received - n.end_date AS days_to_file,
    coalesce(l.loss_period_count, 0) AS loss_period_count,
    CASE WHEN is_comparable AND b.incomparable_because IS NULL THEN growth(n.total_assets, b.total_assets) END
        AS total_assets_growth,
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
    n.usual_days_to_file,
    b.start_date AS previous_start_date, b.end_date AS previous_end_date
FROM (FROM periods WHERE recency = 1) n
JOIN companies c USING (country, company_number)
LEFT JOIN loss_streaks l USING (country, company_number)
LEFT JOIN (FROM periods WHERE recency = 2) b ON b.country = n.country AND b.company_number = n.company_number
