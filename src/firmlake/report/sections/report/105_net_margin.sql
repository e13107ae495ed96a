-- title: Net margin
-- chapter: The portfolio
-- chart: classes
-- Companies by net profit in per cent of revenue, newest accounts; doubtful figures are left out. Each bar starts at
-- the value under it. Values beyond the axis count at its edge.
SELECT format('{}%', -30 + place * 5) AS class, count(s.place) AS companies
FROM range(12) AS r(place)
LEFT JOIN (
    SELECT least(greatest(floor((net_margin::DOUBLE * 100 + 30) / 5), 0), 11)::INTEGER AS place
    FROM portfolio WHERE net_margin IS NOT NULL AND is_comparable
) s USING (place)
GROUP BY place HAVING (SELECT count(net_margin) FROM portfolio WHERE is_comparable) > 0
ORDER BY place
