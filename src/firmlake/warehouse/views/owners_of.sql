-- macro owners_of(of_country, of_number)
-- example: owners_of('BE', '0403227515')
-- One row per owner of a company, direct or through others, with the effective stake: the product of the stakes
-- along a path, added up over all paths. A path never returns to the owner it starts from. It may go round another ring
-- of owners repeatedly, each time adding less; a company that holds shares of itself counts as a ring. A path ends where
-- less than a billionth is left, or after 1,000 steps. Stakes that add up to more than 1 are reduced to 1. If more than
-- 200 owners may be in rings, a path may also return to its owner.
--
-- id: Id of the owner, as parent_id in ownership
-- direct_fraction: Stake that the owner holds itself, 0 to 1. Null: it holds only through others
-- effective_fraction: Stake along all paths, 0 to 1
-- is_cut: Whether the stakes along all paths add up to more than 1 and were reduced to 1
-- step_count: Number of steps on the shortest path; 1 is a direct owner
-- is_ultimate: Whether nobody else is known to hold a stake in the owner
-- is_in_ring: Whether the company in question also holds this owner, directly or through others
WITH RECURSIVE asked(id) AS (
    SELECT company_asked(of_country, of_number)
),
start AS MATERIALIZED (
    SELECT no FROM asked JOIN parties USING (id)
),
above(no) AS (
    FROM start
    UNION
    SELECT s.parent_no FROM above a JOIN shareholdings s ON s.child_no = a.no
),
within AS MATERIALIZED (
    SELECT s.* FROM shareholdings s SEMI JOIN above a ON s.child_no = a.no
),
-- Read by themselves, because the join at the end would otherwise read all parties.
named AS MATERIALIZED (
    SELECT p.* FROM parties p SEMI JOIN above a USING (no)
),
-- From the company upwards: the stakes of all owners at once. The ways of an owner in a ring also return to it.
ways(no, stake, more, step_count, step) USING KEY (no) AS (
    SELECT no, 0::DOUBLE, 1::DOUBLE, 0, 0 FROM start
    UNION
    SELECT
        s.parent_no, coalesce(known.stake, 0) + sum(w.more * s.stake), sum(w.more * s.stake),
        coalesce(known.step_count, w.step + 1), w.step + 1
    FROM ways w
    JOIN within s ON s.child_no = w.no
    LEFT JOIN recurring.ways known ON known.no = s.parent_no
    WHERE w.stake < 1000 AND w.step < 1000
    GROUP BY s.parent_no, known.stake, known.step_count, w.step
    HAVING sum(w.more * s.stake) > 1e-9
),
-- All owners in rings, and a few others: they have an owner that has an owner that has an owner.
owned AS MATERIALIZED (
    SELECT w.* FROM within w SEMI JOIN within upper ON upper.child_no = w.parent_no
),
circling AS MATERIALIZED (
    SELECT DISTINCT o.child_no AS no
    FROM owned o SEMI JOIN owned upper ON upper.child_no = o.parent_no
    ANTI JOIN start ON start.no = o.child_no
),
-- From each of them downwards, without ways that return to it.
walk(start_no, no, stake, step_count) AS (
    SELECT no, no, 1::DOUBLE, 0 FROM circling WHERE (SELECT count(*) FROM circling) <= 200
    UNION ALL
    SELECT w.start_no, s.child_no, sum(w.stake * s.stake), w.step_count + 1
    FROM walk w JOIN within s ON s.parent_no = w.no
    WHERE s.child_no <> w.start_no AND w.step_count < 1000
    GROUP BY w.start_no, s.child_no, w.step_count
    HAVING sum(w.stake * s.stake) > 1e-9
),
walked AS (
    SELECT start_no AS no, sum(stake) AS stake FROM walk SEMI JOIN start USING (no) GROUP BY start_no
),
below(no) AS (
    FROM start
    UNION
    SELECT w.child_no FROM below b JOIN within w ON w.parent_no = b.no
)
SELECT
    p.* EXCLUDE (no),
    d.stake::DECIMAL(9, 6) AS direct_fraction,
    least(round(e.stake, 6), 1)::DECIMAL(9, 6) AS effective_fraction,
    e.stake > 1.000001 AS is_cut,
    e.step_count,
    p.no NOT IN (SELECT child_no FROM within WHERE parent_no <> child_no) AS is_ultimate,
    p.no IN (FROM below) AS is_in_ring
FROM (
    SELECT w.no, start.no AS asked_no, coalesce(o.stake, w.stake) AS stake, w.step_count
    FROM ways w CROSS JOIN start LEFT JOIN walked o ON o.no = w.no
    WHERE w.no <> start.no
) e
JOIN named p USING (no)
LEFT JOIN within d ON d.parent_no = e.no AND d.child_no = e.asked_no
