-- table refiled
-- One row for each period that was filed more than once: how often, and which filing accounts shows, the one received
-- last. Made at load, since every query about accounts needs it.
--
-- filing_count: Filings of the period in the answer
-- dup_no: dup_no of the filing received last, as in financials
SELECT
    country, company_number, start_date, end_date,
    count(*) AS filing_count,
    arg_max(dup_no, (coalesce(epoch(date_received), 0), dup_no)) AS dup_no
FROM financials
SEMI JOIN (SELECT * FROM financials WHERE dup_no > 0) USING (country, company_number, start_date, end_date)
GROUP BY ALL
