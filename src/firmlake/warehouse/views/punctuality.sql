-- view punctuality
-- One row per financial period of a company: how many days after its end its accounts were first received.
-- Corrections filed later do not count. Legal deadlines are not applied, because they differ by country and legal form.
--
-- days_to_file: Days from the end of the period to the day on which its accounts were first received; corrections do
-- not count. Null: the day of receipt is not stated
-- usual_days_to_file: Median of days_to_file over all periods of the company. Null: the day of receipt is never stated
-- days_later_than_usual: Days to file beyond the usual number; earlier is negative. Null: the day of receipt is not
-- stated
SELECT
    country, company_number, start_date, end_date, recency, first_received,
    first_received - end_date AS days_to_file,
    median(first_received - end_date) OVER company AS usual_days_to_file,
    first_received - end_date - median(first_received - end_date) OVER company AS days_later_than_usual
FROM accounts
WINDOW company AS (PARTITION BY country, company_number)
