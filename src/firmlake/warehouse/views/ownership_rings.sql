-- view ownership_rings
-- One row per ring of three to six companies, each of which holds shares of the next. A ring is listed under its
-- first company by id, once for each company that leads back to it, on the shortest path. Two companies that hold each
-- other are a cross-holding, not a ring.
--
-- ring: Ids of the companies, as in ownership: each owns shares of the next, and the last owns shares of the first
-- country: Country of the company under which the ring is listed
-- company_number: Company number of the company under which the ring is listed, in normal form
-- company_count: Number of companies in the ring
WITH RECURSIVE held AS MATERIALIZED (
    SELECT DISTINCT p.no AS parent_no, c.no AS child_no
    FROM ownership
    JOIN parties p ON p.id = parent_id
    JOIN parties c ON c.id = child_id
    WHERE "function" = 'SHAREHOLDER' AND parent_id <> child_id
),
-- Companies without owner or holding are in no ring, and so are those whose owners or holdings are all in no ring.
between AS MATERIALIZED (
    SELECT h.* FROM held h SEMI JOIN held upper ON upper.child_no = h.parent_no
        SEMI JOIN held lower ON lower.parent_no = h.child_no
),
inner_held AS MATERIALIZED (
    SELECT b.* FROM between b SEMI JOIN between upper ON upper.child_no = b.parent_no
        SEMI JOIN between lower ON lower.parent_no = b.child_no
),
walk(first_no, no, way) USING KEY (first_no, no) AS (
    SELECT parent_no, child_no, [parent_no, child_no] FROM inner_held WHERE child_no > parent_no
    UNION
    SELECT w.first_no, h.child_no, list_append(min(w.way), h.child_no)
    FROM walk w
    JOIN inner_held h ON h.parent_no = w.no
    LEFT JOIN recurring.walk known ON known.first_no = w.first_no AND known.no = h.child_no
    WHERE h.child_no > w.first_no AND len(w.way) < 6 AND known.no IS NULL
    GROUP BY w.first_no, h.child_no
),
rings AS MATERIALIZED (
    SELECT way
    FROM walk w JOIN inner_held h ON h.parent_no = w.no AND h.child_no = w.first_no
    WHERE len(way) > 2
),
named AS (
    SELECT way, list(id ORDER BY place) AS ring
    FROM (SELECT way, unnest(way) AS no, generate_subscripts(way, 1) AS place FROM rings) JOIN parties USING (no)
    GROUP BY way
)
SELECT p.country, p.company_number, ring, len(ring) AS company_count
FROM named JOIN parties p ON p.id = ring[1]
