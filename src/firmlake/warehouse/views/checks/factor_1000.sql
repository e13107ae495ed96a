-- check factor_1000, error
-- Total assets, revenue, equity or debt is about a thousand times that of the period before, or a thousandth (300 to 3,000
-- times): filed in another unit. One finding for each such field.
SELECT country, company_number, start_date, end_date,
    {field: field, amount: amount, previous_amount: previous_amount, previous_end_date: previous_end_date} AS evidence
FROM (
    SELECT
        country, company_number, start_date, end_date,
        lag(end_date) OVER periods AS previous_end_date,
        unnest([
            {field: 'total_assets', amount: total_assets, previous_amount: lag(total_assets) OVER periods},
            {field: 'revenue', amount: revenue, previous_amount: lag(revenue) OVER periods},
            {field: 'equity', amount: equity, previous_amount: lag(equity) OVER periods},
            {field: 'debt', amount: debt, previous_amount: lag(debt) OVER periods}
        ], recursive := true)
    FROM accounts
    WINDOW periods AS (PARTITION BY country, company_number ORDER BY recency DESC)
)
WHERE ratio(amount, previous_amount) BETWEEN 300 AND 3000 OR ratio(previous_amount, amount) BETWEEN 300 AND 3000
