-- name: postgres_lock
-- The number is "firmla".
SELECT pg_try_advisory_lock(x'726D6C61'::int, hashtext({text}))
-- name: postgres_schema
SELECT 1 FROM information_schema.schemata WHERE schema_name = {text}
-- name: duckdb_files
-- There is none for `:memory:`, for a CSV, JSON or Parquet file, which DuckDB reads through a database in memory, and for a
-- database of another kind, such as SQLite, which it opens by an extension.
SELECT path FROM duckdb_databases() WHERE path IS NOT NULL AND type = 'duckdb'
-- name: duckdb_version
SELECT rtrim(tags['storage_version'], '+') FROM duckdb_databases() WHERE database_name = 'held'
