-- check leap, note
-- Total assets, revenue, equity or debt is about a thousand times that of the previous period, or a thousandth of it
-- (by a factor of 300 to 3,000), while the other amounts are not. The company was founded, sold or wound up, or the
-- figure is wrong.
SELECT country, company_number, start_date, end_date,
    {field: field, amount: amount, previous_amount: previous_amount, previous_end_date: previous_end_date} AS evidence
FROM leaps
