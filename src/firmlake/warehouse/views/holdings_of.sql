-- macro holdings_of(of_country, of_number)
-- example: holdings_of('BE', '0403227515')
-- Every company that a company holds, directly or through others, with the effective stake, counted as in owners_of.
--
-- id: Company held, as child_id in ownership
-- direct_fraction: Stake held by the company itself. Null: held only through others
-- effective_fraction: Stake along all paths, 0 to 1
-- is_cut: Whether the paths came to more than 1
-- step_count: Steps of the shortest path; 1 is held directly
-- is_in_ring: Whether the company held also holds the company asked for, directly or through others
WITH RECURSIVE asked(id) AS (
    SELECT of_country || of_number
),
walk(start_id, id, stake, step_count) AS (
    SELECT id, id, 1::DOUBLE, 0 FROM asked
    UNION ALL
    SELECT w.start_id, s.child_id, sum(w.stake * s.stake), w.step_count + 1
    FROM walk w JOIN shareholdings s ON s.parent_id = w.id
    WHERE s.child_id <> w.start_id AND w.step_count < 1000
    GROUP BY w.start_id, s.child_id, w.step_count
    HAVING sum(w.stake * s.stake) > 1e-9
),
back(id) AS (
    SELECT id FROM asked
    UNION
    SELECT s.parent_id FROM back b JOIN shareholdings s ON s.child_id = b.id
)
SELECT
    p.*,
    d.stake::DECIMAL(9, 6) AS direct_fraction,
    least(round(e.stake, 6), 1)::DECIMAL(9, 6) AS effective_fraction,
    e.stake > 1.000001 AS is_cut,
    e.step_count,
    p.id IN (SELECT id FROM back) AS is_in_ring
FROM (
    SELECT start_id, id, sum(stake) AS stake, min(step_count) AS step_count
    FROM walk
    WHERE step_count > 0
    GROUP BY start_id, id
) e
JOIN parties p USING (id)
LEFT JOIN shareholdings d ON d.parent_id = e.start_id AND d.child_id = e.id
