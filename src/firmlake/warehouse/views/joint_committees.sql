-- view joint_committees
-- One row for each joint committee, with the companies that name it in their newest accounts. A company can name several.
-- Codes that differ only in leading zeros are one committee. Of accounts filed more than once, the filing received last
-- counts.
--
-- code: Code without leading zeros
-- spellings: The code as the service spells it
-- company_count: Companies whose newest accounts name it
-- employee_count: Their employees in those accounts
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
