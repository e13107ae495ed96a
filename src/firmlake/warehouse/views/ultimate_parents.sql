-- macro ultimate_parents(of_country, of_number, threshold := 0.25)
-- example: ultimate_parents('BE', '0403227515', 0.25)
-- One row for each ultimate parent of a company: follow the owners upwards as long as each holds at least the threshold
-- (0.25 and 0.5 are usual; exactly the threshold counts), up to those that have no such owner. A company without such
-- an owner is its own ultimate parent. A ring at the top is represented by its first member by id. Persons and
-- unidentified owners count too, under their name.
--
-- id: Id of the ultimate parent, as parent_id in ownership
-- is_ring: Whether it represents a ring of companies that hold each other
-- effective_fraction: Stake of the ultimate parent in the company along all paths, 0 to 1, as in owners_of. Null: the
-- ultimate parent is the company itself
-- step_count: Number of steps on the shortest path. Null: the ultimate parent is the company itself
-- country: Country of the ultimate parent. Null: it has no identifier
-- company_number: Company number of the ultimate parent, in normal form. Null: it has no identifier
-- name: Name of the ultimate parent, or (unidentified). Null: the ultimate parent is the company itself, and its name
-- was not fetched yet
WITH asked(id) AS (
    SELECT company_asked(of_country, of_number)
),
tops AS (
    SELECT * FROM tops_of(of_country, of_number, threshold)
),
owners AS (
    SELECT * FROM owners_of(of_country, of_number)
)
SELECT
    a.id,
    CASE WHEN p.id IS NULL THEN c.country ELSE p.country END AS country,
    CASE WHEN p.id IS NULL THEN c.company_number ELSE p.company_number END AS company_number,
    coalesce(p.name, c.name) AS name,
    coalesce(p.kind, 'company') AS kind,
    a.is_ring,
    o.effective_fraction,
    o.step_count
FROM tops a
CROSS JOIN asked q
LEFT JOIN parties p ON p.id = a.id
LEFT JOIN companies c ON c.country = q.id[:2] AND c.company_number = q.id[3:]
LEFT JOIN owners o ON o.id = a.id
WHERE p.id IS NOT NULL OR c.country IS NOT NULL
