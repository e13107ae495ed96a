"""Tables of service lists: the newest overview, the changes of lists, and the contacts that were added."""

from __future__ import annotations

from firmlake.tables.schemas.shape import Column, Table
from firmlake.tables.schemas.shared import COMPANY, NOT_STATED, REQUEST, TAIL

__all__ = ["TABLES_OF_SERVICE_LISTS"]

_LIST = Column("list_id", "integer", "Id of the list at the service")
_OVERVIEW = Column("run_id", "text", "Overview that shows it, named by its start in UTC")

TABLES_OF_SERVICE_LISTS = (
    Table(
        "service_lists",
        "One row for each list of the service, according to the newest overview",
        ("list_id",),
        (
            _LIST,
            Column("name", "text", "Name of the list", NOT_STATED, "service_lists data[].name", privacy="text"),
            Column("type", "text", "STATIC or SMART; others may come", source="service_lists data[].type"),
            Column(
                "is_shared", "boolean", "Whether others see the list", NOT_STATED, source="service_lists data[].shared"
            ),
            Column(
                "has_notifications",
                "boolean",
                "Whether its owner is notified of changes",
                NOT_STATED,
                "service_lists data[].notifications.enabled",
            ),
            Column("company_count", "count", "Companies in it", NOT_STATED, "service_lists data[].amountOfCompanies"),
            Column(
                "new_result_count",
                "count",
                "New results of its filters",
                "a static list has none",
                "service_lists data[].newResults",
            ),
            Column("updated_at", "timestamp", "Last update, UTC", NOT_STATED, "service_lists data[].updatedAt"),
            Column("created_at", "timestamp", "Creation, UTC", NOT_STATED, "service_lists data[].createdAt"),
            Column(
                "created_by",
                "text",
                "Who made it: keyed hash of the address, or the address, as set by lists.created_by",
                "left out, or " + NOT_STATED,
                "service_lists data[].createdBy",
                privacy="contact",
            ),
            *TAIL[:2],
            _OVERVIEW,
        ),
        volatile=(),
    ),
    Table(
        "service_list_columns",
        "One row for each column that a list of the service shows",
        ("list_id", "position"),
        (
            _LIST,
            Column("position", "integer", "Place among the columns of the list, 0 first"),
            Column("column_name", "text", "Name of the column; an open set", source="service_lists data[].columns[]"),
            TAIL[1],
            _OVERVIEW,
        ),
        volatile=(),
    ),
    Table(
        "contact_additions",
        "One row for each contact that was sent to a list of the service, with its status",
        ("list_id", "country", "company_number", "contact_id"),
        (
            _LIST,
            *COMPANY,
            Column("contact_id", "text", "Id of the contact at the service", privacy="contact"),
            Column(
                "status",
                "text",
                "added; failed: not added, see message; company_failed: no contact of the company was added in that "
                "request; unknown: no answer says whether it was added",
            ),
            Column(
                "message",
                "text",
                "Why it was not added, or why that is unknown; empty if it was added",
                privacy="text",
            ),
            Column("sent_count", "count", "Requests in which it was sent; sending a contact twice does no harm"),
            Column("lost_count", "count", "Requests whose answer was lost, or did not say whether it was added"),
            Column("changed_at", "timestamp", "When the status was learned, or the contact was last sent, UTC"),
            REQUEST,
            Column("run_id", "text", "Plan that it was sent by, named by the time the plan was made, in UTC"),
        ),
    ),
    Table(
        "list_changes",
        "One row for each event: a change of a service list that an overview found",
        ("run_id", "list_id", "position"),
        (
            _LIST,
            Column("position", "integer", "Place among the events of the list in the overview, 0 first"),
            Column(
                "kind",
                "text",
                "list_gone, list_renamed, list_shared, list_unshared, list_grew or list_shrank (static lists), or "
                "list_new_results (smart lists, also when first seen)",
            ),
            Column("old_value", "text", "Value before: name, companies or new results", "the kind of event says all"),
            Column("new_value", "text", "Value after: name, companies or new results", "the kind of event says all"),
            Column("run_id", "text", "Overview that found the change"),
        ),
    ),
)
