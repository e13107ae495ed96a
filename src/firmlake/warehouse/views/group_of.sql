-- macro group_of(of_country, of_number, threshold := 0.5)
-- example: group_of('BE', '0403227515', 0.5)
-- The group of a company: all companies below each of its ultimate parents, linked by stakes of at least the threshold,
-- with their newest held accounts. Every member of a group returns the same group.
--
-- head_id: Id of the ultimate parent that is the head of the group, as parent_id in ownership
-- head_name: Name of the head. Null: the head is the company itself, and its name was not fetched yet
-- is_ring: Whether the head stands for a ring of companies that hold each other
-- id: Id of the member, as child_id in ownership; the head is a member too
-- effective_fraction: Stake of the head in the member along all paths, 0 to 1, computed as in owners_of; 1 for the head
-- itself
-- is_held: Whether the warehouse holds accounts of the member
-- country: Country of the member. Null: it has no identifier
-- company_number: Company number of the member, in normal form. Null: it has no identifier
-- name: Name of the member, or (unidentified). Null: the member is the company itself, and its name was not fetched yet
-- end_date: Last day of the member's newest accounts. Null: no accounts are held
-- is_comparable: Whether the figures of these accounts are comparable with those of the member's other periods, see
-- quality. Null: no accounts are held
WITH RECURSIVE asked(id, least_stake) AS (
    SELECT company_asked(of_country, of_number), share_asked(threshold)
),
heads AS MATERIALIZED (
    SELECT * FROM tops_of(of_country, of_number, threshold)
),
-- By hash, which takes less memory and time than ids. If two ids share a hash, stakes are read in vain; no result changes.
edges AS MATERIALIZED (
    SELECT hash(parent_id) AS parent, hash(child_id) AS child, stake >= least_stake AS is_large
    FROM shareholdings CROSS JOIN asked
),
reached(hashed) AS (
    SELECT hash(id) FROM heads
    UNION
    SELECT e.child FROM reached r JOIN edges e ON e.parent = r.hashed WHERE e.is_large
),
held AS MATERIALIZED (
    SELECT s.parent_id, s.child_id
    FROM shareholdings s JOIN asked ON s.stake >= least_stake SEMI JOIN reached r ON r.hashed = hash(s.parent_id)
),
members(head_id, id) AS (
    SELECT id, id FROM heads
    UNION
    SELECT m.head_id, h.child_id FROM members m JOIN held h ON h.parent_id = m.id
),
-- Stakes on the ways from heads to members.
below(hashed) AS (
    SELECT hash(id) FROM heads
    UNION
    SELECT e.child FROM below b JOIN edges e ON e.parent = b.hashed
),
edges_below AS MATERIALIZED (
    SELECT e.parent, e.child FROM edges e SEMI JOIN below b ON b.hashed = e.parent
),
above(hashed) AS (
    SELECT hash(id) FROM members
    UNION
    SELECT e.parent FROM above a JOIN edges_below e ON e.child = a.hashed
),
between AS MATERIALIZED (
    SELECT s.*
    FROM shareholdings s
    SEMI JOIN below b ON b.hashed = hash(s.parent_id)
    SEMI JOIN above a ON a.hashed = hash(s.child_id)
),
-- Numbered, since a ring may take a thousand steps, and numbers are compared faster than ids.
numbered AS MATERIALIZED (
    SELECT id, row_number() OVER () AS no
    FROM (SELECT id FROM heads UNION SELECT child_id FROM between)
),
within AS MATERIALIZED (
    SELECT p.no AS parent_no, c.no AS child_no, s.stake
    FROM between s JOIN numbered p ON p.id = s.parent_id JOIN numbered c ON c.id = s.child_id
),
-- A member with more than the whole, which cannot be, passes nothing more on.
ways(head_no, no, stake, more, step) USING KEY (head_no, no) AS (
    SELECT no, no, 1::DOUBLE, 1::DOUBLE, 0 FROM heads JOIN numbered USING (id)
    UNION
    SELECT
        w.head_no, s.child_no, coalesce(any_value(known.stake), 0) + sum(w.more * s.stake), sum(w.more * s.stake),
        any_value(w.step) + 1
    FROM ways w
    JOIN within s ON s.parent_no = w.no
    LEFT JOIN recurring.ways known ON known.head_no = w.head_no AND known.no = s.child_no
    WHERE s.child_no <> w.head_no AND w.step < 1000 AND w.stake - w.more <= 1.000001
    GROUP BY w.head_no, s.child_no
    HAVING sum(w.more * s.stake) > 1e-9
),
stakes AS (
    SELECT h.id AS head_id, n.id, w.stake
    FROM ways w JOIN numbered h ON h.no = w.head_no JOIN numbered n ON n.no = w.no
)
SELECT
    h.id AS head_id,
    coalesce(top.name, c.name) AS head_name,
    h.is_ring,
    m.id,
    CASE WHEN p.id IS NULL THEN c.country ELSE p.country END AS country,
    CASE WHEN p.id IS NULL THEN c.company_number ELSE p.company_number END AS company_number,
    coalesce(p.name, c.name) AS name,
    least(round(coalesce(s.stake, 0), 6), 1)::DECIMAL(9, 6) AS effective_fraction,
    a.end_date IS NOT NULL AS is_held,
    a.end_date, a.is_comparable, a.health_indicator, a.employee_count, a.revenue, a.total_assets, a.equity, a.debt
FROM members m
CROSS JOIN asked q
JOIN heads h ON h.id = m.head_id
LEFT JOIN companies c ON c.country = q.id[:2] AND c.company_number = q.id[3:]
LEFT JOIN parties top ON top.id = h.id
LEFT JOIN parties p ON p.id = m.id
LEFT JOIN stakes s ON s.head_id = m.head_id AND s.id = m.id
LEFT JOIN portfolio a ON a.country || a.company_number = m.id
WHERE p.id IS NOT NULL OR c.country IS NOT NULL
