-- macro tops_of(of_country, of_number, threshold := 0.25)
-- example: tops_of('BE', '0403227515', 0.25)
-- The ids of a company's ultimate parents, without names and stakes; ultimate_parents has those.
--
-- id: Id of the ultimate parent, as parent_id in ownership
-- is_ring: Whether it represents a ring of companies that hold each other
WITH RECURSIVE asked(id, least_stake) AS (
    SELECT company_asked(of_country, of_number), share_asked(threshold)
),
held AS MATERIALIZED (
    SELECT parent_id, child_id FROM shareholdings JOIN asked ON stake >= least_stake WHERE parent_id <> child_id
),
above(id) AS (
    SELECT id FROM asked
    UNION
    SELECT h.parent_id FROM above a JOIN held h ON h.child_id = a.id
),
within AS MATERIALIZED (
    SELECT h.* FROM held h SEMI JOIN above a ON h.child_id = a.id
),
-- As in groups: heads reach what is below them; the rest is in rings or below them.
heads AS (
    SELECT id FROM above ANTI JOIN within ON child_id = id
),
reached(id) AS (
    SELECT id FROM heads
    UNION
    SELECT w.child_id FROM reached r JOIN within w ON w.parent_id = r.id
),
ringed AS MATERIALIZED (
    SELECT w.* FROM within w ANTI JOIN reached r ON r.id = w.child_id
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
