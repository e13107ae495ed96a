-- macro ultimate_parents(of_country, of_number, threshold := 0.25)
-- example: ultimate_parents('BE', '0403227515', 0.25)
-- The ultimate parents of a company: follow owners upwards as long as each holds at least the threshold (0.25 and 0.5 are
-- usual; exactly half counts), up to those whose owners hold less. A company without such an owner is its own ultimate
-- parent. A ring at the top is represented by its first member by id. Persons and unidentified owners count too, under
-- their name.
--
-- id: Ultimate parent, as parent_id in ownership
-- is_ring: Whether it represents a ring of companies that hold each other
-- effective_fraction: Its stake in the company along all paths, as in owners_of. Null: it is the company itself
-- step_count: Steps of the shortest path. Null: it is the company itself
WITH RECURSIVE asked(country, company_number, id, least_stake) AS (
    SELECT of_country, of_number, of_country || of_number, threshold
),
owners AS (
    SELECT * FROM owners_of(of_country, of_number)
),
held AS MATERIALIZED (
    SELECT parent_id, child_id FROM shareholdings JOIN asked ON stake >= least_stake WHERE parent_id <> child_id
),
above(id) AS (
    SELECT id FROM asked
    UNION
    SELECT h.parent_id FROM above a JOIN held h ON h.child_id = a.id
),
within AS MATERIALIZED (
    SELECT h.* FROM held h SEMI JOIN above a ON h.child_id = a.id
),
below(id, descendant_id) AS (
    SELECT parent_id, child_id FROM within
    UNION
    SELECT b.id, w.child_id FROM below b JOIN within w ON w.parent_id = b.descendant_id
),
-- An ultimate parent is held only by companies that it holds itself, which form its ring; the first of them is taken.
beaten AS (
    SELECT b.descendant_id AS id
    FROM below b
    LEFT JOIN below back ON back.id = b.descendant_id AND back.descendant_id = b.id
    WHERE back.id IS NULL OR b.id < b.descendant_id
)
SELECT
    a.id,
    CASE WHEN p.id IS NULL THEN q.country ELSE p.country END AS country,
    CASE WHEN p.id IS NULL THEN q.company_number ELSE p.company_number END AS company_number,
    coalesce(p.name, c.name) AS name,
    coalesce(p.kind, 'company') AS kind,
    a.id IN (SELECT id FROM below WHERE id = descendant_id) AS is_ring,
    o.effective_fraction,
    o.step_count
FROM above a
CROSS JOIN asked q
LEFT JOIN parties p ON p.id = a.id
LEFT JOIN companies c ON c.country = q.country AND c.company_number = q.company_number
LEFT JOIN owners o ON o.id = a.id
WHERE a.id NOT IN (SELECT id FROM beaten)
