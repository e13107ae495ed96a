-- macro ultimate_parents(of_country, of_number, threshold := 0.25)
-- example: ultimate_parents('BE', '0403227515', 0.25)
-- One row per ultimate parent of a company: follow the owners upwards as long as each holds at least the threshold
-- (exactly the threshold counts), up to those that have no such owner. A company without such an owner is its own
-- ultimate parent. A ring at the top is represented by its first member by id. Persons and unidentified owners count
-- too, under their name.
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
tops AS MATERIALIZED (
    SELECT * FROM tops_of(of_country, of_number, threshold)
),
owners AS (
    SELECT * FROM owners_of(of_country, of_number)
),
named AS MATERIALIZED (
    SELECT p.* FROM parties p SEMI JOIN tops t USING (no)
    UNION ALL
    SELECT t.no, q.id, c.country, c.company_number, c.name, 'company'
    FROM tops t CROSS JOIN asked q
    JOIN companies c ON c.country = q.id[:2] AND c.company_number = q.id[3:]
    WHERE t.no = 0
)
SELECT p.* EXCLUDE (no), t.is_ring, o.effective_fraction, o.step_count
FROM tops t JOIN named p USING (no) LEFT JOIN owners o USING (id)
