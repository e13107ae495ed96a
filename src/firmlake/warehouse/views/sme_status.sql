-- macro sme_status(of_company := '')
-- example: sme_status()
-- One row per company that a run planned to fetch, or the one whose id is given, such as BE0403227515: its size
-- by Recommendation 2003/361/EC (annex, art. 2 to 6), with its linked enterprises in full (stakes above a half, in
-- either direction, through companies) and the partners of these in proportion (25 % to 50 %, held by one or by
-- linked enterprises together, each with its own linked enterprises; of stakes in each other the greater). Micro:
-- fewer than 10 employees, and annualised revenue or total assets up to 2 million; small: 50 and 10 million; medium:
-- 250, and 50 million of revenue or 43 million of total assets; otherwise large. Not considered: links through
-- persons, voting rights, investors that do not count as partners (art. 3(2)), public bodies, and whether a limit was
-- passed in two years running (art. 4(2)). Amounts are taken to be in euro.
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
WITH RECURSIVE asked AS (
    SELECT of_company AS asked_id
),
links AS MATERIALIZED (
    SELECT parent_no, child_no, stake
    FROM shareholdings
    JOIN parties p ON p.no = parent_no AND p.country IS NOT NULL
    JOIN parties c ON c.no = child_no AND c.country IS NOT NULL
    WHERE parent_no <> child_no
),
sides AS MATERIALIZED (
    SELECT parent_no AS no, child_no AS other_no, stake FROM links
    UNION ALL
    SELECT child_no, parent_no, stake FROM links
),
-- The company asked for with its linked enterprises, and one smaller stake away their owners and holdings with theirs. If all
-- are asked for, no step is needed.
near(no, step) AS (
    SELECT p.no, CASE WHEN asked_id = '' THEN 2 ELSE 0 END
    FROM asked JOIN parties p ON p.country IS NOT NULL AND asked_id IN ('', p.id)
    UNION
    SELECT other_no, step + (stake <= 0.5)::INTEGER
    FROM near JOIN sides USING (no)
    WHERE step + (stake <= 0.5)::INTEGER <= 1
),
involved AS MATERIALIZED (
    SELECT DISTINCT no FROM near
),
majorities AS MATERIALIZED (
    SELECT no, other_no FROM sides SEMI JOIN involved USING (no) WHERE stake > 0.5
),
-- All linked enterprises take the least number among them.
labels(no, label) USING KEY (no) AS (
    SELECT no, no FROM involved
    UNION
    SELECT s.other_no, min(l.label)
    FROM labels l
    JOIN majorities s ON s.no = l.no
    JOIN recurring.labels known ON known.no = s.other_no
    WHERE l.label < known.label
    GROUP BY s.other_no
),
-- Companies that no stake concerns have numbers of their own below zero.
members AS MATERIALIZED (
    SELECT l.label, p.country, p.company_number FROM labels l JOIN parties p USING (no)
    UNION ALL
    SELECT -row_number() OVER (), c.country, c.company_number
    FROM asked
    JOIN companies c ON asked_id IN ('', c.country || c.company_number)
    ANTI JOIN parties p ON p.country = c.country AND p.company_number = c.company_number
),
groups_of AS MATERIALIZED (
    SELECT
        m.label, count(*) AS member_count, count(*) - count(a.country) AS missing_count,
        sum(a.employee_count)::DECIMAL(30, 0) AS employee_count, sum(a.revenue_annual)::DECIMAL(30, 2) AS revenue_annual,
        sum(a.total_assets)::DECIMAL(30, 2) AS total_assets
    FROM members m
    LEFT JOIN (SELECT * FROM portfolio WHERE is_comparable) a
        ON a.country = m.country AND a.company_number = m.company_number
    GROUP BY m.label
),
-- Stakes of linked enterprises in others.
held AS MATERIALIZED (
    SELECT holder, held, least(sum(stake), 1) AS stake
    FROM (
        SELECT a.label AS holder, b.label AS held, child_no, sum(stake::DECIMAL(7, 6)) AS stake
        FROM links JOIN labels a ON a.no = parent_no JOIN labels b ON b.no = child_no
        WHERE a.label <> b.label
        GROUP BY ALL
        HAVING sum(stake::DECIMAL(7, 6)) >= 0.25
    )
    GROUP BY ALL
),
partners AS (
    SELECT
        e.label, count(*) AS partner_count, sum(g.missing_count) AS missing_count,
        sum(e.stake * g.employee_count) AS employee_count, sum(e.stake * g.revenue_annual) AS revenue_annual,
        sum(e.stake * g.total_assets) AS total_assets
    FROM (
        SELECT label, other_label, max(stake)::DECIMAL(7, 6) AS stake
        FROM (
            SELECT holder AS label, held AS other_label, stake FROM held
            UNION ALL
            SELECT held, holder, stake FROM held
        )
        GROUP BY ALL
    ) e
    JOIN groups_of g ON g.label = e.other_label
    GROUP BY e.label
)
SELECT
    c.country, c.company_number, c.name,
    size_by_eu(
        g.employee_count + coalesce(p.employee_count, 0), g.revenue_annual + coalesce(p.revenue_annual, 0),
        g.total_assets + coalesce(p.total_assets, 0)
    ) AS status,
    size_by_eu(a.employee_count, a.revenue_annual, a.total_assets) AS own_status,
    round(g.employee_count + coalesce(p.employee_count, 0), 1)::DOUBLE AS employee_count,
    round(g.revenue_annual + coalesce(p.revenue_annual, 0), 2)::DECIMAL(38, 2) AS revenue_annual,
    round(g.total_assets + coalesce(p.total_assets, 0), 2)::DECIMAL(38, 2) AS total_assets,
    g.member_count - 1 AS linked_count,
    coalesce(p.partner_count, 0) AS partner_count,
    (g.missing_count + coalesce(p.missing_count, 0))::BIGINT AS missing_count
FROM asked
JOIN companies c ON asked_id IN ('', c.country || c.company_number)
JOIN members m ON m.country = c.country AND m.company_number = c.company_number
JOIN groups_of g ON g.label = m.label
LEFT JOIN partners p ON p.label = m.label
LEFT JOIN (SELECT * FROM portfolio WHERE is_comparable) a
    ON a.country = c.country AND a.company_number = c.company_number
