-- view changes
-- One row per change of a company that a run found: the rows of company_changes, with the time and the company's name.
--
-- found_at: Time of the last answer of the run that found the change, UTC
-- run_id: Run that found the change
-- name: Name of the company today. Null: it was never found
SELECT r.finished_at AS found_at, c.name, e.*
FROM company_changes e
JOIN runs r ON r.run_id = e.run_id
LEFT JOIN companies c ON c.country = e.country AND c.company_number = e.company_number
