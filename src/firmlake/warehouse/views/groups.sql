-- macro groups(threshold := 0.5)
-- example: groups(0.5)
-- All groups at once: one row for each head and member, found as in ultimate_parents. A company without an owner or
-- holding of that size is in no group.
--
-- head_id: Ultimate parent, as parent_id in ownership
-- is_ring: Whether it stands for a ring of companies that hold each other
-- id: Member, as child_id in ownership; the head is one
WITH asked(least_stake) AS (
    SELECT threshold
),
branches AS MATERIALIZED (
    SELECT b.* FROM branches_at_half b JOIN asked ON least_stake = 0.5
    UNION ALL
    FROM group_branches(nullif(threshold, 0.5))
)
SELECT h.head_id, h.is_ring, m.id
FROM branches h
JOIN branches m USING (branch_no)
WHERE h.head_id IS NOT NULL AND m.id IS NOT NULL
