-- macro owners_of(of_country, of_number)
-- example: owners_of('BE', '0403227515')
-- Every owner of a company, direct or through others, with the effective stake: the product of the stakes along a path,
-- added over all paths. A path never returns to the owner it starts from. It may go round another ring repeatedly, each
-- time adding less, until less than a billionth is left or after 1,000 steps. Stakes that add up to more than 1 are cut
-- to 1.
--
-- id: Owner, as parent_id in ownership
-- direct_fraction: Stake that the owner holds itself. Null: it holds only through others
-- effective_fraction: Stake along all paths, 0 to 1
-- is_cut: Whether the paths came to more than 1
-- step_count: Steps of the shortest path; 1 is a direct owner
-- is_ultimate: Whether the owner has no known owner
-- is_in_ring: Whether the company asked for also holds this owner, directly or through others
WITH RECURSIVE asked(id) AS (
    SELECT of_country || of_number
),
above(id) AS (
    SELECT id FROM asked
    UNION
    SELECT s.parent_id FROM above a JOIN shareholdings s ON s.child_id = a.id
),
within AS MATERIALIZED (
    SELECT s.* FROM shareholdings s SEMI JOIN above a ON s.child_id = a.id
),
walk(start_id, id, stake, step_count) AS (
    SELECT id, id, 1::DOUBLE, 0 FROM above
    UNION ALL
    SELECT w.start_id, s.child_id, sum(w.stake * s.stake), w.step_count + 1
    FROM walk w JOIN within s ON s.parent_id = w.id
    WHERE s.child_id <> w.start_id AND w.step_count < 1000
    GROUP BY w.start_id, s.child_id, w.step_count
    HAVING sum(w.stake * s.stake) > 1e-9
)
SELECT
    p.*,
    d.stake::DECIMAL(9, 6) AS direct_fraction,
    least(round(e.stake, 6), 1)::DECIMAL(9, 6) AS effective_fraction,
    e.stake > 1.000001 AS is_cut,
    e.step_count,
    p.id NOT IN (SELECT child_id FROM within WHERE parent_id <> child_id) AS is_ultimate,
    p.id IN (SELECT walk.id FROM walk JOIN asked ON asked.id = walk.start_id) AS is_in_ring
FROM (
    SELECT start_id, id, sum(stake) AS stake, min(step_count) AS step_count
    FROM walk SEMI JOIN asked USING (id)
    WHERE start_id <> id
    GROUP BY start_id, id
) e
JOIN parties p ON p.id = e.start_id
LEFT JOIN within d ON d.parent_id = e.start_id AND d.child_id = e.id
