-- name: postgres_columns
-- Of tables, views and foreign tables.
SELECT relname, attname, format_type(atttypid, atttypmod)
FROM pg_attribute JOIN pg_class c ON c.oid = attrelid JOIN pg_namespace n ON n.oid = relnamespace
WHERE nspname = {text} AND attnum > 0 AND NOT attisdropped AND relkind IN ('r', 'p', 'v', 'm', 'f')
ORDER BY attnum
-- name: postgres_lock
-- The number is "firmla".
SELECT pg_try_advisory_lock(x'726D6C61'::int, hashtext({text}))
-- name: postgres_schema
SELECT 1 FROM information_schema.schemata WHERE schema_name = {text}
-- name: duckdb_columns
SELECT table_name, column_name, replace(data_type, 'TIMESTAMP WITH TIME ZONE', 'TIMESTAMPTZ')
FROM duckdb_columns() WHERE schema_name = {text} ORDER BY column_index
-- name: duckdb_files
-- There is none for `:memory:`, for a CSV, JSON or Parquet file, which DuckDB reads through a database in memory, and for a
-- database of another kind, such as SQLite, which it opens by an extension.
SELECT path FROM duckdb_databases() WHERE path IS NOT NULL AND type = 'duckdb'
-- name: duckdb_version
SELECT rtrim(tags['storage_version'], '+') FROM duckdb_databases() WHERE database_name = 'held'
-- name: snowflake_columns
SELECT LOWER(table_name), LOWER(column_name),
       data_type || COALESCE('(' || numeric_precision || ',' || numeric_scale || ')', '')
FROM information_schema.columns WHERE LOWER(table_schema) = LOWER({text}) ORDER BY table_name, ordinal_position
-- name: bigquery_columns
SELECT table_name, column_name, data_type FROM {schema}.INFORMATION_SCHEMA.COLUMNS ORDER BY table_name, ordinal_position
