-- function size_band(employee_count, total_assets)
-- Size of a company: micro below 10 employees, small below 50, medium below 250, large from 250. If the number of
-- employees is not stated, total assets up to 2, 10 and 43 million decide. Null if neither is stated.
CASE
    WHEN coalesce(employee_count, 10) < 10 OR (employee_count IS NULL AND total_assets <= 2000000) THEN 'micro'
    WHEN coalesce(employee_count, 50) < 50 OR (employee_count IS NULL AND total_assets <= 10000000) THEN 'small'
    WHEN coalesce(employee_count, 250) < 250 OR (employee_count IS NULL AND total_assets <= 43000000) THEN 'medium'
    WHEN employee_count IS NOT NULL OR total_assets IS NOT NULL THEN 'large'
END
