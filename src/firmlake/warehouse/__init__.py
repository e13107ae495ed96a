"""The warehouse: load staged tables into a DuckDB file, which analysts read while the next one is made."""
