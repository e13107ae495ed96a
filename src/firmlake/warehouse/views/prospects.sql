-- macro prospects(seed_table, n := 20, known_table := 'nobody', without_hubs := false)
-- example: prospects('companies', 20)
-- The n companies most similar to a set of customers, the seeds. Candidates are the lookalikes of the seeds, ordered by
-- the sum of their scores over all seeds that name them; seeds and known companies are left out. seed_table and
-- known_table need the columns country and company_number; they may be your own, attached or temporary tables. Hubs,
-- which resemble everybody, come first by the sum; without_hubs := true orders by weighted_score instead.
--
-- prospect_rank: 1 for the most similar
-- country: Country of the prospect
-- company_number: Company number of the prospect, in normal form
-- name: Name of the prospect. Null: no run fetched it, or it was not found
-- score_sum: Sum of the scores of the prospect over the seeds that name it, to six decimals. Null: no score is stated
-- weighted_score: score_sum divided by ln(2 + in_degree), where in_degree is the number of held companies that name the
-- prospect, to six decimals. Null: no score is stated
-- seed_count: Number of seeds that name the prospect
-- best_score: Highest score of the prospect with a single seed. Null: no score is stated
-- seeds: Seeds that name the prospect, the most similar first, as country and company number
-- is_held: Whether the warehouse holds accounts of the prospect
WITH asked AS (
    SELECT n AS row_limit, without_hubs AS is_weighted
),
-- The seeds of all candidates would be long lists; only those of the first n are put together. Read twice, since keeping
-- all rows would take longer.
named AS NOT MATERIALIZED (
    SELECT l.*
    FROM lookalikes l
    SEMI JOIN query_table(list_or_table(seed_table)) seed ON seed.country = l.country AND seed.company_number = l.company_number
),
first AS MATERIALIZED (
    SELECT
        row_number() OVER (
            ORDER BY CASE WHEN is_weighted THEN weighted_score ELSE score_sum END DESC, seed_count DESC, lookalike_country, lookalike_company_number
        ) AS prospect_rank,
        *
    FROM asked
    CROSS JOIN (
        SELECT
            l.lookalike_country, l.lookalike_company_number,
            round(sum(l.score), 6) AS score_sum,
            round(sum(l.score) / ln(2 + any_value(popular.in_degree)), 6) AS weighted_score,
            count(*) AS seed_count,
            max(l.score) AS best_score
        FROM named l
        JOIN (
            SELECT lookalike_country, lookalike_company_number, count(*) AS in_degree FROM lookalikes GROUP BY ALL
        ) popular USING (lookalike_country, lookalike_company_number)
        GROUP BY l.lookalike_country, l.lookalike_company_number
    ) l
    ANTI JOIN query_table(list_or_table(seed_table)) own
        ON own.country = l.lookalike_country AND own.company_number = l.lookalike_company_number
    ANTI JOIN query_table(list_or_table(known_table)) known
        ON known.country = l.lookalike_country AND known.company_number = l.lookalike_company_number
    QUALIFY prospect_rank <= row_limit
)
SELECT
    prospect_rank,
    found.lookalike_country AS country, found.lookalike_company_number AS company_number, c.name,
    score_sum, weighted_score, seed_count, best_score, seeds,
    coalesce(s.status = 'reported', false) AS is_held
FROM first found
JOIN (
    SELECT
        lookalike_country, lookalike_company_number,
        list(country || ' ' || company_number ORDER BY score DESC, country, company_number) AS seeds
    FROM named
    SEMI JOIN first USING (lookalike_country, lookalike_company_number)
    GROUP BY lookalike_country, lookalike_company_number
) named_by USING (lookalike_country, lookalike_company_number)
LEFT JOIN companies c
    ON c.country = found.lookalike_country AND c.company_number = found.lookalike_company_number
LEFT JOIN company_state s
    ON s.country = found.lookalike_country AND s.company_number = found.lookalike_company_number AND s.dataset = 'financials'
ORDER BY prospect_rank
