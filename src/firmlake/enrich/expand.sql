-- name: lookalikes
-- By total similarity.
SELECT lookalike_country AS country, lookalike_company_number AS company_number
FROM lookalikes SEMI JOIN inner_companies USING (country, company_number)
GROUP BY ALL ORDER BY sum(score) DESC, country, company_number

-- name: related
-- By stake.
SELECT related_country AS country, related_company_number AS company_number
FROM relationships SEMI JOIN inner_companies USING (country, company_number)
WHERE direction = $direction AND related_kind = 'company'
GROUP BY ALL ORDER BY max(stake_fraction) DESC NULLS LAST, country, company_number
