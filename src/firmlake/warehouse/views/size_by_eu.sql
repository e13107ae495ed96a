-- function size_by_eu(employee_count, revenue, total_assets)
-- Size of an enterprise by Recommendation 2003/361/EC (annex, art. 2): micro, small, medium or large. Null if employees, or
-- both revenue and total assets, are not stated.
CASE
    WHEN employee_count IS NULL OR coalesce(revenue, total_assets) IS NULL THEN NULL
    WHEN employee_count < 10 AND least(revenue, total_assets) <= 2000000 THEN 'micro'
    WHEN employee_count < 50 AND least(revenue, total_assets) <= 10000000 THEN 'small'
    WHEN employee_count < 250 AND (coalesce(revenue <= 50000000, false) OR coalesce(total_assets <= 43000000, false)) THEN 'medium'
    ELSE 'large'
END
