-- view joint_committees
-- One row for each joint committee code: the companies under it by their newest accounts. A company can be under several.
--
-- company_count: Companies whose newest accounts name it
-- employee_count: Their employees in those accounts
SELECT j.code, count(*) AS company_count, try_cast(sum(a.employee_count) AS BIGINT) AS employee_count
FROM (SELECT DISTINCT country, company_number, start_date, end_date, code FROM financial_joint_committees) j
JOIN accounts a USING (country, company_number, start_date, end_date)
WHERE a.recency = 1
GROUP BY j.code
