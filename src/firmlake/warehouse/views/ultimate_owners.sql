-- view ultimate_owners
-- One row for each party that has ultimate owners: those that hold it through stakes of at least a half and have no such
-- owner themselves.
--
-- id: The party, as child_id in ownership
-- ultimate_parent: Names of the owners, separated by semicolons
-- ultimate_parent_company: Country and company number of these owners. Null: none of them has a number
SELECT
    g.id,
    string_agg(DISTINCT h.name, '; ' ORDER BY h.name) AS ultimate_parent,
    string_agg(DISTINCT h.country || ' ' || h.company_number, '; ' ORDER BY h.country || ' ' || h.company_number)
        AS ultimate_parent_company
FROM groups(0.5) g
JOIN parties h ON h.id = g.head_id
WHERE g.id <> g.head_id
GROUP BY g.id
