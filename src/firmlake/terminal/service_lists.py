"""The output about service lists: the overview, a plan of contacts, and the progress of applying it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from firmlake.core.settings import NameSettings
from firmlake.core.text import count_of, one_line
from firmlake.service_lists.additions import Applied, Remark
from firmlake.service_lists.contacts import ContactPlan, Entry
from firmlake.service_lists.overview import Overview
from firmlake.terminal.echo import echo
from firmlake.terminal.rows import show_rows

_ROWS_MAX = 10
_EVENTS_MAX = 20
_NAME_MAX = 80
_EXAMPLE_MAX = 200
_NO_FACTS = {
    **dict.fromkeys(("plan_id", "made_at", "service", "source", "list_id", "list_name")),
    **dict.fromkeys(("to_add_count", "company_count", "request_count", "already_added_count"), 0),
    **dict.fromkeys(("repaired_count", "repeated_count"), 0),
    "refused": (),
}
_STATUSES = ("added", "failed", "company_failed", "unknown", "pending")


def show_service_lists(overview: Overview, events: Sequence[dict[str, Any]]) -> None:
    """Print all lists, and what changed since the previous overview."""
    rows = [
        (
            str(one["list_id"]), one["name"], one["type"], one["is_shared"], one["company_count"],
            one["new_result_count"], one["updated_at"] and f"{one['updated_at']:%Y-%m-%d %H:%M}",
            ", ".join(one["columns"] or ()),
        )
        for one in overview.gather().frame.iter_rows(named=True)
    ]  # fmt: skip
    show_rows(("id", "name", "type", "shared", "companies", "new", "updated, UTC", "columns"), rows)
    changes = [
        (str(one["list_id"]), one["kind"].replace("_", " "), one["old_value"], one["new_value"]) for one in events
    ]
    show_rows(
        ("id", "event", "before", "after"), changes[:_EVENTS_MAX], "what changed" + _more(len(changes), _EVENTS_MAX)
    )
    for line in _unread(overview):
        echo(line)
    echo(describe_overview(overview))


def _unread(overview: Overview) -> Iterator[str]:
    """Name each field with values that did not fit, which are null in the warehouse."""
    rejects = overview.gather().rejects
    for path, (example, *others) in sorted(rejects.group_by("path").agg("value").iter_rows()):
        yield f"Not read: {path} in {count_of(1 + len(others), 'list')}, such as {one_line(example, _EXAMPLE_MAX)}"


def describe_overview(overview: Overview) -> str:
    """Describe how many lists there are, and how often they were read."""
    kinds = overview.gather().frame["type"].to_list()
    by_kind = ", ".join(f"{kinds.count(kind):,} {kind.lower()}" for kind in sorted(set(kinds), reverse=True))
    moved = "" if overview.is_consistent else "; they kept changing, so the lists of both times count"
    return f"{count_of(len(kinds), 'list')} ({by_kind or 'none'}), read {count_of(overview.sweeps, 'time')}{moved}"


def describe_contact_plan(plan: ContactPlan) -> Iterator[str]:
    """Describe what a plan would add, and to which list."""
    facts = plan_facts(plan)
    companies = "" if plan.list_company_count is None else f", {plan.list_company_count:,} companies"
    yield f"List {plan.list_id}: {one_line(plan.list_name, _NAME_MAX)} ({plan.list_type.lower()}{companies})"
    yield (
        f"To add: {count_of(facts['to_add_count'], 'contact')} of "
        f"{count_of(facts['company_count'], 'company')} in {count_of(facts['request_count'], 'request')}; "
        f"already added: {facts['already_added_count']:,}; lines repaired {plan.repaired_count:,}, "
        f"repeated {plan.repeated_count:,}, refused {len(plan.refused):,}"
    )


def show_contact_plan(plan: ContactPlan, guesses: Iterable[str]) -> None:
    """Print a plan and the guesses about its file, with the first contacts it would add and the first refused lines."""
    for line in (*describe_contact_plan(plan), *guesses):
        echo(line)
    entries = [entry for request in plan.requests for entry in request]
    rows = [(one.country, one.company_number, len(one.contacts), _some(one.contacts)) for one in entries[:_ROWS_MAX]]
    show_rows(("country", "number", "contacts", "which"), rows, "to add" + _more(len(entries)))
    lines = [(one.line, one.given, one.reason) for one in plan.refused[:_ROWS_MAX]]
    show_rows(("line", "given", "refused because"), lines, "refused" + _more(len(plan.refused)))


def plan_facts(plan: ContactPlan | None) -> dict[str, Any]:
    """Convert a plan to plain values for JSON, without its contacts; without a plan, values are empty, 0 or null."""
    if plan is None:
        return _NO_FACTS
    entries = [entry for request in plan.requests for entry in request]
    return {
        "plan_id": plan.plan_id,
        "made_at": plan.made_at,
        "service": plan.service,
        "source": plan.source,
        "list_id": plan.list_id,
        "list_name": plan.list_name,
        "to_add_count": _contacts(entries),
        "company_count": len({(one.country, one.company_number) for one in entries}),
        "request_count": len(plan.requests),
        "already_added_count": _contacts(plan.already_added),
        "repaired_count": plan.repaired_count,
        "repeated_count": plan.repeated_count,
        "refused": plan.refused,
    }


def progress_content(progress: Applied) -> dict[str, Any]:
    """Convert the progress of a plan to plain values for JSON."""
    return {
        "plan_id": progress.plan.plan_id,
        "list_id": progress.plan.list_id,
        "list_name": progress.plan.list_name,
        "source": progress.plan.source,
        "counts": progress.counts(),
        "not_added": [
            {**contact._asdict(), "status": one.status, "message": one.message, "sent_count": one.sent_count}
            for contact, one in progress.lacking()
        ],
        "remarks": [dict(zip(Remark._fields[:-1], remark, strict=False)) for remark in progress.remarks],
    }


def show_progress_of(progress: Applied) -> None:
    """Print the result of a plan: counts, contacts that were not added, and unexpected content of the answers."""
    plan = progress.plan
    show_applied([progress])
    failed = [
        (contact.country, contact.company_number, contact.contact_id, one.status.replace("_", " "), one.message)
        for contact, one in progress.lacking()
    ]
    title = "not added, or unknown" + _more(len(failed))
    show_rows(("country", "number", "contact", "status", "because"), failed[:_ROWS_MAX], title)
    for remark in progress.remarks[:_ROWS_MAX]:
        example = remark.example or remark.kind.replace("_", " ")
        echo(f"Unexpected in an answer, {remark.path}: {one_line(example, _EXAMPLE_MAX)}")
    again = sum(one.sent_count > 1 and one.plan_id == plan.plan_id for one in progress.statuses.values())
    if again:
        echo(f"Sent more than once, which is harmless: {count_of(again, 'contact')}")
    counts = progress.counts()
    echo(
        f"{counts['added']:,} of {count_of(sum(counts.values()), 'contact')} of plan {plan.plan_id} added to list "
        f"{plan.list_id}, {one_line(plan.list_name, _NAME_MAX)}"
    )


def describe_lacking(progress: Applied) -> str:
    """Describe how many contacts were not added, and for how many that is unknown; empty if all were added."""
    counts = progress.counts()
    failed, unknown = counts["failed"] + counts["company_failed"], counts["unknown"]
    parts = (
        f"{failed:,} of {count_of(sum(counts.values()), 'contact')} {'was' if failed == 1 else 'were'} not added",
        f"for {unknown:,} no answer says whether {'it was' if unknown == 1 else 'they were'} added",
    )
    return ", ".join(part for part, count in zip(parts, (failed, unknown), strict=True) if count)


def next_step(progress: Applied, names: NameSettings) -> str:
    """Return what to do about the contacts that were not added; empty if all were."""
    lacking = [known for _, known in progress.lacking()]
    if any(known.status == "unknown" for known in lacking):
        return "Apply the plan again to settle the unknown contacts"
    redrive = f"firmlake contacts redrive --service-list {progress.plan.list_id}"
    if lacking and all(known.is_not_found(names) for known in lacking):
        return f"Once the service has them, plan them again with `{redrive} --also-not-found`"
    if any(one.lost_count and not one.is_not_found(names) for one in lacking):
        return (
            "An earlier answer was lost: if the reason means that the contact is already in the list, set "
            f"api.names.contact_present_message to the words of the service. Then plan again with `{redrive}`"
        )
    return f"Plan the failed contacts again with `{redrive}`" if lacking else ""


def show_applied(applied: Sequence[Applied]) -> None:
    """Print the progress of plans, one row each."""
    rows = [
        (one.plan.plan_id, str(one.plan.list_id), one.plan.source, *(one.counts()[status] for status in _STATUSES))
        for one in applied
    ]
    show_rows(("plan", "list", "contacts of", *(status.replace("_", " ") for status in _STATUSES)), rows)


def _contacts(entries: Iterable[Entry]) -> int:
    return sum(len(entry.contacts) for entry in entries)


def _some(contacts: Sequence[str]) -> str:
    return ", ".join(contacts[:3]) + (", ..." if len(contacts) > 3 else "")


def _more(count: int, most: int = _ROWS_MAX) -> str:
    return f", the first {most} of {count:,}" if count > most else ""
