"""Marks in a generation: hashes of the definitions that its tables and views were made from.

A generation starts as a copy of the previous one. If its mark matches the current definitions, its relations need not
be made again, which would take longer than loading a few thousand companies.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from hashlib import sha256

import duckdb

__all__ = ["Mark"]


class Mark:
    """A scalar macro that returns the hash of definitions."""

    def __init__(self, name: str, definitions: Callable[[], object]) -> None:
        """Name a mark.

        Args:
            name: Name of the macro.
            definitions: Returns everything that the relations are made from; called when a generation is first opened.
                Equal definitions have an equal `repr`.
        """
        self.name = name
        self._definitions = definitions

    @property
    def meaning(self) -> str:
        """The comment of the macro."""
        return "Hash of the definitions from which firmlake made this database; it makes them again when they differ."

    def is_set(self, connection: duckdb.DuckDBPyConnection) -> bool:
        """Return whether the last commit of a generation was made from these definitions by this version of DuckDB."""
        with connection.cursor() as apart:  # an unknown name aborts the transaction that uses it
            try:
                ((found,),) = apart.execute(f"SELECT {self.name}()").fetchall()
            except duckdb.CatalogException:
                return False
        return bool(found == self._hash)

    def set(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Mark the generation as made from these definitions."""
        connection.execute(f"CREATE OR REPLACE MACRO {self.name}() AS '{self._hash}'")
        connection.execute(f"COMMENT ON MACRO {self.name} IS '{self.meaning}'")

    def remove(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Remove the mark, so that everything is made again: the generation now differs from its definitions."""
        connection.execute(f"DROP MACRO IF EXISTS {self.name}")

    @cached_property
    def _hash(self) -> str:
        return sha256(repr((duckdb.__version__, self._definitions())).encode()).hexdigest()
