"""Company lists as they were given: the newest version of each, and every line of it."""

from __future__ import annotations

from firmlake.tables.schemas.shape import Column, Table

__all__ = ["TABLES_OF_COMPANY_LISTS"]

_LIST = Column("list_name", "text", "Name of the list: that of its file without the ending, or as --list-name says")

TABLES_OF_COMPANY_LISTS = (
    Table(
        "company_lists",
        "One row for each company list that was run under a name, as its newest version stands",
        ("list_name",),
        (
            _LIST,
            Column("file_name", "text", "Name of the file"),
            Column("column_names", "json", "Names of the columns of the file that were kept, in its order"),
            Column("line_count", "count", "Lines after the header, blank ones included"),
            Column("company_count", "count", "Companies in it, each counted once"),
            Column("content_hash", "text", "Hash of all lines; another one is another version of the list"),
            Column("listed_at", "timestamp", "When the last run over the list was planned, UTC"),
            Column("run_id", "text", "Last run over the list"),
        ),
        volatile=("listed_at", "run_id"),
    ),
    Table(
        "list_members",
        "One row for each line of a company list, as the newest version of the list has it",
        ("list_name", "line"),
        (
            _LIST,
            Column("line", "integer", "Line in the file (row of a sheet), 1 first"),
            Column("country", "text", "Country of the company: BE, NL or FR", "the line names no company"),
            Column("company_number", "text", "Company number in normal form", "the line names no company"),
            Column(
                "status",
                "text",
                "accepted; repeated: an earlier line names the same company; refused: it names none; blank",
            ),
            Column("reason", "text", "Why the line was refused, or what was repaired", "neither"),
            Column(
                "given",
                "text",
                "The number as it stands in the file, or the line itself where its fields cannot be told",
                "not kept, as intake.keep_columns wants it",
            ),
            Column("columns", "json", "The cells of the line by the name of their column, as text"),
            Column("run_id", "text", "Run whose list first had the line as it stands"),
        ),
        # One line more at the top moves all that follow, and changes nothing about them.
        volatile=("line",),
    ),
)
