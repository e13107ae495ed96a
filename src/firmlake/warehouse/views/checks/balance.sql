-- check balance, warning
-- Debt and equity exceed total assets by more than a thousandth. A sum below total assets is normal, because provisions
-- and similar items are in neither column; if it is far below, see balance_short.
SELECT country, company_number, start_date, end_date,
    {total_assets: total_assets, debt: debt, equity: equity, difference: debt + equity - total_assets} AS evidence
FROM accounts
WHERE debt + equity - total_assets > greatest(1, abs(total_assets) / 1000)
