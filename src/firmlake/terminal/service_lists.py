"""The output about service lists: the overview, a plan of contacts, and the progress of applying it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from firmlake.core.settings import NameSettings
from firmlake.core.text import count_of, one_line
from firmlake.service_lists.additions import Applied, Remark
from firmlake.service_lists.contacts import ContactPlan, Entry
from firmlake.service_lists.overview import Overview
from firmlake.terminal.rows import Part, Table, first_rows

_ROWS_MAX = 10
_EVENTS_MAX = 20
_NAME_MAX = 80
_EXAMPLE_MAX = 200
_FACTS = (
    "plan_id",
    "made_at",
    "service",
    "source",
    "list_id",
    "list_name",
    "repaired_count",
    "repeated_count",
    "refused",
)
_STATUSES = ("added", "failed", "company_failed", "unknown", "pending")


def service_lists_parts(overview: Overview, events: Sequence[dict[str, Any]]) -> Iterator[Part]:
    """Yield all lists, and what changed since the previous overview."""
    rows = [
        (
            str(one["list_id"]), one["name"], one["type"], one["is_shared"], one["company_count"],
            one["new_result_count"], one["updated_at"] and f"{one['updated_at']:%Y-%m-%d %H:%M}",
            ", ".join(one["columns"] or ()),
        )
        for one in overview.gather().frame.iter_rows(named=True)
    ]  # fmt: skip
    yield Table(("id", "name", "type", "shared", "companies", "new", "updated, UTC", "columns"), rows)
    changes = [
        (str(one["list_id"]), one["kind"].replace("_", " "), one["old_value"], one["new_value"]) for one in events
    ]
    yield first_rows(_EVENTS_MAX, ("id", "event", "before", "after"), changes, "what changed")
    yield from _unread(overview)
    yield describe_overview(overview)


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


def contact_plan_parts(plan: ContactPlan, guesses: Iterable[str], most: int = _ROWS_MAX) -> Iterator[Part]:
    """Yield a plan and the guesses about its file, with the first contacts it would add and the first refused lines."""
    yield from (*describe_contact_plan(plan), *guesses)
    entries = [entry for request in plan.requests for entry in request]
    rows = [(one.country, one.company_number, len(one.contacts), _some(one.contacts, most)) for one in entries]
    yield first_rows(most, ("country", "number", "contacts", "which"), rows, "to add")
    lines = [(one.line, one.given, one.reason) for one in plan.refused]
    yield first_rows(most, ("line", "given", "refused because"), lines, "refused")


def plan_facts(plan: ContactPlan | None) -> dict[str, Any]:
    """Convert a plan to plain values for JSON, without its contacts; without a plan, values are empty, 0 or null."""
    requests = plan.requests if plan else ()
    entries = [entry for request in requests for entry in request]
    return {
        **{name: getattr(plan, name, None) for name in _FACTS},
        "to_add_count": _contacts(entries),
        "company_count": len({(one.country, one.company_number) for one in entries}),
        "request_count": len(requests),
        "already_added_count": _contacts(plan.already_added if plan else ()),
        "repaired_count": plan.repaired_count if plan else 0,
        "repeated_count": plan.repeated_count if plan else 0,
        "refused": plan.refused if plan else (),
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


def progress_parts(progress: Applied) -> Iterator[Part]:
    """Yield the result of a plan: counts, contacts that were not added, and unexpected content of the answers."""
    plan = progress.plan
    yield from applied_parts([progress])
    failed = [
        (contact.country, contact.company_number, contact.contact_id, one.status.replace("_", " "), one.message)
        for contact, one in progress.lacking()
    ]
    columns = ("country", "number", "contact", "status", "because")
    yield first_rows(_ROWS_MAX, columns, failed, "not added, or unknown")
    for remark in progress.remarks[:_ROWS_MAX]:
        example = remark.example or remark.kind.replace("_", " ")
        yield f"Unexpected in an answer, {remark.path}: {one_line(example, _EXAMPLE_MAX)}"
    again = sum(one.sent_count > 1 and one.plan_id == plan.plan_id for one in progress.statuses.values())
    if again:
        yield f"Sent more than once, which is harmless: {count_of(again, 'contact')}"
    counts = progress.counts()
    yield (
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


def applied_parts(applied: Sequence[Applied]) -> Iterator[Part]:
    """Yield the progress of plans, one row each."""
    rows = [
        (one.plan.plan_id, str(one.plan.list_id), one.plan.source, *(one.counts()[status] for status in _STATUSES))
        for one in applied
    ]
    yield Table(("plan", "list", "contacts of", *(status.replace("_", " ") for status in _STATUSES)), rows)


def _contacts(entries: Iterable[Entry]) -> int:
    return sum(len(entry.contacts) for entry in entries)


def _some(contacts: Sequence[str], most: int) -> str:
    return ", ".join(contacts[:most]) + (", ..." if len(contacts) > most else "")
