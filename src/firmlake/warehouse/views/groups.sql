-- macro groups(threshold := 0.5)
-- example: groups(0.5)
-- All groups at once: one row for each head and member, found as in ultimate_parents. A company without an owner or
-- holding of that size is in no group.
--
-- head_id: Ultimate parent, as parent_id in ownership
-- is_ring: Whether it stands for a ring of companies that hold each other
-- id: Member, as child_id in ownership; the head is one
WITH RECURSIVE asked(least_stake) AS (
    SELECT threshold
),
held AS MATERIALIZED (
    SELECT parent_id, child_id FROM shareholdings JOIN asked ON stake >= least_stake WHERE parent_id <> child_id
),
heads AS MATERIALIZED (
    SELECT * FROM group_heads(threshold)
),
-- Heads pass their id down.
reached(head_id, is_ring, id) AS (
    SELECT id, is_ring, id FROM heads
    UNION
    SELECT r.head_id, r.is_ring, h.child_id FROM reached r JOIN held h ON h.parent_id = r.id
)
SELECT head_id, is_ring, id FROM reached
