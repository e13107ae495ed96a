-- macro groups(threshold := 0.5)
-- example: groups(0.5)
-- All groups at once: one row for each head and member, found as in ultimate_parents. A company without an owner or
-- holding of that size is in no group.
--
-- head_id: Ultimate parent, as parent_id in ownership
-- is_ring: Whether it stands for a ring of companies that hold each other
-- id: Member, as child_id in ownership; the head is one
WITH branches AS MATERIALIZED (
    FROM group_branches(threshold)
)
SELECT h.head_id, h.is_ring, m.id
FROM branches h
JOIN branches m USING (branch_id)
WHERE h.head_id IS NOT NULL AND m.id IS NOT NULL
