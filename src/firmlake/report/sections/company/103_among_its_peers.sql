-- title: Among its peers
-- chapter: Accounts
-- chart: ranges
-- Share of the peers with a lower value. A high share is not good for every measure.
SELECT label AS name, percentile FROM standing WHERE percentile IS NOT NULL ORDER BY place
