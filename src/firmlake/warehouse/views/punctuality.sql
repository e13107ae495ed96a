-- view punctuality
-- One row for each period of a company: how long after its end the accounts were received. No legal term is applied,
-- since it differs by country and form.
--
-- days_to_file: Days from the end of the period to the day the accounts were received. Null: that day is not stated
-- usual_days_to_file: Median over all periods of the company. Null: no such day is stated
-- days_later_than_usual: Days more than usual; negative is earlier. Null: the day of this period is not stated
SELECT
    country, company_number, start_date, end_date, recency, date_received,
    date_received - end_date AS days_to_file,
    median(date_received - end_date) OVER company AS usual_days_to_file,
    date_received - end_date - median(date_received - end_date) OVER company AS days_later_than_usual
FROM accounts
WINDOW company AS (PARTITION BY country, company_number)
