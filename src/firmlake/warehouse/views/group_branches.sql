-- macro group_branches(threshold := 0.5)
-- example: group_branches(0.5)
-- All groups at once, in parts that are joined by branch: rows with a head name a head of a branch, and rows with an id a
-- member of it. A branch is an ultimate parent or a company with several owners, together with all that are held by these
-- through a single owner each: all members of a branch have the same heads. Pairs of head and member, which groups has, can
-- be a hundred times as many.
--
-- branch_id: First company of the branch, as parent_id in ownership
-- head_id: Ultimate parent, as in groups. Null: the row names a member
-- is_ring: Whether the head stands for a ring of companies that hold each other. Null: the row names a member
-- id: Member. Null: the row names a head
WITH RECURSIVE asked(least_stake) AS (
    SELECT share_asked(threshold)
),
stakes AS MATERIALIZED (
    SELECT parent_id, child_id FROM shareholdings JOIN asked ON stake >= least_stake WHERE parent_id <> child_id
),
-- Numbered, since numbers take less memory than ids and are compared faster.
numbered AS MATERIALIZED (
    SELECT id, row_number() OVER () AS no
    FROM (SELECT parent_id AS id FROM stakes UNION SELECT child_id FROM stakes)
),
held AS MATERIALIZED (
    SELECT p.no AS parent_no, c.no AS child_no
    FROM stakes s JOIN numbered p ON p.id = s.parent_id JOIN numbered c ON c.id = s.child_id
),
heads AS MATERIALIZED (
    SELECT n.no, h.is_ring FROM group_heads(threshold) h JOIN numbered n USING (id)
),
starts AS MATERIALIZED (
    SELECT no FROM heads
    UNION
    SELECT child_no FROM held GROUP BY child_no HAVING count(*) > 1
),
branches(start_no, no) AS (
    SELECT no, no FROM starts
    UNION ALL
    SELECT b.start_no, h.child_no
    FROM branches b
    JOIN (FROM held ANTI JOIN starts ON child_no = no) h ON h.parent_no = b.no
),
joints AS MATERIALIZED (
    SELECT DISTINCT b.start_no AS parent_no, h.child_no
    FROM held h SEMI JOIN starts s ON s.no = h.child_no JOIN branches b ON b.no = h.parent_no
),
reached(head_no, start_no) AS (
    SELECT no, no FROM heads
    UNION
    SELECT r.head_no, j.child_no FROM reached r JOIN joints j ON j.parent_no = r.start_no
)
SELECT s.id AS branch_id, h.id AS head_id, is_ring, NULL AS id
FROM reached r
JOIN heads ON heads.no = r.head_no
JOIN numbered s ON s.no = r.start_no
JOIN numbered h ON h.no = r.head_no
UNION ALL
SELECT s.id, NULL, NULL, m.id
FROM branches b
JOIN numbered s ON s.no = b.start_no
JOIN numbered m ON m.no = b.no
