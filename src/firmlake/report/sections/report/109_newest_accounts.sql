-- title: Newest accounts
-- chapter: The portfolio
-- chart: classes
-- Companies by the year in which their newest accounts end.
SELECT year(end_date)::VARCHAR AS class, count(*) AS companies FROM portfolio
WHERE year(end_date) > (SELECT max(year(end_date)) FROM portfolio) - 10
GROUP BY ALL ORDER BY class
