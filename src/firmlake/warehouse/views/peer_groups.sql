-- table peer_groups
-- One row per company with accounts: its peer group, which is the narrowest group of peer_levels that has at least
-- 10 companies, itself included. If a narrower group is too small, is_widened is true. The groups are those of all
-- companies: in a query limited to a list they stay the same, but ranks count only the companies of the list.
--
-- peer_company_count: Number of companies in the peer group, this one included
-- is_widened: Whether a narrower group exists but has fewer than 10 companies
WITH kinds AS (
    -- Thousands of companies of one kind are in the same groups, so groups are counted and chosen by kind.
    SELECT country, committee, size_band, min(company_number) AS company_number, count(*) AS company_count
    FROM portfolio GROUP BY country, committee, size_band
),
levels AS (
    SELECT l.*, sum(k.company_count) OVER (PARTITION BY l.peer_group)::BIGINT AS peer_company_count
    FROM kinds k JOIN peer_levels l USING (country, company_number)
),
chosen AS (
    SELECT
        country, committee, size_band,
        min(level_no) AS narrowest_no,
        arg_min(l, level_no) FILTER (peer_company_count >= 10 OR level_no = 5) AS found
    FROM levels l GROUP BY country, committee, size_band
)
SELECT
    p.country, p.company_number, p.committee, p.size_band,
    found.level_no, found.level, found.peer_group, found.peer_company_count,
    found.level_no > narrowest_no AS is_widened
FROM portfolio p
JOIN chosen c ON
    c.country = p.country AND c.committee IS NOT DISTINCT FROM p.committee
    AND c.size_band IS NOT DISTINCT FROM p.size_band
