-- view people
-- One row for each period of a company: its employees, men and women among them, people hired, and revenue for each.
--
-- previous_employee_count: Employees in the period before. Null: not stated, or this is the first
-- employee_change: Employees more than in the period before; negative is fewer. Null: one of the two is not stated
-- men_count: Employees times their share of men, rounded. Null: one of the two is not stated
-- women_count: Employees times their share of women, rounded. Null: one of the two is not stated
-- hired_fraction: People hired by employees. Null: one is not stated, or there are no employees
-- revenue_per_employee: Annualised revenue by employees. Null: one is not stated, or there are no employees
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
