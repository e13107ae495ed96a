-- title: Zones a year before and today
-- chapter: The portfolio
-- chart: matrix
-- Companies by Altman zone: of their newest accounts (columns), and of those newest a year before (rows). Doubtful
-- figures are included.
WITH days AS (
    SELECT last_day, (last_day - INTERVAL 1 YEAR)::DATE AS first_day
    FROM (SELECT least((SELECT max(end_date) FROM portfolio), (SELECT max(published_at) FROM loads))::DATE AS last_day)
),
counts AS (
    FROM zone_migration((SELECT first_day FROM days), (SELECT last_day FROM days))
)
SELECT from_zone AS row, replace(zone, '_', ' ') AS "column", companies AS count,
    companies / greatest(max(companies) OVER (), 1) AS shade,
    'Rows: accounts that ended by ' || first_day || '. Columns: by ' || last_day || '.' AS remark
FROM (UNPIVOT counts ON safe, grey, distress, no_score INTO NAME zone VALUE companies), days
