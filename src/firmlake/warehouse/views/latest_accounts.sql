-- view latest_accounts
-- One row per company with accounts: the accounts of its newest period.
SELECT p.name, p.place, a.* EXCLUDE (recency)
FROM accounts a
JOIN (SELECT country, company_number, start_date, end_date, name, place FROM portfolio) p
    ON p.country = a.country AND p.company_number = a.company_number
    AND p.start_date = a.start_date AND p.end_date = a.end_date
