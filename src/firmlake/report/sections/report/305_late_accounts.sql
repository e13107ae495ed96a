-- title: Late accounts
-- chapter: Movers
-- Companies whose next accounts were overdue, by their usual filing date, when this generation was published.
SELECT name AS company, country || ' ' || company_number AS number, count(*) OVER () AS total,
    overdue_days AS days_late, expected_date AS expected,
    end_date AS newest_accounts
FROM overdue((SELECT max(published_at)::DATE FROM loads))
ORDER BY overdue_days DESC, country, company_number LIMIT 8
