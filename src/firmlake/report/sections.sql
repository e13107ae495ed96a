-- name: changed
SELECT DISTINCT country, company_number FROM (
    SELECT country, company_number, valid_from_run AS run_id FROM financials
    UNION ALL SELECT country, company_number, valid_to_run FROM financials_history
)
ANTI JOIN (SELECT run_id FROM runs_as_of($run)) USING (run_id)

-- name: financials_before
SELECT *, 0 AS position FROM financials_as_of({run}) SEMI JOIN changed USING (country, company_number)

-- name: portfolio_before
CREATE OR REPLACE TEMP TABLE portfolio_before AS
FROM portfolio ANTI JOIN changed USING (country, company_number)
UNION ALL BY NAME FROM changed_portfolio
