-- title: Equity ratio
-- chapter: The portfolio
-- chart: classes
-- Companies by equity in per cent of total assets, newest accounts; doubtful figures are left out. Each bar starts at
-- the value under it. Values beyond the axis count at its edge.
SELECT format('{}%', -20 + place * 10) AS class, count(s.place) AS companies
FROM range(12) AS r(place)
LEFT JOIN (
    SELECT least(greatest(floor((equity_fraction::DOUBLE * 100 + 20) / 10), 0), 11)::INTEGER AS place
    FROM portfolio WHERE equity_fraction IS NOT NULL AND is_comparable
) s USING (place)
GROUP BY place HAVING (SELECT count(equity_fraction) FROM portfolio WHERE is_comparable) > 0
ORDER BY place
