-- table refiled, company
-- One row per period that was filed more than once: how often, and which filing is in the view accounts (the one
-- received last).
--
-- filing_count: Number of filings of the period in the answer
-- dup_no: Number of the filing received last, as dup_no in financials
-- first_received: Day on which the first of these filings was received. Null: no filing states its day of receipt
SELECT
    country, company_number, start_date, end_date,
    count(*) AS filing_count,
    arg_max(dup_no, (coalesce(epoch(date_received), 0), dup_no)) AS dup_no,
    min(date_received) AS first_received
FROM financials
SEMI JOIN (SELECT * FROM financials WHERE dup_no > 0) USING (country, company_number, start_date, end_date)
GROUP BY ALL
