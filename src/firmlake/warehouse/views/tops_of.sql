-- macro tops_of(of_country, of_number, threshold := 0.25)
-- example: tops_of('BE', '0403227515', 0.25)
-- The numbers of a company's ultimate parents, without names and stakes; ultimate_parents has those.
--
-- no: Number of the ultimate parent, as no in parties. 0: the company itself, which is not in parties
-- is_ring: Whether it represents a ring of companies that hold each other
WITH RECURSIVE asked(id, least_stake) AS (
    SELECT company_asked(of_country, of_number), share_asked(threshold)
),
held AS MATERIALIZED (
    SELECT parent_no, child_no FROM shareholdings JOIN asked ON stake >= least_stake WHERE parent_no <> child_no
),
above(no) AS (
    SELECT coalesce(no, 0) FROM asked LEFT JOIN parties USING (id)
    UNION
    SELECT h.parent_no FROM above a JOIN held h ON h.child_no = a.no
),
within AS MATERIALIZED (
    SELECT h.* FROM held h SEMI JOIN above a ON h.child_no = a.no
),
-- As in groups: heads reach what is below them; the rest is in rings or below them.
heads AS (
    SELECT no FROM above ANTI JOIN within ON child_no = no
),
reached(no) AS (
    FROM heads
    UNION
    SELECT w.child_no FROM reached r JOIN within w ON w.parent_no = r.no
),
ringed AS MATERIALIZED (
    SELECT w.* FROM within w ANTI JOIN reached r ON r.no = w.child_no
),
first_above(no, first_no) USING KEY (no) AS (
    SELECT DISTINCT child_no, child_no FROM ringed
    UNION
    SELECT g.child_no, min(f.first_no)
    FROM first_above f
    JOIN ringed g ON g.parent_no = f.no
    JOIN recurring.first_above known ON known.no = g.child_no
    WHERE f.first_no < known.first_no
    GROUP BY g.child_no
),
last_above(no, last_no) USING KEY (no) AS (
    SELECT no, first_no FROM first_above
    UNION
    SELECT g.child_no, max(l.last_no)
    FROM last_above l
    JOIN ringed g ON g.parent_no = l.no
    JOIN recurring.last_above known ON known.no = g.child_no
    WHERE l.last_no > known.last_no
    GROUP BY g.child_no
)
SELECT no, false AS is_ring FROM heads
UNION ALL
SELECT no, true FROM first_above JOIN last_above USING (no) WHERE first_no = no AND last_no = no
