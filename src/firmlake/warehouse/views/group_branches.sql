-- macro group_branches(threshold := 0.5)
-- example: group_branches(0.5)
-- All groups of companies at once, in a compact form for further queries; groups has one row for each head and member.
-- A branch is an ultimate parent, or a company with several owners, together with all companies that it holds through a
-- single owner each, so all members of a branch have the same heads. A row names either a head of a branch (head_id) or
-- a member (id); join them by branch_no.
--
-- branch_no: Number of the branch
-- head_id: Id of a head of the branch: an ultimate parent, as in groups. Null: the row names a member
-- is_ring: Whether the head stands for a ring of companies that hold each other. Null: the row names a member
-- id: Id of a member; each belongs to one branch only. Null: the row names a head
WITH RECURSIVE asked(least_stake) AS (
    SELECT share_asked(threshold)
),
held AS MATERIALIZED (
    SELECT parent_no, child_no FROM shareholdings JOIN asked ON stake >= least_stake WHERE parent_no <> child_no
),
-- Not by UNION: DuckDB 1.4 keeps its duplicates in a materialised query of WITH RECURSIVE.
involved AS MATERIALIZED (
    SELECT DISTINCT no FROM (SELECT parent_no AS no FROM held UNION ALL SELECT child_no FROM held)
),
-- Companies that hold nothing are in no ring, nor between rings.
inner_held AS MATERIALIZED (
    SELECT h.* FROM held h SEMI JOIN held lower ON lower.parent_no = h.child_no
),
tops AS MATERIALIZED (
    SELECT no FROM involved ANTI JOIN held ON child_no = no
),
below_tops(no) AS (
    SELECT h.child_no FROM inner_held h SEMI JOIN tops ON no = h.parent_no
    UNION
    SELECT h.child_no FROM below_tops b JOIN inner_held h ON h.parent_no = b.no
),
-- Companies that no top reaches are in or below rings. Each of them takes the first number among itself and all above it,
-- then the last of the numbers that those above it took. In a ring that nobody else holds, the first member and all above it
-- took that member's number: they are the ring.
ringed AS MATERIALIZED (
    SELECT h.* FROM inner_held h ANTI JOIN below_tops b ON b.no = h.child_no
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
),
heads AS MATERIALIZED (
    SELECT no, false AS is_ring FROM tops
    UNION ALL
    SELECT no, true FROM first_above JOIN last_above USING (no) WHERE first_no = no AND last_no = no
),
-- What has a single owner and is no head is in the branch of its owner; all others begin branches.
single AS MATERIALIZED (
    SELECT min(parent_no) AS parent_no, child_no FROM held ANTI JOIN heads ON no = child_no
    GROUP BY child_no HAVING count(*) = 1
),
branches(start_no, no) AS (
    SELECT no, no FROM involved ANTI JOIN single ON child_no = no
    UNION ALL
    SELECT b.start_no, s.child_no FROM branches b JOIN single s ON s.parent_no = b.no
),
joints AS MATERIALIZED (
    SELECT b.start_no AS parent_no, h.child_no
    FROM (FROM held ANTI JOIN single USING (child_no)) h JOIN branches b ON b.no = h.parent_no
),
reached(head_no, start_no) AS (
    SELECT no, no FROM heads
    UNION
    SELECT r.head_no, j.child_no FROM reached r JOIN joints j ON j.parent_no = r.start_no
),
parts AS (
    SELECT start_no, head_no AS no, is_ring FROM reached JOIN heads ON no = head_no
    UNION ALL
    SELECT start_no, no, NULL FROM branches
)
SELECT
    start_no AS branch_no,
    CASE WHEN is_ring IS NOT NULL THEN id END AS head_id,
    is_ring,
    CASE WHEN is_ring IS NULL THEN id END AS id
FROM parts JOIN parties USING (no)
