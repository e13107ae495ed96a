-- check self_holding, note
-- A company holds shares of itself.
SELECT child_country AS country, child_company_number AS company_number,
    NULL::DATE AS start_date, NULL::DATE AS end_date, {stake_fraction: stake_fraction} AS evidence
FROM ownership
WHERE parent_id = child_id AND "function" = 'SHAREHOLDER'
