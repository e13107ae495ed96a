-- check period_length, note
-- A period is not about a year long (360 to 371 days), so its revenue and profit compare with other periods only when
-- annualised.
SELECT country, company_number, start_date, end_date, {period_days: period_days} AS evidence
FROM accounts
WHERE period_days NOT BETWEEN 360 AND 371
