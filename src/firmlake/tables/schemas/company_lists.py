"""Tables of company lists: the newest version of each list, and every line of it."""

from __future__ import annotations

from firmlake.tables.schemas.shape import Column, Table
from firmlake.tables.schemas.shared import LINE

__all__ = ["TABLES_OF_COMPANY_LISTS"]

_LIST = Column(
    "list_name", "text", "Name of the list: its file name without the ending, or the name given with --list-name"
)

TABLES_OF_COMPANY_LISTS = (
    Table(
        "company_lists",
        "One row for each company list that was run, in its newest version",
        ("list_name",),
        (
            _LIST,
            Column("file_name", "text", "Name of the file that the list was read from; joins list_name in runs"),
            Column("column_names", "json", "Names of the columns that were kept, in the order of the file"),
            Column("line_count", "count", "Number of lines after the header, blank lines included"),
            Column("company_count", "count", "Companies in the list, each counted once"),
            Column("content_hash", "text", "Hash of all lines; a different hash means a different version of the list"),
            Column("listed_at", "timestamp", "Time at which the last run of the list was planned, UTC"),
            Column("run_id", "text", "Last run of the list"),
        ),
        volatile=("listed_at", "run_id"),
    ),
    Table(
        "list_members",
        "One row for each line of a company list, in the newest version of the list",
        ("list_name", "line"),
        (
            _LIST,
            LINE,
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
                "accepted: the line names a company; repeated: an earlier line names the same company; refused: the "
                "line names no usable company; blank: the line is empty",
            ),
            Column(
                "reason", "text", "Why the line was refused, or how its company number was repaired", "neither applies"
            ),
            Column(
                "given",
                "text",
                "Company number as written in the file, or the whole line if it could not be split into fields",
                "not kept, because of intake.keep_columns",
                privacy="text",
            ),
            Column("columns", "json", "The cells of the line as text, by column name", privacy="text"),
            Column("run_id", "text", "First run whose list had the line with these values"),
        ),
        # A new line at the top moves all that follow. That does not change them.
        volatile=("line",),
    ),
)
