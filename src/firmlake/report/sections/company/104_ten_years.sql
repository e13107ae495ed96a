-- title: Ten years
-- chapter: Accounts
-- Newest first. Revenue, EBITDA, net profit and growth are per year; growth is left out where periods cannot be
-- compared.
SELECT t.end_date AS accounts_to, t.period_days AS days, t.revenue_annual AS revenue_amount,
    t.revenue_growth AS growth,
    t.ebitda_annual AS ebitda_amount, t.net_profit_annual AS net_profit_amount,
    t.total_assets AS total_assets_amount, t.equity AS equity_amount, a.debt AS debt_amount,
    t.employee_count AS employees, a.health_indicator, z.zone,
    t.incomparable_because AS doubtful_because, count(*) OVER () AS total
FROM (FROM trend WHERE country = getvariable('country') AND company_number = getvariable('number')) t
JOIN (
    FROM accounts WHERE country = getvariable('country') AND company_number = getvariable('number')
) a USING (country, company_number, start_date, end_date)
JOIN (
    FROM altman WHERE country = getvariable('country') AND company_number = getvariable('number')
) z USING (country, company_number, start_date, end_date)
ORDER BY t.recency LIMIT 10
