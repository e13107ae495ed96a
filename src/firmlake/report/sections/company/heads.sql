-- table: The groups of the company, from those at the top of it; the three with most members are drawn.
WITH RECURSIVE tops AS MATERIALIZED (FROM tops_of(getvariable('country'), getvariable('number'), 0.5)),
reached(head_no, no) AS (
    SELECT no, no FROM tops
    UNION
    SELECT r.head_no, s.child_no FROM reached r JOIN shareholdings s ON s.parent_no = r.no WHERE s.stake >= 0.5
)
SELECT head_no AS no, any_value(is_ring) AS is_ring, count(*) AS member_count, 6 AS steps
FROM reached JOIN tops ON tops.no = head_no
GROUP BY head_no HAVING count(*) > 1 ORDER BY count(*) DESC, head_no LIMIT 3
