-- view latest_accounts
-- One row for each company with accounts: its newest period.
SELECT c.name, c.place, a.* EXCLUDE (recency)
FROM accounts a
JOIN companies c USING (country, company_number)
WHERE a.recency = 1
