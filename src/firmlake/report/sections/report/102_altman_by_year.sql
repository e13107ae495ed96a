-- title: Altman's Z'' by year
-- chapter: The portfolio
-- chart: zones
-- Share of companies in each zone, by their last accounts that end in the year; doubtful figures are left out. An
-- indication, not a rating.
SELECT year, part, count(*) AS companies
FROM (
    SELECT year(end_date)::VARCHAR AS year,
        arg_max(coalesce(zone, 'no score'), (end_date, end_date - start_date)) AS part
    FROM altman ANTI JOIN doubtful_periods USING (country, company_number, start_date, end_date)
    WHERE year(end_date) > (SELECT max(year(end_date)) FROM portfolio) - 10 GROUP BY country, company_number, year
)
GROUP BY ALL ORDER BY year, part
