-- check ownership_ring, note
-- Three to six companies hold shares in a ring, each of the next. The ring is listed under its first company by id,
-- once for each company that leads back to it, on the shortest path. Two companies that hold each other are a
-- cross_holding.
SELECT country, company_number, NULL::DATE AS start_date, NULL::DATE AS end_date,
    {ring: ring, company_count: company_count} AS evidence
FROM ownership_rings
