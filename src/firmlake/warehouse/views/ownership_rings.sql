-- view ownership_rings
-- One row for each ring of three to six companies, each of which holds shares of the next. A ring is listed under its
-- first company by id, once for each company that leads back to it, on the shortest path. Two companies that hold each
-- other are a cross-holding, not a ring.
--
-- ring: Ids of the companies, as in ownership: each owns shares of the next, and the last owns shares of the first
-- country: Country of the company under which the ring is listed
-- company_number: Company number of the company under which the ring is listed, in normal form
-- company_count: Number of companies in the ring
WITH RECURSIVE held AS MATERIALIZED (
    SELECT DISTINCT parent_id, child_id FROM ownership WHERE "function" = 'SHAREHOLDER' AND parent_id <> child_id
),
-- Companies without owner or holding are in no ring, and so are those whose owners or holdings are all in no ring.
between AS MATERIALIZED (
    SELECT h.* FROM held h SEMI JOIN held upper ON upper.child_id = h.parent_id
        SEMI JOIN held lower ON lower.parent_id = h.child_id
),
inner_held AS MATERIALIZED (
    SELECT b.* FROM between b SEMI JOIN between upper ON upper.child_id = b.parent_id
        SEMI JOIN between lower ON lower.parent_id = b.child_id
),
walk(first_id, id, way) USING KEY (first_id, id) AS (
    SELECT parent_id, child_id, [parent_id, child_id] FROM inner_held WHERE child_id > parent_id
    UNION
    SELECT w.first_id, h.child_id, list_append(min(w.way), h.child_id)
    FROM walk w
    JOIN inner_held h ON h.parent_id = w.id
    LEFT JOIN recurring.walk known ON known.first_id = w.first_id AND known.id = h.child_id
    WHERE h.child_id > w.first_id AND len(w.way) < 6 AND known.id IS NULL
    GROUP BY w.first_id, h.child_id
)
SELECT p.country, p.company_number, w.way AS ring, len(w.way) AS company_count
FROM walk w
JOIN inner_held h ON h.parent_id = w.id AND h.child_id = w.first_id
JOIN parties p ON p.id = w.first_id
WHERE len(w.way) > 2
