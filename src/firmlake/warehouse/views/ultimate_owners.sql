-- view ultimate_owners
-- One row per company or person that has ultimate owners: those that hold it through stakes of at least a half and
-- have no such owner themselves.
--
-- id: Id of the company or person, as child_id in ownership
-- ultimate_parent: Names of its ultimate owners, separated by semicolons
-- ultimate_parent_company: Country and company number of these owners, separated by semicolons. Null: none of them has
-- a company number
SELECT m.id, u.ultimate_parent, u.ultimate_parent_company
FROM branches_at_half m
JOIN (
    -- Once for each branch, whose members all have the same owners.
    SELECT
        branch_no,
        any_value(head_id) AS head_id,
        string_agg(DISTINCT h.name, '; ' ORDER BY h.name) AS ultimate_parent,
        string_agg(DISTINCT h.country || ' ' || h.company_number, '; ' ORDER BY h.country || ' ' || h.company_number)
            AS ultimate_parent_company
    FROM branches_at_half
    JOIN parties h ON h.id = head_id
    GROUP BY branch_no
) u USING (branch_no)
-- A company that is a head has no other head.
WHERE m.id <> u.head_id
