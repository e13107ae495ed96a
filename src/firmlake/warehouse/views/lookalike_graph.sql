-- view lookalike_graph
-- One row for each company and company similar to it: whether they name each other, and how many name the similar one.
--
-- name: Name of the company
-- lookalike_name: Name of the similar company. Null: it is on none of our lists, or not found
-- is_mutual: Whether the similar company names this one too. Null: its lookalikes are not held
-- reverse_rank: Rank of this company among the lookalikes of the similar one. Null: it is not among them
-- in_degree: Number of held companies that name the similar one; a high number means that it resembles everybody
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
LEFT JOIN lookalikes back ON
    back.country = l.lookalike_country AND back.company_number = l.lookalike_company_number
    AND back.lookalike_country = l.country AND back.lookalike_company_number = l.company_number
LEFT JOIN company_state held ON
    held.country = l.lookalike_country AND held.company_number = l.lookalike_company_number
    AND held.dataset = 'lookalikes'
LEFT JOIN companies c ON c.country = l.country AND c.company_number = l.company_number
LEFT JOIN companies o ON o.country = l.lookalike_country AND o.company_number = l.lookalike_company_number
