-- macro holdings_of(of_country, of_number)
-- example: holdings_of('BE', '0403227515')
-- One row per company that a company holds, directly or through others, with the effective stake, computed as in
-- owners_of.
--
-- id: Id of the company held, as child_id in ownership
-- direct_fraction: Stake that the company holds itself, 0 to 1. Null: it holds only through others
-- effective_fraction: Stake along all paths, 0 to 1
-- is_cut: Whether the stakes along all paths add up to more than 1 and were reduced to 1
-- step_count: Number of steps on the shortest path; 1 is held directly
-- is_in_ring: Whether the company held also holds the company in question, directly or through others
WITH RECURSIVE asked(id) AS (
    SELECT company_asked(of_country, of_number)
),
start AS MATERIALIZED (
    SELECT no FROM asked JOIN parties USING (id)
),
below(no) AS (
    FROM start
    UNION
    SELECT s.child_no FROM below b JOIN shareholdings s ON s.parent_no = b.no
),
within AS MATERIALIZED (
    SELECT s.* FROM shareholdings s SEMI JOIN below b ON s.parent_no = b.no
),
onwards AS MATERIALIZED (
    SELECT w.* FROM within w ANTI JOIN start ON start.no = w.child_no
),
-- Read by themselves, because the join at the end would otherwise read all parties.
named AS MATERIALIZED (
    SELECT p.* FROM parties p SEMI JOIN below b USING (no)
),
ways(no, stake, more, step_count, step) USING KEY (no) AS (
    SELECT no, 1::DOUBLE, 1::DOUBLE, 0, 0 FROM start
    UNION
    SELECT
        s.child_no, coalesce(any_value(known.stake), 0) + sum(w.more * s.stake), sum(w.more * s.stake),
        coalesce(any_value(known.step_count), any_value(w.step) + 1), any_value(w.step) + 1
    FROM ways w
    JOIN onwards s ON s.parent_no = w.no
    LEFT JOIN recurring.ways known ON known.no = s.child_no
    WHERE w.stake < 1000 AND w.step < 1000
    GROUP BY s.child_no
    HAVING sum(w.more * s.stake) > 1e-9
),
back(no) AS (
    FROM start
    UNION
    SELECT w.parent_no FROM back b JOIN within w ON w.child_no = b.no
)
SELECT
    p.* EXCLUDE (no),
    d.stake::DECIMAL(9, 6) AS direct_fraction,
    least(round(e.stake, 6), 1)::DECIMAL(9, 6) AS effective_fraction,
    e.stake > 1.000001 AS is_cut,
    e.step_count,
    e.no IN (FROM back) AS is_in_ring
FROM ways e
ANTI JOIN start USING (no)
JOIN named p USING (no)
LEFT JOIN (SELECT w.* FROM within w SEMI JOIN start ON start.no = w.parent_no) d ON d.child_no = e.no
