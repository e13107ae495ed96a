-- check period_reversed, error
-- A period ends before it begins.
SELECT country, company_number, start_date, end_date, {period_days: period_days} AS evidence
FROM accounts
WHERE period_days < 1
