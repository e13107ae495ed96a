-- macro group_of(of_country, of_number, threshold := 0.5)
-- example: group_of('BE', '0403227515', 0.5)
-- The group of a company: all companies below each of its ultimate parents, through stakes of at least the threshold, with
-- the newest accounts that we hold. Every member of a group gives the same group.
--
-- head_id: Ultimate parent, as parent_id in ownership; head of the group
-- head_name: Its name
-- is_ring: Whether the head stands for a ring of companies that hold each other
-- id: Member, as child_id in ownership; the head is one
-- effective_fraction: Stake of the head in the member along all paths, counted as in owners_of; 1 for the head
-- is_held: Whether we hold accounts of it
WITH RECURSIVE asked(country, company_number, least_stake) AS (
    SELECT of_country, of_number, threshold
),
heads AS MATERIALIZED (
    SELECT * FROM tops_of(of_country, of_number, threshold)
),
members(head_id, id) AS (
    SELECT id, id FROM heads
    UNION
    SELECT m.head_id, s.child_id
    FROM members m
    JOIN shareholdings s ON s.parent_id = m.id
    JOIN asked ON s.stake >= asked.least_stake
),
below(id) AS (
    SELECT id FROM heads
    UNION
    SELECT s.child_id FROM below b JOIN shareholdings s ON s.parent_id = b.id
),
-- Numbered, since a ring may take a thousand steps, and numbers are compared faster than ids.
numbered AS MATERIALIZED (
    SELECT id, row_number() OVER () AS no FROM below
),
within AS MATERIALIZED (
    SELECT p.no AS parent_no, c.no AS child_no, s.stake
    FROM shareholdings s JOIN numbered p ON p.id = s.parent_id JOIN numbered c ON c.id = s.child_id
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
    CASE WHEN p.id IS NULL THEN q.country ELSE p.country END AS country,
    CASE WHEN p.id IS NULL THEN q.company_number ELSE p.company_number END AS company_number,
    coalesce(p.name, c.name) AS name,
    least(round(coalesce(s.stake, 0), 6), 1)::DECIMAL(9, 6) AS effective_fraction,
    a.end_date IS NOT NULL AS is_held,
    a.end_date, a.health_indicator, a.employee_count, a.revenue, a.total_assets, a.equity, a.debt
FROM members m
CROSS JOIN asked q
JOIN heads h ON h.id = m.head_id
LEFT JOIN companies c ON c.country = q.country AND c.company_number = q.company_number
LEFT JOIN parties top ON top.id = h.id
LEFT JOIN parties p ON p.id = m.id
LEFT JOIN stakes s ON s.head_id = m.head_id AND s.id = m.id
LEFT JOIN (
    -- As in latest_accounts, but only for the members, since ranking the periods of all companies takes long.
    SELECT f.*
    FROM financials f
    SEMI JOIN (SELECT * FROM parties SEMI JOIN members USING (id) UNION ALL BY NAME FROM asked) n
        ON n.country = f.country AND n.company_number = f.company_number
    QUALIFY row_number() OVER (
        PARTITION BY f.country, f.company_number
        ORDER BY f.end_date DESC, f.date_received DESC NULLS LAST, f.start_date, f.dup_no DESC
    ) = 1
) a ON a.country || a.company_number = m.id
