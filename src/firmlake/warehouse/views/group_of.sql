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
held AS MATERIALIZED (
    SELECT parent_no, child_no FROM shareholdings JOIN asked ON stake >= least_stake
),
members(head_no, no) AS (
    SELECT no, no FROM heads
    UNION
    SELECT m.head_no, h.child_no FROM members m JOIN held h ON h.parent_no = m.no
),
-- Stakes on the ways from heads to members.
below(no) AS (
    SELECT no FROM heads
    UNION
    SELECT s.child_no FROM below b JOIN shareholdings s ON s.parent_no = b.no
),
stakes_below AS MATERIALIZED (
    SELECT s.* FROM shareholdings s SEMI JOIN below b ON b.no = s.parent_no
),
above(no) AS (
    SELECT no FROM members
    UNION
    SELECT s.parent_no FROM above a JOIN stakes_below s ON s.child_no = a.no
),
within AS MATERIALIZED (
    SELECT s.* FROM stakes_below s SEMI JOIN above a ON a.no = s.child_no
),
ways(head_no, no, stake, more, step) USING KEY (head_no, no) AS (
    SELECT no, no, 1::DOUBLE, 1::DOUBLE, 0 FROM heads
    UNION
    SELECT
        w.head_no, s.child_no, coalesce(any_value(known.stake), 0) + sum(w.more * s.stake), sum(w.more * s.stake),
        any_value(w.step) + 1
    FROM ways w
    JOIN within s ON s.parent_no = w.no
    LEFT JOIN recurring.ways known ON known.head_no = w.head_no AND known.no = s.child_no
    WHERE s.child_no <> w.head_no AND w.stake < 1000 AND w.step < 1000
    GROUP BY w.head_no, s.child_no
    HAVING sum(w.more * s.stake) > 1e-9
),
-- Names and figures are read by themselves, because the joins at the end would otherwise read those of all companies.
-- 0 is a company that is not in parties.
named AS MATERIALIZED (
    SELECT p.no, p.id, p.country, p.company_number, p.name FROM parties p SEMI JOIN members m USING (no)
    UNION ALL
    SELECT h.no, q.id, c.country, c.company_number, c.name
    FROM heads h CROSS JOIN asked q
    JOIN companies c ON c.country = q.id[:2] AND c.company_number = q.id[3:]
    WHERE h.no = 0
),
figures AS MATERIALIZED (
    SELECT a.* FROM portfolio a SEMI JOIN named USING (country, company_number)
)
SELECT
    top.id AS head_id, top.name AS head_name, h.is_ring, p.id, p.country, p.company_number, p.name,
    least(round(coalesce(w.stake, 0), 6), 1)::DECIMAL(9, 6) AS effective_fraction,
    a.end_date IS NOT NULL AS is_held,
    a.end_date, a.is_comparable, a.health_indicator, a.employee_count, a.revenue, a.total_assets, a.equity, a.debt
FROM members m
JOIN heads h ON h.no = m.head_no
JOIN named top ON top.no = h.no
JOIN named p ON p.no = m.no
LEFT JOIN ways w ON w.head_no = m.head_no AND w.no = m.no
LEFT JOIN figures a ON a.country = p.country AND a.company_number = p.company_number
