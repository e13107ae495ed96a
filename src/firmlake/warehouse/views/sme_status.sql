-- macro sme_status()
-- example: sme_status()
-- One row for each company that a run planned to fetch: its size by Recommendation 2003/361/EC (annex, art. 2 to 6), with its
-- linked enterprises in full (stakes above a half, in either direction, through companies) and the partners of these in
-- proportion (stakes of 25 % to 50 %, each with its own linked enterprises). Micro: fewer than 10 employees, and annualised
-- revenue or total assets up to 2 million; small: 50 and 10 million; medium: 250, and 50 million of revenue or 43 million of
-- total assets; otherwise large. Not known, and so not considered: links through persons, voting rights, investors that do
-- not count as partners (art. 3(2)), public bodies, and whether a limit was passed in two years running (art. 4(2)).
-- Companies without comparable accounts count as missing. Amounts are taken to be in euro.
--
-- country: Country of the company: BE, NL or FR
-- company_number: Company number in normal form, digits only: 10 for BE, 8 for NL (KVK), 9 for FR (SIREN). Personal data if
-- the company is a sole trader
-- name: Name of the company. Null: no run found it
-- status: micro, small, medium or large, from what is known. Null: employees, or revenue and total assets, are not stated
-- own_status: The same for the company alone. Null: as in status
-- employee_count: Employees of the company, its linked enterprises and, in proportion, partners. Null: none is stated
-- revenue_annual: Annualised revenue of these. Null: none is stated
-- total_assets: Total assets of these. Null: none is stated
-- linked_count: Number of linked enterprises, without the company itself
-- partner_count: Number of partner enterprises of the company and its linked enterprises; those linked with each other
-- count once
-- missing_count: Number of companies among all these without comparable accounts in the warehouse; above 0, the status may
-- be too small
WITH RECURSIVE links AS MATERIALIZED (
    SELECT parent_no, child_no, stake
    FROM shareholdings
    JOIN parties p ON p.no = parent_no AND p.country IS NOT NULL
    JOIN parties c ON c.no = child_no AND c.country IS NOT NULL
    WHERE stake >= 0.25 AND parent_no <> child_no
),
sides AS MATERIALIZED (
    SELECT parent_no AS no, child_no AS other_no FROM links WHERE stake > 0.5
    UNION ALL
    SELECT child_no, parent_no FROM links WHERE stake > 0.5
),
-- All linked enterprises take the least number among them.
labels(no, label) USING KEY (no) AS (
    SELECT DISTINCT no, no FROM sides
    UNION
    SELECT s.other_no, min(l.label)
    FROM labels l
    JOIN sides s ON s.no = l.no
    JOIN recurring.labels known ON known.no = s.other_no
    WHERE l.label < known.label
    GROUP BY s.other_no
),
-- Companies that no stake concerns have numbers of their own below zero.
members AS MATERIALIZED (
    SELECT
        coalesce(l.label, p.no, -row_number() OVER ()) AS label,
        coalesce(p.country, c.country) AS country, coalesce(p.company_number, c.company_number) AS company_number
    FROM (SELECT * FROM parties WHERE country IS NOT NULL) p
    FULL JOIN companies c ON c.country = p.country AND c.company_number = p.company_number
    LEFT JOIN labels l ON l.no = p.no
),
groups_of AS MATERIALIZED (
    SELECT
        m.label, count(*) AS member_count, count(*) - count(a.country) AS missing_count,
        sum(a.employee_count)::DOUBLE AS employee_count, sum(a.revenue_annual)::DOUBLE AS revenue_annual,
        sum(a.total_assets)::DOUBLE AS total_assets
    FROM members m
    LEFT JOIN (SELECT * FROM portfolio WHERE is_comparable) a
        ON a.country = m.country AND a.company_number = m.company_number
    GROUP BY m.label
),
partners AS (
    SELECT
        e.label, count(*) AS partner_count, sum(g.missing_count) AS missing_count,
        sum(least(stake, 1) * g.employee_count) AS employee_count, sum(least(stake, 1) * g.revenue_annual) AS revenue_annual,
        sum(least(stake, 1) * g.total_assets) AS total_assets
    FROM (
        SELECT label, partner_label, sum(stake) AS stake
        FROM (
            SELECT coalesce(a.label, parent_no) AS label, coalesce(b.label, child_no) AS partner_label, stake
            FROM links LEFT JOIN labels a ON a.no = parent_no LEFT JOIN labels b ON b.no = child_no
            WHERE stake <= 0.5
            UNION ALL
            SELECT coalesce(b.label, child_no), coalesce(a.label, parent_no), stake
            FROM links LEFT JOIN labels a ON a.no = parent_no LEFT JOIN labels b ON b.no = child_no
            WHERE stake <= 0.5
        )
        WHERE label <> partner_label
        GROUP BY ALL
    ) e
    JOIN groups_of g ON g.label = e.partner_label
    GROUP BY e.label
)
SELECT
    c.country, c.company_number, c.name,
    size_by_eu(
        g.employee_count + coalesce(p.employee_count, 0), g.revenue_annual + coalesce(p.revenue_annual, 0),
        g.total_assets + coalesce(p.total_assets, 0)
    ) AS status,
    size_by_eu(a.employee_count, a.revenue_annual, a.total_assets) AS own_status,
    round(g.employee_count + coalesce(p.employee_count, 0), 1) AS employee_count,
    round(g.revenue_annual + coalesce(p.revenue_annual, 0), 2)::DECIMAL(38, 2) AS revenue_annual,
    round(g.total_assets + coalesce(p.total_assets, 0), 2)::DECIMAL(38, 2) AS total_assets,
    g.member_count - 1 AS linked_count,
    coalesce(p.partner_count, 0) AS partner_count,
    (g.missing_count + coalesce(p.missing_count, 0))::BIGINT AS missing_count
FROM companies c
JOIN members m ON m.country = c.country AND m.company_number = c.company_number
JOIN groups_of g ON g.label = m.label
LEFT JOIN partners p ON p.label = m.label
LEFT JOIN (SELECT * FROM portfolio WHERE is_comparable) a
    ON a.country = c.country AND a.company_number = c.company_number
