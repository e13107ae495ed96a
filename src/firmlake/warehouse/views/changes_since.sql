-- macro changes_since(moment)
-- example: changes_since(DATE '2026-01-01')
-- One row for each change that runs found since a time (UTC): the rows of changes, with the time and the company's name.
--
-- found_at: Time of the last answer of the run that found the change, UTC
-- run_id: Run that found the change
-- name: Name of the company today. Null: it was never found
SELECT r.finished_at AS found_at, c.name, e.*
FROM (SELECT moment::TIMESTAMP AS first_moment) asked
JOIN runs r ON r.finished_at >= first_moment
JOIN changes e ON e.run_id = r.run_id
LEFT JOIN companies c ON c.country = e.country AND c.company_number = e.company_number
ORDER BY found_at DESC, e.country, e.company_number, e.position
