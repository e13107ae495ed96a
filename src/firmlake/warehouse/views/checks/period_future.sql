-- check period_future, warning
-- A period ends after the last answer in the warehouse, so its accounts cannot be final. It is not the newest period.
SELECT country, company_number, start_date, end_date, {date_received: date_received} AS evidence
FROM (SELECT * EXCLUDE (recency) FROM accounts)
WHERE end_date > last_answer_day()
