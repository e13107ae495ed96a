-- table peer_levels, company
-- One row per company and each group of companies that it can be compared with, the narrowest first, according to
-- its newest accounts. If a company names several joint committees, the first counts; if accounts were filed more than
-- once, the filing received last counts.
--
-- committee: First joint committee of the newest accounts, without leading zeros. Null: the accounts have none
-- size_band: Size of the company: micro, small, medium or large, see the function size_band. Null: neither employees
-- nor total assets are stated
-- level_no: Number of the level, from 1 for the narrowest
-- level: What the companies of the group have in common: committee and size, committee, size, country or all; the first
-- four within one country
-- peer_group: Name of the group
SELECT * FROM (
    SELECT
        country, company_number, committee, size_band,
        l.level_no, l.level,
        CASE l.level_no
            WHEN 1 THEN country || ', committee ' || committee || ', ' || size_band
            WHEN 2 THEN country || ', committee ' || committee
            WHEN 3 THEN country || ', ' || size_band
            WHEN 4 THEN country
            ELSE 'all'
        END AS peer_group
    FROM (
        SELECT a.country, a.company_number, j.committee, size_band(a.employee_count, a.total_assets) AS size_band
        FROM portfolio a
        LEFT JOIN (
            SELECT country, company_number, start_date, end_date, arg_min(committee(c.code), c.position) AS committee
            FROM financial_joint_committees c
            LEFT JOIN refiled again USING (country, company_number, start_date, end_date)
            WHERE c.dup_no = coalesce(again.dup_no, 0)
            GROUP BY ALL
        ) j USING (country, company_number, start_date, end_date)
    )
    CROSS JOIN (VALUES
        (1, 'committee and size'), (2, 'committee'), (3, 'size'), (4, 'country'), (5, 'all')
    ) AS l(level_no, level)
)
WHERE peer_group IS NOT NULL
