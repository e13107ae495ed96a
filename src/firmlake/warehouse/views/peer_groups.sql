-- table peer_groups
-- One row per company with accounts: its peer group, which is the narrowest group of peer_levels that has at least
-- 10 companies, itself included. If a narrower group is too small, is_widened is true. The groups are those of all
-- companies: in a query limited to a list they stay the same, but ranks count only the companies of the list.
--
-- peer_company_count: Number of companies in the peer group, this one included
-- is_widened: Whether a narrower group exists but has fewer than 10 companies
SELECT
    country, company_number,
    first(committee) AS committee,
    first(size_band) AS size_band,
    min(level_no) FILTER (is_large) AS level_no,
    arg_min(level, level_no) FILTER (is_large) AS level,
    arg_min(peer_group, level_no) FILTER (is_large) AS peer_group,
    arg_min(peer_company_count, level_no) FILTER (is_large) AS peer_company_count,
    min(level_no) FILTER (is_large) > min(level_no) AS is_widened
FROM (
    SELECT l.*, g.peer_company_count, g.peer_company_count >= 10 OR l.level_no = 5 AS is_large
    FROM peer_levels l
    JOIN (SELECT peer_group, count(*) AS peer_company_count FROM peer_levels GROUP BY peer_group) g USING (peer_group)
)
GROUP BY country, company_number
