-- macro groups(threshold := 0.5)
-- example: groups(0.5)
-- All groups of companies at once: one row for each head and member. Heads are found as in ultimate_parents. A company
-- is in no group if it neither has an owner nor holds a company with a stake of at least the threshold.
--
-- head_id: Id of the ultimate parent that is the head of the group, as parent_id in ownership
-- is_ring: Whether the head stands for a ring of companies that hold each other
-- id: Id of the member, as child_id in ownership; the head is a member too
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
