-- name: staged_list
CREATE OR REPLACE TEMP TABLE staged_list AS
SELECT $name AS list_name, $file AS file_name, $columns::JSON AS column_names, count(*) AS line_count,
       count(DISTINCT country || company_number) AS company_count, $hash AS content_hash,
       $at::TIMESTAMP AS listed_at, $run AS run_id
FROM read_parquet({lines})

-- name: staged_members
CREATE OR REPLACE TEMP VIEW staged_lines AS
SELECT {name} AS list_name, line, country, company_number,
       if(status = 'accepted' AND row_number() OVER (PARTITION BY country, company_number ORDER BY line) > 1,
          'repeated', status) AS status,
       reason, given, columns::JSON AS columns, {run} AS run_id
FROM read_parquet({lines})

-- name: view
-- A view, so that it shows figures fetched by later runs without loading the list again.
SELECT l.* EXCLUDE (list_name, columns), f.* EXCLUDE (country, company_number), l.columns
FROM list_lines l LEFT JOIN company_figures f USING (country, company_number)
WHERE l.list_name = {name} ORDER BY l.line

-- name: comments
SELECT column_name, any_value(comment ORDER BY table_name DESC) FROM duckdb_columns()
WHERE schema_name = 'main' AND table_name IN ('list_lines', 'company_figures') AND column_name <> 'list_name'
GROUP BY ALL ORDER BY ALL

-- name: held_version
SELECT company_count, (SELECT count(*) FROM list_members m WHERE m.list_name = l.list_name AND status = 'refused')
FROM company_lists l WHERE lower(list_name) = lower(?)
