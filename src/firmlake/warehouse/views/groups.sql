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
reached(head_id, id) AS (
    SELECT DISTINCT h.parent_id, h.parent_id FROM held h ANTI JOIN held upper ON upper.child_id = h.parent_id
    UNION
    SELECT r.head_id, h.child_id FROM reached r JOIN held h ON h.parent_id = r.id
),
-- Heads pass their id down, which needs no more memory than there are members. Companies that no head reaches are in or
-- below rings. Each of them takes the first id among itself and all above it, then the last of the ids that those above it
-- took. In a ring that nobody else holds, the first member and all above it took that member's id: they are the ring.
ringed AS MATERIALIZED (
    SELECT h.* FROM held h ANTI JOIN reached r ON r.id = h.child_id
),
first_above(id, first_id) USING KEY (id) AS (
    SELECT DISTINCT child_id, child_id FROM ringed
    UNION
    SELECT g.child_id, min(f.first_id)
    FROM first_above f
    JOIN ringed g ON g.parent_id = f.id
    JOIN recurring.first_above known ON known.id = g.child_id
    WHERE f.first_id < known.first_id
    GROUP BY g.child_id
),
last_above(id, last_id) USING KEY (id) AS (
    SELECT id, first_id FROM first_above
    UNION
    SELECT g.child_id, max(l.last_id)
    FROM last_above l
    JOIN ringed g ON g.parent_id = l.id
    JOIN recurring.last_above known ON known.id = g.child_id
    WHERE l.last_id > known.last_id
    GROUP BY g.child_id
),
rings AS (
    SELECT id FROM first_above JOIN last_above USING (id) WHERE first_id = id AND last_id = id
),
ring_reached(head_id, id) AS (
    SELECT id, id FROM rings
    UNION
    SELECT r.head_id, h.child_id FROM ring_reached r JOIN held h ON h.parent_id = r.id
)
SELECT head_id, false AS is_ring, id FROM reached
UNION ALL
SELECT head_id, true, id FROM ring_reached
