-- table: Groups with at least one company that we hold. A report on a list leaves out groups without any company of it.
SELECT h.head_id, h.is_ring, sum(m.member_count)::BIGINT AS member_count
FROM branches_at_half h
JOIN (
    SELECT branch_no, count(b.id) AS member_count, count(c.country) AS company_count
    FROM branches_at_half b
    LEFT JOIN companies c ON c.country = b.id[:2] AND c.company_number = b.id[3:]
    GROUP BY branch_no
) m USING (branch_no)
WHERE h.head_id IS NOT NULL
GROUP BY h.head_id, h.is_ring
HAVING sum(m.company_count) > 0
