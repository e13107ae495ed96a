-- name: states
-- An empty hash means that the company was not found; null means that there was never an answer.
CREATE OR REPLACE TEMP VIEW states AS
SELECT country, company_number, dataset, true AS is_before, payload_hash <> '' AS is_found
FROM (FROM company_state_versions WHERE valid_from < {number} AND coalesce(valid_to >= {number}, true))
SEMI JOIN changed USING (country, company_number)
UNION ALL
SELECT country, company_number, dataset, false, payload_hash <> ''
FROM company_state SEMI JOIN changed USING (country, company_number)

-- name: watched
-- For a company that returned, `gone_in` is the run that found it gone and closed its last rows.
CREATE OR REPLACE TEMP TABLE presence AS
SELECT country, company_number,
       coalesce(bool_or(is_found) FILTER (is_before), false) AS was_found,
       coalesce(bool_or(is_found) FILTER (NOT is_before), false) AS is_found
FROM states GROUP BY country, company_number;
CREATE OR REPLACE TEMP TABLE gone AS
SELECT country, company_number, dataset, max(valid_to) AS gone_in
FROM company_state_versions
SEMI JOIN (FROM states WHERE is_before AND NOT is_found) USING (country, company_number, dataset)
WHERE payload_hash <> '' AND valid_to < {number}
GROUP BY ALL;
CREATE OR REPLACE TEMP TABLE watched AS
SELECT country, company_number, dataset, CASE WHEN NOT was_found THEN gone_in END AS gone_in
FROM changed
JOIN presence USING (country, company_number)
JOIN (SELECT country, company_number, dataset, NULL AS gone_in FROM states WHERE is_before AND is_found
      UNION ALL FROM gone) USING (country, company_number, dataset)
WHERE presence.is_found

-- name: rows_before
-- A first load has none.
SELECT (SELECT count(*) FROM watched) + (SELECT count(*) FROM companies_versions WHERE valid_to = {number})

-- name: after
CREATE OR REPLACE TEMP TABLE after_{table} AS
SELECT t.* FROM {table}_versions t SEMI JOIN (FROM watched WHERE dataset = '{dataset}') w
    USING (country, company_number)
WHERE valid_to IS NULL

-- name: before
CREATE OR REPLACE TEMP VIEW before_{table} AS
SELECT * FROM after_{table} WHERE valid_from < {number}
UNION ALL
SELECT t.*
FROM {table}_versions t SEMI JOIN (FROM watched WHERE dataset = '{dataset}') w USING (country, company_number)
WHERE valid_to = {number}
UNION ALL
SELECT t.*
FROM {table}_versions t
SEMI JOIN (FROM watched WHERE dataset = '{dataset}') w
    ON w.country = t.country AND w.company_number = t.company_number AND w.gone_in = t.valid_to

-- name: names
-- A name in another language does not count as changed.
CREATE OR REPLACE TEMP VIEW names_before AS
FROM (SELECT *, {run} AS opened_by FROM companies_versions WHERE valid_to = {number})
SEMI JOIN (FROM runs WHERE language = '{language}') r ON r.run_id = opened_by
WHERE fetched_at IS NOT NULL

-- name: none_yet
CREATE OR REPLACE TEMP TABLE events AS
SELECT * EXCLUDE (run_id, position), 0 AS kind_number FROM company_changes LIMIT 0

-- name: record
INSERT INTO company_changes BY NAME
SELECT * EXCLUDE (kind_number), ? AS run_id,
       row_number() OVER (
           PARTITION BY country, company_number
           ORDER BY kind_number, end_date DESC, start_date, dup_no, direction, related_country,
                    related_company_number, related_name, "function", old_value, new_value) - 1 AS position
FROM events
