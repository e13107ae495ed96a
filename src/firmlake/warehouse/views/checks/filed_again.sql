-- check filed_again, note
-- A period was filed more than once. The view accounts shows the filing received last.
SELECT country, company_number, start_date, end_date,
    {filing_count: filing_count, date_received: date_received} AS evidence
FROM accounts
WHERE filing_count > 1
