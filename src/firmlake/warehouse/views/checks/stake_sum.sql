-- check stake_sum, error
-- The stakes of all shareholders in a company add up to more than 1 (by more than a thousandth).
SELECT child_country AS country, child_company_number AS company_number,
    NULL::DATE AS start_date, NULL::DATE AS end_date,
    {stake_sum: sum(stake_fraction), owner_count: count(*)} AS evidence
FROM ownership
WHERE "function" = 'SHAREHOLDER' AND child_company_number IS NOT NULL
GROUP BY ALL
HAVING sum(stake_fraction) > 1.001
