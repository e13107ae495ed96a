-- macro owners_of(of_country, of_number)
-- example: owners_of('BE', '0403227515')
-- One row for each owner of a company, direct or through others, with the effective stake: the product of the stakes
-- along a path, added up over all paths. A path never returns to the owner it starts from. It may go round another ring
-- of owners repeatedly, each time adding less, until less than a billionth is left or after 1,000 steps. Stakes that
-- add up to more than 1 are reduced to 1. If more than 200 owners may be in rings, a path may also return to its owner.
--
-- id: Id of the owner, as parent_id in ownership
-- direct_fraction: Stake that the owner holds itself, 0 to 1. Null: it holds only through others
-- effective_fraction: Stake along all paths, 0 to 1
-- is_cut: Whether the stakes along all paths add up to more than 1 and were reduced to 1
-- step_count: Number of steps on the shortest path; 1 is a direct owner
-- is_ultimate: Whether the owner has no known owner
-- is_in_ring: Whether the company in question also holds this owner, directly or through others
WITH RECURSIVE asked(id) AS (
    SELECT company_asked(of_country, of_number)
),
above(id) AS (
    SELECT id FROM asked
    UNION
    SELECT s.parent_id FROM above a JOIN shareholdings s ON s.child_id = a.id
),
within AS MATERIALIZED (
    SELECT s.* FROM shareholdings s SEMI JOIN above a ON s.child_id = a.id
),
-- From the company upwards: the stakes of all owners at once. The ways of an owner in a ring also return to it.
ways(id, stake, more, step_count, step) USING KEY (id) AS (
    SELECT id, 0::DOUBLE, 1::DOUBLE, 0, 0 FROM asked
    UNION
    SELECT
        s.parent_id, coalesce(known.stake, 0) + sum(w.more * s.stake), sum(w.more * s.stake),
        coalesce(known.step_count, w.step + 1), w.step + 1
    FROM ways w
    JOIN within s ON s.child_id = w.id
    LEFT JOIN recurring.ways known ON known.id = s.parent_id
    WHERE w.stake < 1000 AND w.step < 1000
    GROUP BY s.parent_id, known.stake, known.step_count, w.step
    HAVING sum(w.more * s.stake) > 1e-9
),
-- All owners in rings, and a few others: they have an owner that has an owner that has an owner.
owned AS MATERIALIZED (
    SELECT w.* FROM within w SEMI JOIN within upper ON upper.child_id = w.parent_id
),
circling AS MATERIALIZED (
    SELECT DISTINCT o.child_id AS id
    FROM owned o SEMI JOIN owned upper ON upper.child_id = o.parent_id
    ANTI JOIN asked ON asked.id = o.child_id
),
-- From each of them downwards, without ways that return to it.
walk(start_id, id, stake, step_count) AS (
    SELECT id, id, 1::DOUBLE, 0 FROM circling WHERE (SELECT count(*) FROM circling) <= 200
    UNION ALL
    SELECT w.start_id, s.child_id, sum(w.stake * s.stake), w.step_count + 1
    FROM walk w JOIN within s ON s.parent_id = w.id
    WHERE s.child_id <> w.start_id AND w.step_count < 1000
    GROUP BY w.start_id, s.child_id, w.step_count
    HAVING sum(w.stake * s.stake) > 1e-9
),
walked AS (
    SELECT start_id AS id, sum(stake) AS stake FROM walk SEMI JOIN asked USING (id) GROUP BY start_id
),
below(id) AS (
    SELECT id FROM asked
    UNION
    SELECT w.child_id FROM below b JOIN within w ON w.parent_id = b.id
)
SELECT
    p.*,
    d.stake::DECIMAL(9, 6) AS direct_fraction,
    least(round(e.stake, 6), 1)::DECIMAL(9, 6) AS effective_fraction,
    e.stake > 1.000001 AS is_cut,
    e.step_count,
    p.id NOT IN (SELECT child_id FROM within WHERE parent_id <> child_id) AS is_ultimate,
    p.id IN (SELECT id FROM below) AS is_in_ring
FROM (
    SELECT w.id, asked.id AS asked_id, coalesce(o.stake, w.stake) AS stake, w.step_count
    FROM ways w CROSS JOIN asked LEFT JOIN walked o ON o.id = w.id
    WHERE w.id <> asked.id
) e
JOIN parties p ON p.id = e.id
LEFT JOIN within d ON d.parent_id = e.id AND d.child_id = e.asked_id
