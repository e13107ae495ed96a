-- view accounts
-- One row per financial period of a company. If a period was filed more than once, the row is the filing received
-- last; findings lists these periods.
--
-- period_days: Length of the period in days, first and last day included; usually 365 or 366
-- filing_count: Number of filings of this period in the answer; more than 1 if it was filed again
-- first_received: Day on which accounts of this period were first received, while date_received is that of the filing
-- shown. Null: no day of receipt is stated
-- recency: 1 for the company's newest period, 2 for the previous one, and so on. Of periods with the same last day, the
-- one received last is the newest, and of those received on the same day the longest. Periods that end after the last answer
-- in the warehouse come after all others
SELECT
    f.* EXCLUDE (dup_no, position, extra_json, is_future),
    f.end_date - f.start_date + 1 AS period_days,
    coalesce(again.filing_count, 1) AS filing_count,
    coalesce(again.first_received, f.date_received) AS first_received,
    row_number() OVER (
        PARTITION BY f.country, f.company_number
        ORDER BY f.is_future, f.end_date DESC, f.date_received DESC NULLS LAST, f.start_date
    ) AS recency
FROM (SELECT *, end_date > last_answer_day() AS is_future FROM financials) f
LEFT JOIN refiled again USING (country, company_number, start_date, end_date)
WHERE f.dup_no = coalesce(again.dup_no, 0)
