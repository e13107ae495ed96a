-- name: relations
SELECT table_name AS name, comment FROM duckdb_tables() WHERE schema_name = 'main' AND NOT temporary
UNION ALL
SELECT if(schema_name = 'lists', 'lists."' || view_name || '"', view_name), comment FROM duckdb_views()
WHERE schema_name IN ('main', 'lists') AND NOT internal AND NOT temporary
UNION ALL
SELECT DISTINCT function_name || '(' || array_to_string(parameters, ', ') || ')', comment FROM duckdb_functions()
WHERE function_type = 'table_macro' AND comment IS NOT NULL
ORDER BY ALL

-- name: columns
SELECT column_name AS name, data_type AS type, comment FROM duckdb_columns()
WHERE NOT internal AND if(schema_name = 'lists', 'lists.' || table_name, table_name) = replace(?, '"', '')
ORDER BY column_index
