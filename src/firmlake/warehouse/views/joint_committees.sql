-- view joint_committees
-- One row per joint committee, with the companies that have it in their newest accounts. A company can have
-- several. Codes that differ only in leading zeros are the same committee. If accounts were filed more than once, the
-- filing received last counts.
--
-- code: Joint committee code without leading zeros
-- spellings: Spellings of the code in the answers of the service
-- company_count: Number of companies whose newest accounts have the code
-- employee_count: Employees of these companies, according to the same accounts
SELECT
    j.code, list_sort(list_distinct(flatten(list(j.spellings)))) AS spellings,
    count(*) AS company_count, try_cast(sum(a.employee_count) AS BIGINT) AS employee_count
FROM (
    SELECT country, company_number, committee(c.code) AS code, list(c.code) AS spellings
    FROM financial_joint_committees c
    SEMI JOIN portfolio USING (country, company_number, start_date, end_date)
    LEFT JOIN refiled again USING (country, company_number, start_date, end_date)
    WHERE c.dup_no = coalesce(again.dup_no, 0)
    GROUP BY ALL
) j
JOIN portfolio a USING (country, company_number)
GROUP BY j.code
