-- view list_moves
-- One row per company that joined or left a company list between two versions of it. The companies of the first
-- version do not count as joined.
--
-- generation: Number of the generation of the warehouse that first shows the move
-- run_id: Run of the list that first shows the move
-- move: What the company did: joined or left
-- country: Country of the company: BE, NL or FR
-- company_number: Company number in normal form. Personal data if the company is a sole trader
WITH began AS (
    SELECT run_id, min(generation) AS generation FROM loads GROUP BY run_id
),
spans AS (
    SELECT m.list_name, m.country, m.company_number, f.generation AS since, u.generation AS until
    FROM (
        SELECT list_name, country, company_number, valid_from_run, NULL AS valid_to_run FROM list_members
        UNION ALL
        SELECT list_name, country, company_number, valid_from_run, valid_to_run FROM list_members_history
    ) m
    JOIN began f ON f.run_id = m.valid_from_run
    LEFT JOIN began u ON u.run_id = m.valid_to_run
    WHERE m.company_number IS NOT NULL
),
firsts AS (
    SELECT list_name, min(since) AS first_generation FROM spans GROUP BY list_name
),
moves AS (
    SELECT DISTINCT list_name, country, company_number, since AS generation, 'joined' AS move
    FROM spans a
    JOIN firsts USING (list_name)
    WHERE since > first_generation AND NOT EXISTS (
        FROM spans b
        WHERE (b.list_name, b.country, b.company_number) = (a.list_name, a.country, a.company_number)
        AND b.since < a.since AND (b.until IS NULL OR b.until >= a.since)
    )
    UNION ALL
    SELECT DISTINCT list_name, country, company_number, until, 'left'
    FROM spans a
    WHERE until IS NOT NULL AND NOT EXISTS (
        FROM spans b
        WHERE (b.list_name, b.country, b.company_number) = (a.list_name, a.country, a.company_number)
        AND b.since <= a.until AND (b.until IS NULL OR b.until > a.until)
    )
)
SELECT m.list_name, m.generation, l.run_id, m.move, m.country, m.company_number, c.name
FROM moves m
JOIN began l USING (generation)
LEFT JOIN companies c USING (country, company_number)
