-- function calendar_spans()
-- The calendar years that held accounts touch, as spans for amounts_within.
(
    SELECT list({first_day: make_date(year, 1, 1), last_day: make_date(year, 12, 31)})
    FROM (SELECT unnest(range(min(year(start_date)), max(year(end_date)) + 1)) AS year FROM accounts)
)
