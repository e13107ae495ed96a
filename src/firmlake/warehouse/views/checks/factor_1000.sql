-- check factor_1000, error
-- Two or more of total assets, revenue, equity and debt are about a thousand times those of the period before, or a
-- thousandth (300 to 3,000 times): filed in another unit. One finding for each such field; where one leaps alone or the
-- amounts are small, see leap.
SELECT country, company_number, start_date, end_date,
    {field: field, amount: amount, previous_amount: previous_amount, previous_end_date: previous_end_date} AS evidence
FROM leaps
WHERE is_other_unit
