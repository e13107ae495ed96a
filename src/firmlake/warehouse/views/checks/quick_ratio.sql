-- check quick_ratio, warning
-- The quick ratio is above the current ratio, although it counts fewer assets.
SELECT country, company_number, start_date, end_date,
    {quick_ratio: quick_ratio, current_ratio: current_ratio} AS evidence
FROM accounts
WHERE quick_ratio > current_ratio + 0.01
