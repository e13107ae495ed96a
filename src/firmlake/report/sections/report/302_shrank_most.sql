-- title: Shrank most
-- chapter: Movers
-- Annual revenue against the period before. The same accounts are left out.
SELECT name AS company, country || ' ' || company_number AS number, count(*) OVER () AS total,
    revenue_growth, revenue_annual AS revenue_amount,
    revenue_annual_before AS revenue_before_amount, end_date AS accounts_to,
    if(gap_days > 0, gap_days, NULL) AS days_between
FROM portfolio
WHERE is_comparable AND revenue_growth < 0
    AND NOT 1 + revenue_growth::DOUBLE BETWEEN 300 AND 3000
    AND NOT 1 + revenue_growth::DOUBLE BETWEEN 1 / 3000 AND 1 / 300
ORDER BY revenue_growth , country, company_number LIMIT 8
