-- view calendar_years
-- One row per company and calendar year that its accounts touch: its amounts, put together from periods as in
-- amounts_within.
--
-- year: Calendar year
SELECT country, company_number, year(first_day) AS year, * EXCLUDE (country, company_number, first_day, last_day)
FROM amounts_within(calendar_spans())
