-- view people
-- One row per financial period of a company: its employees, how many are men and women, people hired, and revenue
-- for each employee.
--
-- previous_employee_count: Number of employees in the previous period. Null: it is not stated, or this is the first
-- period
-- employee_change: Change in the number of employees since the previous period; fewer is negative. Null: one of the two
-- is not stated
-- men_count: Number of men: employees multiplied by their share, rounded. Null: one of the two is not stated
-- women_count: Number of women: employees multiplied by their share, rounded. Null: one of the two is not stated
-- hired_fraction: People hired divided by employees. Null: one of the two is not stated, or there are no employees
-- revenue_per_employee: Annualised revenue divided by employees. Null: one of the two is not stated, or there are no
-- employees
SELECT
    country, company_number, start_date, end_date, period_days,
    employee_count,
    b.previous_employee_count,
    try_cast(employee_count::HUGEINT - b.previous_employee_count AS BIGINT) AS employee_change,
    new_hire_count,
    ratio(new_hire_count, employee_count) AS hired_fraction,
    employee_male_fraction,
    employee_female_fraction,
    try_cast(round(employee_count * employee_male_fraction) AS BIGINT) AS men_count,
    try_cast(round(employee_count * employee_female_fraction) AS BIGINT) AS women_count,
    round(annualised(revenue, period_days) / nullif(employee_count, 0), 2)::DECIMAL(21, 2) AS revenue_per_employee
FROM (SELECT * EXCLUDE (recency) FROM accounts) a
JOIN period_order o USING (country, company_number, start_date, end_date)
LEFT JOIN (
    SELECT
        country AS country_, company_number AS number_, start_date AS start_, end_date AS end_,
        employee_count AS previous_employee_count
    FROM (SELECT * EXCLUDE (recency) FROM accounts)
) b ON country_ = a.country AND number_ = a.company_number AND start_ = o.previous_start_date
    AND end_ = o.previous_end_date
