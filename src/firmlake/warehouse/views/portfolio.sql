-- view portfolio
-- One row for each company with accounts: the main figures of its newest period.
--
-- z: Altman's Z'', see altman. Null: a part is missing
-- loss_period_count: Periods in a row with a loss, back from the newest; 0 if the newest is not a loss
SELECT
    a.country, a.company_number, a.name, a.place, a.start_date, a.end_date, a.period_days, a.health_indicator,
    t.is_comparable, t.incomparable_because,
    t.revenue, t.revenue_annual, t.revenue_growth,
    a.net_profit, a.total_assets, a.equity, a.debt,
    r.equity_fraction, r.net_margin, a.current_ratio,
    z.z, z.zone,
    a.employee_count, t.employee_growth,
    p.days_to_file,
    coalesce(l.loss_period_count, 0) AS loss_period_count
FROM latest_accounts a
JOIN trend t USING (country, company_number, start_date, end_date)
JOIN ratios r USING (country, company_number, start_date, end_date)
JOIN altman z USING (country, company_number, start_date, end_date)
JOIN punctuality p USING (country, company_number, start_date, end_date)
LEFT JOIN loss_streaks l USING (country, company_number)
