-- title: Health indicator
-- chapter: The portfolio
-- chart: classes
-- Companies by the health indicator of the service, newest accounts. Each bar starts at the value under it. Values
-- beyond the axis count at its edge.
WITH ends AS (
    SELECT quantile_cont(health_indicator::DOUBLE, 0.01) AS low,
        quantile_cont(health_indicator::DOUBLE, 0.99) AS high
    FROM portfolio
), rough AS (
    SELECT *, pow(10, floor(log10(greatest(high - low, 1e-6) / 10))) AS unit FROM ends
), steps AS (
    SELECT *, unit * CASE WHEN (high - low) / 10 <= unit THEN 1 WHEN (high - low) / 10 <= 2 * unit THEN 2
        WHEN (high - low) / 10 <= 5 * unit THEN 5 ELSE 10 END AS step
    FROM rough
), places AS (
    SELECT step, floor(least(greatest(health_indicator::DOUBLE, low), high) / step)::INTEGER AS place
    FROM portfolio, steps WHERE health_indicator IS NOT NULL
), bounds AS (SELECT min(place) AS first, max(place) AS last, any_value(step) AS step FROM places)
SELECT format('{:g}', round(r.place * step, 6)) AS class, count(p.place) AS companies
FROM (SELECT unnest(range(first, last + 1)) AS place, step FROM bounds) r
LEFT JOIN (SELECT place FROM places) p USING (place)
GROUP BY r.place, step ORDER BY r.place
