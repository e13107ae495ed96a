-- macro last_twelve_months(on_date)
-- example: last_twelve_months(DATE '2025-06-30')
-- One row per company with accounts in the twelve months up to a day: their amounts, put together from periods as in
-- amounts_within. A company whose newest accounts ended more than five days earlier has no amounts that build up over time.
SELECT * EXCLUDE (first_day, last_day)
FROM amounts_within([{first_day: (on_date::DATE + 1 - INTERVAL 1 YEAR)::DATE, last_day: on_date::DATE}])
