-- view people
-- One row for each financial period of a company: its employees, how many are men and women, people hired, and revenue
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
    lead(employee_count) OVER periods AS previous_employee_count,
    try_cast(employee_count::HUGEINT - lead(employee_count) OVER periods AS BIGINT) AS employee_change,
    new_hire_count,
    ratio(new_hire_count, employee_count) AS hired_fraction,
    employee_male_fraction,
    employee_female_fraction,
    try_cast(round(employee_count * employee_male_fraction) AS BIGINT) AS men_count,
    try_cast(round(employee_count * employee_female_fraction) AS BIGINT) AS women_count,
    round(annualised(revenue, period_days) / nullif(employee_count, 0), 2)::DECIMAL(21, 2) AS revenue_per_employee
FROM accounts
-- The newest first, as in recency.
WINDOW periods AS (
    PARTITION BY country, company_number ORDER BY end_date DESC, date_received DESC NULLS LAST, start_date
)
