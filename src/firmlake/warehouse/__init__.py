"""Staged tables become a DuckDB file that analysts read while the next one is made."""
