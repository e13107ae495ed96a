-- table portfolio
-- One row for each company with accounts: the main figures and ratios of its newest period, and their growth since the
-- period before, as in trend, ratios and altman. Made at load, since comparing companies takes these figures of all.
--
-- is_comparable: Whether the figures compare with those of the company's other periods
-- revenue_growth: Growth of annual revenue, 0.1 is 10 %. Null: a figure is missing or does not compare
-- employee_growth: Growth of employees, in the same terms
-- total_assets_growth: Growth of total assets, in the same terms
-- days_to_file: Days from the end of the period to the day the accounts were received. Null: that day is not stated
-- z: Altman's Z'', see altman. Null: a part is missing
-- zone: safe (above 2.6), grey or distress (below 1.1). Null: there is no score
-- loss_period_count: Periods in a row with a loss, back from the newest; 0 if the newest is not a loss
-- usual_days_to_file: Median of days_to_file over all periods of the company
WITH periods AS MATERIALIZED (FROM two_newest)
SELECT
    n.country, n.company_number, c.name, c.place, n.start_date, n.end_date, n.period_days, n.health_indicator,
    n.incomparable_because IS NULL AS is_comparable, n.incomparable_because,
    n.revenue, n.revenue_annual, growth(n.revenue_annual, b.revenue_annual) AS revenue_growth,
    n.net_profit, n.total_assets, n.equity, n.debt,
    r.equity_fraction, r.net_margin, n.current_ratio,
    n.z, altman_zone(n.z) AS zone,
    n.employee_count, growth(n.employee_count, b.employee_count) AS employee_growth,
    n.date_received - n.end_date AS days_to_file,
    coalesce(l.loss_period_count, 0) AS loss_period_count,
    growth(n.total_assets, b.total_assets) AS total_assets_growth,
    r.gross_margin_fraction, r.ebitda_margin, r.return_on_assets, r.return_on_equity, r.quick_ratio, r.debt_to_equity,
    r.net_debt_to_ebitda,
    n.usual_days_to_file
FROM (FROM periods WHERE recency = 1) n
JOIN companies c USING (country, company_number)
JOIN ratios r USING (country, company_number, start_date, end_date)
LEFT JOIN loss_streaks l USING (country, company_number)
LEFT JOIN (FROM periods WHERE recency = 2 AND incomparable_because IS NULL) b
    ON b.country = n.country AND b.company_number = n.company_number AND n.incomparable_because IS NULL
