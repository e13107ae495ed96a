-- title: Zones a year before and today
-- chapter: The portfolio
-- chart: matrix
-- Companies by Altman zone: of their newest accounts (columns), and of those newest a year before (rows). Doubtful
-- figures are included.
WITH counts AS (
    FROM zone_migration(
        (SELECT (least(max(end_date), max(published_at)) - INTERVAL 1 YEAR)::DATE FROM portfolio, loads),
        (SELECT least(max(end_date), max(published_at))::DATE FROM portfolio, loads))
)
SELECT from_zone AS row, replace(zone, '_', ' ') AS "column", companies AS count,
    companies / greatest(max(companies) OVER (), 1) AS shade
FROM (UNPIVOT counts ON safe, grey, distress, no_score INTO NAME zone VALUE companies)
