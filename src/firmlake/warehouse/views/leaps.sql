-- view leaps
-- One row for each figure of a period that is about a thousand times that of the period before, or a thousandth (300 to
-- 3,000 times): of total assets, revenue, equity and debt.
--
-- previous_end_date: Last day of the period before
-- field: Which figure
-- amount: Its amount
-- previous_amount: That of the period before
-- is_other_unit: Whether this looks like accounts in another unit: two figures at least leap in the same direction, and
-- one of them to or from 1,000,000 or more. One alone, or less, may be a company that began, was sold or was wound up
SELECT
    country, company_number, start_date, end_date, previous_end_date, field, amount, previous_amount,
    count(*) OVER together >= 2
        AND max(greatest(abs(amount), abs(previous_amount))) OVER together >= 1000000 AS is_other_unit
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
WINDOW together AS (
    PARTITION BY country, company_number, start_date, end_date, abs(amount) > abs(previous_amount)
)
