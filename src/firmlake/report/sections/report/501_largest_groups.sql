-- title: Largest groups
-- chapter: Groups
-- A head and all companies that it reaches through stakes of at least 50 %. Sums cover the members whose accounts we
-- hold; they are not consolidated, and leave out doubtful amounts.
WITH largest AS (
    SELECT *, count(*) OVER () AS total FROM group_sizes ORDER BY member_count DESC, head_id
    LIMIT coalesce(getvariable('groups_max'), 8)
)
SELECT p.name AS head, p.country || ' ' || p.company_number AS number, l.is_ring, member_count AS members,
    count(s.country) AS held, sum(s.employee_count) AS employees,
    sum(s.total_assets) FILTER (s.is_comparable) AS total_assets_amount,
    sum(s.debt) FILTER (s.is_comparable) AS debt_amount, total, head_id
FROM largest l
JOIN branches_at_half b USING (head_id)
JOIN branches_at_half g ON g.branch_no = b.branch_no
JOIN parties p ON p.id = head_id
LEFT JOIN portfolio s ON s.country || s.company_number = g.id
GROUP BY head_id, p.name, number, l.is_ring, member_count, total ORDER BY members DESC, head_id
