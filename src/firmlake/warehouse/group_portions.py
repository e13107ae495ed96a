"""Groups of all companies, followed portion by portion, since heads and members can form far more pairs than companies.

The macro `groups` follows all of them at once, and DuckDB cannot spill a recursive query.
"""

# ruff: noqa: S608 - statements are put together from texts of this module

from __future__ import annotations

import duckdb

__all__ = ["gather_owners", "measure_groups", "number_groups"]

_START = 8192
"""Parties from which the paths of a portion start."""


def number_groups(connection: duckdb.DuckDBPyConnection) -> None:
    """Number the parties of groups, and create temporary tables of stakes, heads and companies by number.

    Raises:
        duckdb.CatalogException: An earlier version made the generation.
    """
    connection.execute(_NUMBERS)


def gather_owners(connection: duckdb.DuckDBPyConnection, companies: str) -> None:
    """Create a temporary table that takes the place of the view `ultimate_owners`, for some companies.

    Args:
        connection: A generation after `number_groups`.
        companies: A query for country and company_number.

    Raises:
        duckdb.OutOfMemoryException: The owners of a single company need more memory than the limit.
    """
    connection.execute(_NO_OWNERS)
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE group_asked AS SELECT no FROM group_companies SEMI JOIN ({companies}) "
        "USING (country, company_number)"
    )
    _in_portions(connection, "group_asked", _OWNERS)


def measure_groups(connection: duckdb.DuckDBPyConnection, largest: int) -> None:
    """Create the temporary tables `group_sizes` and `members`.

    `group_sizes` has a row for each head: head_id, is_ring, member_count. `members` has the rows of `groups(0.5)` for
    the largest groups.

    Args:
        connection: A generation.
        largest: Number of groups in `members`; of equal groups, those whose heads have the first ids.

    Raises:
        duckdb.OutOfMemoryException: A single group needs more memory than the limit.
    """
    number_groups(connection)
    connection.execute("CREATE OR REPLACE TEMP TABLE group_counts (no INTEGER, member_count BIGINT)")
    _in_portions(connection, "group_tops", _COUNTS)
    connection.execute(_SIZES)
    connection.execute(_MEMBERS, [largest])


# ---------------------------------------------------------------------------------------------------------------------

# Numbers take a fifth of the memory that ids take.
_NUMBERS = """
    CREATE OR REPLACE TEMP TABLE group_held AS
        SELECT parent_id, child_id FROM shareholdings WHERE stake >= 0.5 AND parent_id <> child_id;
    CREATE OR REPLACE TEMP TABLE group_parties AS
        SELECT row_number() OVER ()::INTEGER AS no, id
        FROM (SELECT parent_id AS id FROM group_held UNION SELECT child_id FROM group_held);
    CREATE OR REPLACE TEMP TABLE group_edges AS
        SELECT p.no AS parent, c.no AS child
        FROM group_held h JOIN group_parties p ON p.id = h.parent_id JOIN group_parties c ON c.id = h.child_id;
    CREATE OR REPLACE TEMP TABLE group_tops AS
        SELECT no, is_ring, id, p.name, p.country || ' ' || p.company_number AS number
        FROM group_heads(0.5) JOIN group_parties USING (id) JOIN parties p USING (id);
    CREATE OR REPLACE TEMP TABLE group_companies AS
        SELECT no, country, company_number FROM group_parties JOIN companies ON country || company_number = id;
    DROP TABLE group_held
"""
_NO_OWNERS = """
    CREATE OR REPLACE TEMP TABLE ultimate_owners (
        id VARCHAR, ultimate_parent VARCHAR, ultimate_parent_company VARCHAR
    )
"""
_OWNERS = """
    WITH RECURSIVE above(origin, no) AS (
        SELECT no, no FROM {start}
        UNION
        SELECT a.origin, e.parent FROM above a JOIN group_edges e ON e.child = a.no
    ), named AS (
        SELECT a.origin,
            string_agg(DISTINCT t.name, '; ' ORDER BY t.name) AS ultimate_parent,
            string_agg(DISTINCT t.number, '; ' ORDER BY t.number) AS ultimate_parent_company
        FROM above a JOIN group_tops t USING (no)
        WHERE a.origin <> a.no
        GROUP BY a.origin
    )
    INSERT INTO ultimate_owners
    SELECT p.id, n.* EXCLUDE (origin) FROM named n JOIN group_parties p ON p.no = n.origin
"""
_COUNTS = """
    WITH RECURSIVE below(head, no) AS (
        SELECT no, no FROM {start}
        UNION
        SELECT b.head, e.child FROM below b JOIN group_edges e ON e.parent = b.no
    )
    INSERT INTO group_counts SELECT head, count(*) FROM below GROUP BY head
"""
_SIZES = """
    CREATE OR REPLACE TEMP TABLE group_sizes AS
    SELECT id AS head_id, is_ring, member_count FROM group_counts JOIN group_tops USING (no)
"""
_MEMBERS = """
    CREATE OR REPLACE TEMP TABLE members AS
    WITH RECURSIVE below(head_id, is_ring, no) AS (
        SELECT id, is_ring, no FROM group_tops
        SEMI JOIN (FROM group_sizes ORDER BY member_count DESC, head_id LIMIT ?) s ON s.head_id = id
        UNION
        SELECT b.head_id, b.is_ring, e.child FROM below b JOIN group_edges e ON e.parent = b.no
    )
    SELECT head_id, is_ring, id FROM below JOIN group_parties USING (no)
"""


def _in_portions(connection: duckdb.DuckDBPyConnection, table: str, sql: str) -> None:
    """Run a statement for each portion of a table's numbers; halve a portion that needs too much memory."""
    ((count,),) = connection.execute(f"SELECT count(*) FROM {table}").fetchall()
    portions = count // _START + 1
    left = [(portions, rest) for rest in range(portions)]
    while left:
        divisor, rest = left.pop()
        try:
            connection.execute(sql.format(start=f"{table} WHERE no % {divisor} = {rest}"))
        except duckdb.OutOfMemoryException:
            if divisor > count:
                raise
            left += [(2 * divisor, rest), (2 * divisor, rest + divisor)]
