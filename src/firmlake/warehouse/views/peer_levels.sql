-- view peer_levels
-- One row per company and each group of companies that it can be compared with, the narrowest first, according to
-- its newest accounts.
--
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
    FROM portfolio
    CROSS JOIN (VALUES
        (1, 'committee and size'), (2, 'committee'), (3, 'size'), (4, 'country'), (5, 'all')
    ) AS l(level_no, level)
)
WHERE peer_group IS NOT NULL
