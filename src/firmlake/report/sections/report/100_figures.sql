-- title: Figures
-- chapter: Figures
-- The figures at the top: now, and what a change is measured between, which are the companies that have the figure both
-- times. Figures of accounts are of the newest accounts, without doubtful ones.
WITH sides AS (
    SELECT 'now' AS side, * FROM portfolio
    UNION ALL BY NAME
    SELECT 'after' AS side, n.is_comparable AND b.is_comparable AS is_comparable,
        if(b.revenue_annual IS NULL, NULL, n.revenue_annual) AS revenue_annual,
        if(b.employee_count IS NULL, NULL, n.employee_count) AS employee_count,
        if(b.revenue_growth IS NULL, NULL, n.revenue_growth) AS revenue_growth,
        if(b.equity_fraction IS NULL, NULL, n.equity_fraction) AS equity_fraction,
        if(b.zone IS NULL, NULL, n.zone) AS zone,
        if(b.equity IS NULL, NULL, n.equity) AS equity
    FROM portfolio n JOIN portfolio_before b USING (country, company_number)
    UNION ALL BY NAME
    SELECT 'before' AS side, n.is_comparable AND b.is_comparable AS is_comparable,
        if(n.revenue_annual IS NULL, NULL, b.revenue_annual) AS revenue_annual,
        if(n.employee_count IS NULL, NULL, b.employee_count) AS employee_count,
        if(n.revenue_growth IS NULL, NULL, b.revenue_growth) AS revenue_growth,
        if(n.equity_fraction IS NULL, NULL, b.equity_fraction) AS equity_fraction,
        if(n.zone IS NULL, NULL, b.zone) AS zone,
        if(n.equity IS NULL, NULL, b.equity) AS equity
    FROM portfolio n JOIN portfolio_before b USING (country, company_number)
)
SELECT side,
    CASE WHEN side <> 'before' THEN (SELECT count(*) FROM companies)
        ELSE (SELECT count(*) FROM companies_as_of((SELECT run_id FROM earlier_run))) END AS companies,
    CASE WHEN side <> 'before' THEN (SELECT count(*) FROM portfolio)
        ELSE (SELECT count(*) FROM portfolio_before) END AS with_accounts,
    sum(revenue_annual) AS revenue_amount,
    sum(employee_count) AS employees,
    median(revenue_growth::DOUBLE) AS growth,
    median(equity_fraction::DOUBLE) AS equity_fraction,
    count(*) FILTER (zone = 'distress') AS distress,
    count(*) FILTER (equity < 0) AS negative_equity,
    count(revenue_annual) AS revenue_amount_companies,
    count(employee_count) AS employees_companies,
    count(revenue_growth) AS growth_companies,
    count(equity_fraction) AS equity_fraction_companies,
    count(zone) AS distress_companies,
    count(equity) AS negative_equity_companies,
    (SELECT count(*) FROM portfolio WHERE NOT is_comparable) AS doubtful,
    (SELECT count(*) FROM companies JOIN company_status USING (country, company_number) WHERE status = 'not found')
        AS not_found,
    (SELECT finished_at FROM earlier_run) AS compared_with
FROM (VALUES ('now'), ('before'), ('after')) AS s(side) LEFT JOIN (FROM sides WHERE is_comparable) USING (side)
WHERE side = 'now' OR EXISTS (FROM earlier_run)
GROUP BY side
