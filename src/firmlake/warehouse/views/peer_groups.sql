-- view peer_groups
-- One row for each company with accounts: the narrowest group of peer_levels that has at least 10 companies, itself
-- included. A smaller group is widened to the next level, and this view says so.
--
-- peer_company_count: Companies of the group, itself included
-- is_widened: Whether a narrower group exists but has fewer than 10 companies
SELECT
    country, company_number, committee, size_band, level_no, level, peer_group, peer_company_count,
    level_no > narrowest AS is_widened
FROM (
    SELECT
        *,
        count(*) OVER (PARTITION BY peer_group) AS peer_company_count,
        min(level_no) OVER (PARTITION BY country, company_number) AS narrowest
    FROM peer_levels
)
WHERE peer_company_count >= 10 OR level_no = 5
QUALIFY row_number() OVER (PARTITION BY country, company_number ORDER BY level_no) = 1
