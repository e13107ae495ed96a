-- view previous_accounts
-- One row per company with accounts of at least two periods: the accounts of the period before the newest.
SELECT a.* EXCLUDE (recency)
FROM accounts a
JOIN (SELECT country, company_number, previous_start_date, previous_end_date FROM portfolio) p
    ON p.country = a.country AND p.company_number = a.company_number
    AND p.previous_start_date = a.start_date AND p.previous_end_date = a.end_date
