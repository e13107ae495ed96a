-- macro group_heads(threshold := 0.5)
-- example: group_heads(0.5)
-- The heads of all groups, without their members; see groups.
--
-- id: Head of the group, as parent_id in ownership
-- is_ring: Whether it stands for a ring of companies that hold each other
WITH RECURSIVE asked(least_stake) AS (
    SELECT share_asked(threshold)
),
held AS MATERIALIZED (
    SELECT parent_id, child_id FROM shareholdings JOIN asked ON stake >= least_stake WHERE parent_id <> child_id
),
heads AS MATERIALIZED (
    SELECT DISTINCT h.parent_id AS id FROM held h ANTI JOIN held upper ON upper.child_id = h.parent_id
),
reached(id) AS (
    SELECT id FROM heads
    UNION
    SELECT h.child_id FROM reached r JOIN held h ON h.parent_id = r.id
),
-- Companies that no head reaches are in or below rings. Each of them takes the first id among itself and all above it, then
-- the last of the ids that those above it took. In a ring that nobody else holds, the first member and all above it took
-- that member's id: they are the ring.
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
)
SELECT id, false AS is_ring FROM heads
UNION ALL
SELECT id, true FROM first_above JOIN last_above USING (id) WHERE first_id = id AND last_id = id
