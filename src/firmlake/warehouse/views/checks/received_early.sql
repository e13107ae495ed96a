-- check received_early, warning
-- Accounts were received before their period ended.
SELECT country, company_number, start_date, end_date, {date_received: date_received} AS evidence
FROM accounts
WHERE date_received < end_date
