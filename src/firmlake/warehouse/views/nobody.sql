-- view nobody
-- An empty table of companies: the default for known_table in prospects.
SELECT country, company_number FROM companies WHERE false
