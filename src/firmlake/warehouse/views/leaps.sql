-- view leaps
-- One row for each figure of a period that is about a thousand times that of the previous period, or a thousandth (300 to
-- 3,000 times), among total assets, revenue, equity and debt. Periods that are presumably in another unit as a whole are
-- left out, see unit_errors.
--
-- previous_end_date: Last day of the period before
-- field: Which figure
-- amount: Its amount
-- previous_amount: That of the period before
SELECT country, company_number, start_date, end_date, previous_end_date, field, amount, previous_amount
FROM (
    SELECT
        country, company_number, start_date, end_date,
        lag(end_date) OVER periods AS previous_end_date,
        lag(start_date) OVER periods AS previous_start_date,
        unnest([
            {field: 'total_assets', amount: total_assets, previous_amount: lag(total_assets) OVER periods},
            {field: 'revenue', amount: revenue, previous_amount: lag(revenue) OVER periods},
            {field: 'equity', amount: equity, previous_amount: lag(equity) OVER periods},
            {field: 'debt', amount: debt, previous_amount: lag(debt) OVER periods}
        ], recursive := true)
    FROM accounts
    WINDOW periods AS (PARTITION BY country, company_number ORDER BY recency DESC)
) l
ANTI JOIN unit_errors u USING (country, company_number, start_date, end_date)
ANTI JOIN unit_errors v ON v.country = l.country AND v.company_number = l.company_number
    AND v.start_date = l.previous_start_date AND v.end_date = l.previous_end_date
WHERE ratio(amount, previous_amount) BETWEEN 300 AND 3000 OR ratio(previous_amount, amount) BETWEEN 300 AND 3000
