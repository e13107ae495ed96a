-- macro last_twelve_months(on_date)
-- example: last_twelve_months(DATE '2025-06-30')
-- One row per company with accounts in the twelve months up to a day: their amounts, put together from periods as in
-- amounts_within. Amounts that build up over time need 360 days covered.
SELECT * EXCLUDE (first_day, last_day)
FROM amounts_within([{first_day: (on_date::DATE + 1 - INTERVAL 1 YEAR)::DATE, last_day: on_date::DATE}])
