-- title: Holdings
-- chapter: Owners and group
-- Companies in which it holds a stake directly.
SELECT child_name AS company, child_country || ' ' || child_company_number AS number,
    lower(replace("function", '_', ' ')) AS "function", stake_fraction, count(*) OVER () AS total
FROM ownership WHERE parent_id = getvariable('country') || getvariable('number')
ORDER BY stake_fraction DESC NULLS LAST, child_id LIMIT 15
