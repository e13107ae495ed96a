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
-- A company of which more than the whole is held, which cannot be, passes nothing more on.
ways(id, stake, more, step_count, step) USING KEY (id) AS (
    SELECT id, 1::DOUBLE, 1::DOUBLE, 0, 0 FROM asked
    UNION
    SELECT
        s.child_id, coalesce(known.stake, 0) + sum(w.more * s.stake), sum(w.more * s.stake),
        coalesce(known.step_count, w.step + 1), w.step + 1
    FROM ways w
    JOIN shareholdings s ON s.parent_id = w.id
    ANTI JOIN asked ON asked.id = s.child_id
    LEFT JOIN recurring.ways known ON known.id = s.child_id
    WHERE w.step < 1000 AND w.stake - w.more <= 1.000001
    GROUP BY s.child_id, known.stake, known.step_count, w.step
    HAVING sum(w.more * s.stake) > 1e-9
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
    SELECT w.*, asked.id AS start_id FROM ways w CROSS JOIN asked WHERE w.step_count > 0
) e
JOIN parties p USING (id)
LEFT JOIN shareholdings d ON d.parent_id = e.start_id AND d.child_id = e.id
