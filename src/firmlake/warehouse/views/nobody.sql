-- view nobody
-- No company at all: what prospects leaves out besides the seeds, unless a table is named.
SELECT country, company_number FROM companies WHERE false
