-- check fraction_range, error
-- A share of men or women is below 0 or above 1.
SELECT country, company_number, start_date, end_date,
    {men: employee_male_fraction, women: employee_female_fraction} AS evidence
FROM accounts
WHERE employee_male_fraction NOT BETWEEN 0 AND 1 OR employee_female_fraction NOT BETWEEN 0 AND 1
