-- check negative_amount, error
-- A figure that cannot be negative is below zero.
SELECT country, company_number, start_date, end_date,
    {total_assets: total_assets, debt: debt, long_term_debt: long_term_debt, short_term_debt: short_term_debt,
     employee_count: employee_count, new_hire_count: new_hire_count} AS evidence
FROM accounts
WHERE least(total_assets, debt, long_term_debt, short_term_debt, employee_count, new_hire_count) < 0
