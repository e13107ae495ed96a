-- view lookalike_graph
-- One row per company and each of its lookalikes: whether both name each other, and how many companies name the
-- lookalike.
--
-- name: Name of the company
-- lookalike_name: Name of the lookalike. Null: no run fetched it, or it was not found
-- is_mutual: Whether the lookalike names this company too. Null: the lookalikes of the lookalike are not held
-- reverse_rank: Rank of this company among the lookalikes of the lookalike. Null: it is not among them
-- in_degree: Number of held companies that name the lookalike; a high number means that it resembles many companies
SELECT
    l.country, l.company_number, c.name,
    l.rank, l.score,
    l.lookalike_country, l.lookalike_company_number,
    o.name AS lookalike_name,
    CASE
        WHEN back.rank IS NOT NULL THEN true
        WHEN held.status IN ('reported', 'empty') THEN false
    END AS is_mutual,
    back.rank AS reverse_rank,
    popular.in_degree
FROM lookalikes l
JOIN (
    SELECT lookalike_country, lookalike_company_number, count(*) AS in_degree FROM lookalikes GROUP BY ALL
) popular USING (lookalike_country, lookalike_company_number)
LEFT JOIN company_state held ON
    held.country = l.lookalike_country AND held.company_number = l.lookalike_company_number
    AND held.dataset = 'lookalikes'
LEFT JOIN (SELECT *, rowid AS no FROM companies_versions WHERE valid_to IS NULL) c
    ON c.country = l.country AND c.company_number = l.company_number
LEFT JOIN (SELECT *, rowid AS no FROM companies_versions WHERE valid_to IS NULL) o
    ON o.country = l.lookalike_country AND o.company_number = l.lookalike_company_number
LEFT JOIN (
    -- By row number, since countries and company numbers of all pairs do not fit in memory.
    SELECT a.rowid AS no, b.rowid AS lookalike_no, p.rank
    FROM lookalikes p
    JOIN companies_versions a USING (country, company_number)
    JOIN companies_versions b ON b.country = p.lookalike_country AND b.company_number = p.lookalike_company_number
    WHERE a.valid_to IS NULL AND b.valid_to IS NULL
) back ON back.no = o.no AND back.lookalike_no = c.no
