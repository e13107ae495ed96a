-- macro overdue(on_date)
-- example: overdue(DATE '2026-01-01')
-- Companies whose next accounts were expected by a day but are not there: the period after the newest one would have
-- ended, and as many days have passed since then as the company usually takes to file.
--
-- expected_end_date: When the next period ends, if it lasts a year
-- expected_date: expected_end_date plus the usual days to file
-- overdue_days: Days from expected_date to the day asked for
SELECT
    country, company_number, c.name, p.end_date, p.usual_days_to_file,
    (p.end_date + INTERVAL 1 YEAR)::DATE AS expected_end_date,
    expected_end_date + ceil(p.usual_days_to_file)::INTEGER AS expected_date,
    due_by - expected_date AS overdue_days
FROM (SELECT on_date AS due_by) asked
CROSS JOIN punctuality p
JOIN companies c USING (country, company_number)
WHERE p.recency = 1 AND expected_date < due_by
