-- check gender_sum, note
-- The shares of men and women do not add up to 1 (by more than two thousandths, which allows for rounding). A company
-- without employees has neither share and is not listed.
SELECT country, company_number, start_date, end_date,
    {men: employee_male_fraction, women: employee_female_fraction, employees: employee_count} AS evidence
FROM accounts
WHERE abs(employee_male_fraction + employee_female_fraction - 1) > 0.002 AND employee_count IS DISTINCT FROM 0
