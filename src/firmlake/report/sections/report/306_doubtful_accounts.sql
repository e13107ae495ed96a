-- title: Figures left out as doubtful
-- chapter: Movers
-- Newest accounts that cannot be compared with the company's others. Nothing is corrected; see the views `quality` and
-- `unit_errors`.
SELECT name AS company, country || ' ' || company_number AS number, count(*) OVER () AS total,
    end_date AS accounts_to, incomparable_because AS because,
    total_assets AS total_assets_amount
FROM portfolio WHERE NOT is_comparable ORDER BY total_assets DESC NULLS LAST, country, company_number LIMIT 8
