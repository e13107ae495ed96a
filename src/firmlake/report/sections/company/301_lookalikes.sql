-- title: Lookalikes
-- chapter: Similar companies
-- In the order of the service's score. Figures are shown for companies that the warehouse holds.
SELECT coalesce(c.name, '(not held)') AS company,
    l.lookalike_country || ' ' || l.lookalike_company_number AS number,
    l.rank, l.score, a.revenue AS revenue_amount,
    a.total_assets AS total_assets_amount, a.employee_count AS employees, count(*) OVER () AS total
FROM (FROM lookalikes WHERE country = getvariable('country') AND company_number = getvariable('number')) l
LEFT JOIN companies c ON c.country = l.lookalike_country AND c.company_number = l.lookalike_company_number
LEFT JOIN (
    FROM financials WHERE (country, company_number) IN (
        SELECT (lookalike_country, lookalike_company_number) FROM lookalikes
        WHERE country = getvariable('country') AND company_number = getvariable('number')
    )
    QUALIFY row_number() OVER (
        PARTITION BY country, company_number ORDER BY end_date DESC, date_received DESC NULLS LAST, dup_no DESC
    ) = 1
) a ON a.country = l.lookalike_country AND a.company_number = l.lookalike_company_number
ORDER BY l.rank LIMIT 10
