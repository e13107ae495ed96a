-- table: The members of the groups in `heads`, up to twenty of each, on their shortest path from the head. Members that
-- `own_line` names come first. A head counts as its own first member.
WITH RECURSIVE tree(head_no, no, parent_no, depth, stake, steps) USING KEY (head_no, no) AS (
    SELECT no, no, NULL::INTEGER, 0, NULL::DOUBLE, steps FROM heads
    UNION
    SELECT t.head_no, s.child_no, arg_min(t.no, (-s.stake, t.no)), min(t.depth) + 1,
        arg_min(s.stake, (-s.stake, t.no)), any_value(t.steps)
    FROM tree t
    JOIN shareholdings s ON s.parent_no = t.no
    LEFT JOIN recurring.tree known ON known.head_no = t.head_no AND known.no = s.child_no
    WHERE s.stake >= 0.5 AND t.depth < t.steps AND known.no IS NULL
    GROUP BY t.head_no, s.child_no
),
named AS MATERIALIZED (
    SELECT p.* FROM parties p SEMI JOIN tree USING (no)
),
held AS (
    SELECT DISTINCT no FROM financials JOIN named USING (country, company_number)
)
SELECT t.head_no, t.no, t.parent_no, t.depth, t.stake, h.is_ring, h.member_count, p.name,
    p.country || ' ' || p.company_number AS number, held.no IS NOT NULL AS is_held,
    coalesce(p.id = getvariable('country') || getvariable('number'), false) AS is_asked
FROM tree t
JOIN heads h ON h.no = t.head_no
JOIN named p ON p.no = t.no
LEFT JOIN held ON held.no = t.no
QUALIFY row_number() OVER (
    PARTITION BY t.head_no ORDER BY t.no IN (FROM own_line) DESC, t.depth, t.stake DESC, t.no
) <= 20
