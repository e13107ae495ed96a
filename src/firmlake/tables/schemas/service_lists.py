"""Tables of service lists: the newest overview, the changes of lists, and the contacts that were added."""

from __future__ import annotations

from firmlake.tables.schemas.shape import Column, Table
from firmlake.tables.schemas.shared import COMPANY, EXTRA, FETCHED, NOT_STATED, REQUEST

__all__ = ["TABLES_OF_SERVICE_LISTS"]

_LIST = Column("list_id", "integer", "Id of the list in the service")
_OVERVIEW = Column("run_id", "text", "Id of the overview that has this row, which begins with its start time in UTC")

TABLES_OF_SERVICE_LISTS = (
    Table(
        "service_lists",
        "One row for each list kept by the service, according to the newest overview: one complete reading of the "
        "lists",
        ("list_id",),
        (
            _LIST,
            Column("name", "text", "Name of the list", NOT_STATED, "service_lists data[].name", privacy="text"),
            Column("type", "text", "STATIC, SMART or a new type of the service", source="service_lists data[].type"),
            Column(
                "is_shared",
                "boolean",
                "Whether the list is shared with others",
                NOT_STATED,
                source="service_lists data[].shared",
            ),
            Column(
                "has_notifications",
                "boolean",
                "Whether notifications of changes are on",
                NOT_STATED,
                "service_lists data[].notifications.enabled",
            ),
            Column(
                "company_count",
                "count",
                "Number of companies in the list",
                NOT_STATED,
                "service_lists data[].amountOfCompanies",
            ),
            Column(
                "new_result_count",
                "count",
                "Number of new companies that the filters of a smart list found",
                "a static list has no filters",
                "service_lists data[].newResults",
            ),
            Column(
                "updated_at", "timestamp", "Time of the last update, UTC", NOT_STATED, "service_lists data[].updatedAt"
            ),
            Column("created_at", "timestamp", "Time of creation, UTC", NOT_STATED, "service_lists data[].createdAt"),
            Column(
                "created_by",
                "text",
                "Creator of the list: keyed hash of the e-mail address, or the address itself, as set by "
                "lists.created_by",
                "left out by lists.created_by, or " + NOT_STATED,
                "service_lists data[].createdBy",
                privacy="contact",
            ),
            EXTRA,
            FETCHED,
            _OVERVIEW,
        ),
        volatile=(),
    ),
    Table(
        "service_list_columns",
        "One row for each column that a list kept by the service shows",
        ("list_id", "position"),
        (
            _LIST,
            Column("position", "integer", "Position among the columns of the list, from 0"),
            Column(
                "column_name",
                "text",
                "Name of the column; the service may add new names",
                source="service_lists data[].columns[]",
            ),
            FETCHED,
            _OVERVIEW,
        ),
        volatile=(),
    ),
    Table(
        "contact_additions",
        "One row for each contact that was sent to a list kept by the service, with its status",
        ("list_id", "country", "company_number", "contact_id"),
        (
            _LIST,
            *COMPANY,
            Column("contact_id", "text", "Id of the contact in the service", privacy="contact"),
            Column(
                "status",
                "text",
                "added: the list has the contact; failed: not added, see message; company_failed: the request added no "
                "contact of this company; unknown: no answer says whether the contact was added",
            ),
            Column(
                "message",
                "text",
                "Why the contact was not added, or why that is unknown; empty if it was added",
                privacy="text",
            ),
            Column("sent_count", "count", "Number of requests that sent the contact; sending it twice does no harm"),
            Column(
                "lost_count",
                "count",
                "Number of those requests whose answer was lost, or did not say whether the contact was added",
            ),
            Column(
                "changed_at", "timestamp", "Time at which the status became known or the contact was last sent, UTC"
            ),
            REQUEST,
            Column(
                "run_id",
                "text",
                "Id of the plan that sent the contact, which begins with the time in UTC at which the plan was made",
            ),
        ),
    ),
    Table(
        "list_changes",
        "One row for each change of a list kept by the service that an overview found",
        ("run_id", "list_id", "position"),
        (
            _LIST,
            Column("position", "integer", "Position among the changes of the list in the overview, from 0"),
            Column(
                "kind",
                "text",
                "list_gone, list_renamed, list_shared, list_unshared, list_grew or list_shrank (static lists), or "
                "list_new_results (smart lists, also when the list is first seen)",
            ),
            Column(
                "old_value",
                "text",
                "Value before the change: name, number of companies or of new results",
                "the kind of change has no value",
            ),
            Column(
                "new_value",
                "text",
                "Value after the change: name, number of companies or of new results",
                "the kind of change has no value",
            ),
            Column("run_id", "text", "Id of the overview that found the change"),
        ),
    ),
)
