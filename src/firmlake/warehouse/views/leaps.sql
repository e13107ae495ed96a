-- view leaps
-- One row per figure that is about a thousand times that of the previous period, or a thousandth of it (by a
-- factor of 300 to 3,000). The figures are total assets, revenue, equity and debt. Periods that are presumably in
-- another unit as a whole are left out, see unit_errors.
--
-- previous_end_date: Last day of the previous period
-- field: Name of the figure: a column of financials
-- amount: Amount in this period
-- previous_amount: Amount in the previous period
SELECT country, company_number, start_date, end_date, previous_end_date, field, amount, previous_amount
FROM (
    SELECT
        country, company_number, start_date, end_date,
        lead(end_date) OVER periods AS previous_end_date,
        lead(start_date) OVER periods AS previous_start_date,
        unnest([
            {field: 'total_assets', amount: total_assets, previous_amount: lead(total_assets) OVER periods},
            {field: 'revenue', amount: revenue, previous_amount: lead(revenue) OVER periods},
            {field: 'equity', amount: equity, previous_amount: lead(equity) OVER periods},
            {field: 'debt', amount: debt, previous_amount: lead(debt) OVER periods}
        ], recursive := true)
    FROM accounts
    SEMI JOIN (
        -- Few companies have figures that far apart; sorting the periods of all would take long.
        SELECT country, company_number
        FROM financials
        GROUP BY country, company_number
        HAVING max(abs(total_assets)) / min(abs(nullif(total_assets, 0))) > 299
            OR max(abs(revenue)) / min(abs(nullif(revenue, 0))) > 299
            OR max(abs(equity)) / min(abs(nullif(equity, 0))) > 299
            OR max(abs(debt)) / min(abs(nullif(debt, 0))) > 299
    ) USING (country, company_number)
    -- The newest first, as in recency.
    WINDOW periods AS (
        PARTITION BY country, company_number ORDER BY end_date DESC, date_received DESC NULLS LAST, start_date
    )
) l
ANTI JOIN unit_errors u USING (country, company_number, start_date, end_date)
ANTI JOIN unit_errors v ON v.country = l.country AND v.company_number = l.company_number
    AND v.start_date = l.previous_start_date AND v.end_date = l.previous_end_date
WHERE amount / nullif(previous_amount, 0) BETWEEN 300 AND 3000 OR previous_amount / nullif(amount, 0) BETWEEN 300 AND 3000
