"""Tables of company lists: the newest version of each list, and every line of it."""

from __future__ import annotations

from firmlake.tables.schemas.shape import Column, Table

__all__ = ["TABLES_OF_COMPANY_LISTS"]

_LIST = Column("list_name", "text", "Name of the list: its file name without the ending, or as given by --list-name")

TABLES_OF_COMPANY_LISTS = (
    Table(
        "company_lists",
        "One row for each company list that was run under a name, for its newest version",
        ("list_name",),
        (
            _LIST,
            Column("file_name", "text", "Name of the file that was read; joins list_name in runs"),
            Column("column_names", "json", "Names of the columns of the file that were kept, in its order"),
            Column("line_count", "count", "Lines after the header, blank ones included"),
            Column("company_count", "count", "Companies in it, each counted once"),
            Column("content_hash", "text", "Hash of all lines; another hash means another version of the list"),
            Column("listed_at", "timestamp", "When the last run over the list was planned, UTC"),
            Column("run_id", "text", "Last run over the list"),
        ),
        volatile=("listed_at", "run_id"),
    ),
    Table(
        "list_members",
        "One row for each line of a company list, in the newest version of the list",
        ("list_name", "line"),
        (
            _LIST,
            Column("line", "integer", "Line in the file that was read (row of a sheet), titles counted; 1 first"),
            Column("country", "text", "Country of the company: BE, NL or FR", "the line names no company"),
            Column(
                "company_number",
                "text",
                "Company number in normal form",
                "the line names no company",
                privacy="company",
            ),
            Column(
                "status",
                "text",
                "accepted; repeated: an earlier line names the same company; refused: the line names no company; blank",
            ),
            Column("reason", "text", "Why the line was refused, or what was repaired", "neither"),
            Column(
                "given",
                "text",
                "The number as written in the file, or the whole line if it could not be split into fields",
                "not kept, by intake.keep_columns",
                privacy="text",
            ),
            Column("columns", "json", "The cells of the line as text, by column name", privacy="text"),
            Column("run_id", "text", "First run whose list had the line in its present state"),
        ),
        # A new line at the top moves all that follow, which is no change of these.
        volatile=("line",),
    ),
)
