-- check factor_1000, error
-- Total assets are about a thousand times those of the period before, or a thousandth (300 to 3,000 times): filed in
-- another unit.
SELECT country, company_number, start_date, end_date,
    {total_assets: total_assets, previous_total_assets: previous, previous_end_date: previous_end_date} AS evidence
FROM (
    SELECT
        *,
        lag(total_assets) OVER periods AS previous,
        lag(end_date) OVER periods AS previous_end_date
    FROM accounts
    WINDOW periods AS (PARTITION BY country, company_number ORDER BY recency DESC)
)
WHERE total_assets > 0 AND previous > 0
    AND greatest(total_assets / previous, previous / total_assets) BETWEEN 300 AND 3000
