-- check balance_short, note
-- Debt and equity together are less than half of total assets. That is more than provisions and similar items explain,
-- so one of the three may be incomplete or in another unit.
SELECT country, company_number, start_date, end_date,
    {total_assets: total_assets, debt: debt, equity: equity, difference: debt + equity - total_assets} AS evidence
FROM accounts
WHERE debt + equity < total_assets / 2
