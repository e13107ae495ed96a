-- check leap, note
-- Total assets, revenue, equity or debt is about a thousand times that of the previous period, or a thousandth (300 to
-- 3,000 times), and the other amounts do not leap with it: the company began, was sold or wound up, or it is an error.
SELECT country, company_number, start_date, end_date,
    {field: field, amount: amount, previous_amount: previous_amount, previous_end_date: previous_end_date} AS evidence
FROM leaps
