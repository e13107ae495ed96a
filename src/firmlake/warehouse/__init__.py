"""The warehouse: load staged tables into a DuckDB file that analysts read while the next one is made."""
