-- check profit_order, note
-- EBIT is above EBITDA, although depreciation can only reduce it.
SELECT country, company_number, start_date, end_date, {ebitda: ebitda, ebit: ebit} AS evidence
FROM accounts
WHERE ebit - ebitda > 1
