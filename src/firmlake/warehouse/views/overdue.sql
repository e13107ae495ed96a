-- macro overdue(on_date)
-- example: overdue(DATE '2026-01-01')
-- One row per company whose next accounts were expected before a day but are not there. They are expected when a
-- year after the newest period has passed, and then as many days as the company usually takes to file.
-- Companies whose accounts never state a day of receipt are left out.
--
-- expected_end_date: Day on which the next period ends if it lasts a year
-- expected_date: Day on which the next accounts were expected: expected_end_date plus the usual days to file
-- overdue_days: Days from expected_date to the day given
SELECT
    country, company_number, name, end_date, usual_days_to_file,
    next_end(end_date) AS expected_end_date,
    expected_end_date + ceil(usual_days_to_file)::INTEGER AS expected_date,
    due_by - expected_date AS overdue_days
FROM (SELECT on_date::DATE AS due_by) asked
CROSS JOIN portfolio
WHERE expected_date < due_by
