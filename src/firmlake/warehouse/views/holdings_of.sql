-- macro holdings_of(of_country, of_number)
-- example: holdings_of('BE', '0403227515')
-- One row for each company that a company holds, directly or through others, with the effective stake, computed as in
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
below(id) AS (
    SELECT id FROM asked
    UNION
    SELECT s.child_id FROM below b JOIN shareholdings s ON s.parent_id = b.id
),
-- Numbered, since a ring may take a thousand steps, and numbers are compared faster than ids.
numbered AS MATERIALIZED (
    SELECT b.id, CASE WHEN asked.id IS NULL THEN row_number() OVER () ELSE 0 END AS no
    FROM below b LEFT JOIN asked ON asked.id = b.id
),
within AS MATERIALIZED (
    SELECT p.no AS parent_no, c.no AS child_no, s.stake
    FROM shareholdings s JOIN numbered p ON p.id = s.parent_id JOIN numbered c ON c.id = s.child_id
),
onwards AS MATERIALIZED (FROM within WHERE child_no > 0),
-- A company of which more than the whole is held, which cannot be, passes nothing more on.
ways(no, stake, more, step_count, step) USING KEY (no) AS (
    SELECT 0::BIGINT, 1::DOUBLE, 1::DOUBLE, 0, 0
    UNION
    SELECT
        s.child_no, coalesce(any_value(known.stake), 0) + sum(w.more * s.stake), sum(w.more * s.stake),
        coalesce(any_value(known.step_count), any_value(w.step) + 1), any_value(w.step) + 1
    FROM ways w
    JOIN onwards s ON s.parent_no = w.no
    LEFT JOIN recurring.ways known ON known.no = s.child_no
    WHERE w.step < 1000 AND w.stake - w.more <= 1.000001
    GROUP BY s.child_no
    HAVING sum(w.more * s.stake) > 1e-9
),
back(no) AS (
    SELECT 0::BIGINT
    UNION
    SELECT w.parent_no FROM back b JOIN within w ON w.child_no = b.no
)
SELECT
    p.*,
    d.stake::DECIMAL(9, 6) AS direct_fraction,
    least(round(e.stake, 6), 1)::DECIMAL(9, 6) AS effective_fraction,
    e.stake > 1.000001 AS is_cut,
    e.step_count,
    e.no IN (SELECT no FROM back) AS is_in_ring
FROM ways e
JOIN numbered n USING (no)
JOIN parties p USING (id)
LEFT JOIN within d ON d.parent_no = 0 AND d.child_no = e.no
WHERE e.no > 0
