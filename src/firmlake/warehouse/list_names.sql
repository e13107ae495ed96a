-- name: overview
SELECT list_name, file_name, line_count, company_count, listed_at, run_id FROM company_lists ORDER BY list_name

-- name: problems
SELECT line, given, status, reason FROM list_lines
WHERE list_name = ? AND status IN ('refused', 'not found', 'failed') ORDER BY line LIMIT ?

-- name: moves
SELECT move, country, company_number, name FROM list_moves WHERE list_name = $name
AND generation = (SELECT max(generation) FROM list_moves WHERE list_name = $name)
ORDER BY ALL

-- name: listed
CREATE TEMP TABLE listed AS
SELECT DISTINCT country, company_number FROM list_members WHERE list_name = ? AND company_number IS NOT NULL

-- name: of_companies
-- Tables of list lines are not restricted, so that a query can use other lists too. Nor are ownership and parties, because
-- the owners of listed companies need not be listed; of the views over these, those about a company are restricted.
SELECT database_name, table_name FROM duckdb_tables()
SEMI JOIN (SELECT database_name, table_name FROM duckdb_columns() WHERE column_name = 'company_number')
    USING (database_name, table_name)
WHERE NOT temporary AND schema_name = 'main' AND table_name NOT LIKE 'list_members%'
    AND table_name <> 'parties'
UNION ALL
SELECT database_name, view_name FROM duckdb_views() v
SEMI JOIN (
    SELECT database_name, table_name FROM duckdb_columns() WHERE column_name IN ('country', 'company_number')
    GROUP BY ALL HAVING count(*) = 2
) c ON c.database_name = v.database_name AND c.table_name = v.view_name
WHERE NOT temporary AND schema_name = 'main' AND sql LIKE '%ownership%'
