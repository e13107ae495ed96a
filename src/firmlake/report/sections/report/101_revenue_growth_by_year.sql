-- title: Revenue growth by year
-- chapter: The portfolio
-- chart: quartiles
-- The median, and the middle half of the companies, by the year in which accounts end.
SELECT year, growth[1] AS p25, growth[2] AS p50, growth[3] AS p75 FROM years WHERE growth IS NOT NULL ORDER BY year
