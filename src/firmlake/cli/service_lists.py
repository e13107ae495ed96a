"""The commands `service-lists`, and `contacts` with `plan`, `apply`, `status` and `redrive`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import click
from msgspec import Raw

from firmlake.api.requests import ListKind
from firmlake.cli.call import Call, command
from firmlake.cli.company_lists import mapping
from firmlake.core.errors import EXIT_DONE, EXIT_SOME_FAILED
from firmlake.core.files import write_json
from firmlake.core.work import utc_now
from firmlake.terminal.rows import Part

if TYPE_CHECKING:
    from firmlake.service_lists.contacts import ContactPlan

_KINDS = click.Choice(["STATIC", "SMART", "OVERVIEW"], case_sensitive=False)


@command
def service_lists(call: Call, *, kind: Annotated[ListKind, _KINDS] = "OVERVIEW") -> None:
    """Read all lists of the service into the warehouse, and show them. Costs no credits.

    Args:
        kind (--type): Which lists to read: static lists, smart lists, or all (OVERVIEW).
    """
    settings = call.settings()
    from firmlake.service_lists.apply import read_service_lists
    from firmlake.terminal import service_lists as shown

    overview, events = read_service_lists(settings, kind, "firmlake service-lists")
    records = [bytes(record).decode("utf-8", "replace").encode() for _, (record, _) in sorted(overview.lists.items())]
    content = {
        "overview": overview.plan.overview_id,
        "is_settled": overview.is_consistent,
        "changes": events,
        "lists": list(map(Raw, records)),
    }
    call.answer(content, shown.service_lists_parts(overview, events))


@command
def plan(call: Call, file: Path, *, list_id: int, out: Path | None = None, _mapped: Annotated[None, mapping]) -> None:
    """Plan which contacts to add to a list. Adds nothing yet.

    Contacts in FILE that were added before are left out. FILE has a country, a company number and a contact id on each
    line: CSV, XLSX, Parquet or NDJSON.

    Args:
        list_id (--service-list --list ID): Id of the list; `firmlake service-lists` shows the ids.
        out (PLAN): Plan file to write. Default: named after FILE.
    """
    settings = call.settings()
    from firmlake.service_lists.apply import plan_contacts
    from firmlake.service_lists.contacts import read_contact_list

    read = read_contact_list(file, settings.intake)
    made = plan_contacts(settings, read, list_id, "firmlake contacts plan")
    _write(call, made, out or Path(f"{file.stem}-list{list_id}.plan.json"), read.guesses)


@command
def redrive(call: Call, *, list_id: int, also_not_found: bool = False, out: Path | None = None) -> None:
    """Plan to send failed contacts again. Sends nothing yet.

    The plan has the contacts of the list that were not added but may succeed now.

    Args:
        list_id (--service-list --list ID): Id of the list.
        also_not_found: Include contacts that the service did not find last time.
        out (PLAN): Plan file to write. Default: named after the list.
    """
    settings, folders = call.on_folder()
    from firmlake.service_lists.additions import read_additions
    from firmlake.service_lists.apply import plan_contacts
    from firmlake.service_lists.contacts import ContactList
    from firmlake.terminal.service_lists import plan_facts

    failed = read_additions(folders).failed(list_id, settings.api.names, also_not_found=also_not_found)
    if not failed:
        content = {"plan": None, **plan_facts(None), "guesses": ()}
        call.answer(content, ["There is no failed contact that may succeed now"])
        return
    made = plan_contacts(settings, ContactList(Path("redrive"), failed), list_id, "firmlake contacts redrive")
    _write(call, made, out or Path(f"redrive-list{list_id}.plan.json"))


@command
def apply(call: Call, plan: Path) -> int:
    """Add exactly the contacts in PLAN to its list. To resume an interrupted call, run it again."""
    settings = call.settings()
    from firmlake.service_lists.apply import apply_plan
    from firmlake.service_lists.contacts import check_plan, read_plan
    from firmlake.terminal import service_lists as shown
    from firmlake.terminal.progress import Counter, show_progress

    read = read_plan(plan)
    check_plan(settings, read, utc_now())
    for line in shown.describe_contact_plan(read):
        call.say(line)
    counter = Counter(sum(1 for _ in read.contacts()), settings.api, "contacts")
    with show_progress(counter):
        progress = apply_plan(settings, read, "firmlake contacts apply", on_answer=counter.count)
    call.answer(shown.progress_content(progress), shown.progress_parts(progress))
    if not (lacking := shown.describe_lacking(progress)):
        return EXIT_DONE
    call.say(f"firmlake: {lacking}. {shown.next_step(progress, settings.api.names)}")
    return EXIT_SOME_FAILED


@command
def status(call: Call) -> None:
    """Show the progress of each applied plan. Sends no request."""
    folders = call.on_folder()[1]
    from firmlake.service_lists.additions import read_additions
    from firmlake.terminal import service_lists as shown

    additions = read_additions(folders)
    applied = [additions.applied(plan) for plan in additions.plans.values()]
    content = [shown.progress_content(one) for one in applied]
    call.answer(content, shown.applied_parts(applied) if applied else ["No plan was applied yet"])


def _write(call: Call, made: ContactPlan, out: Path, guesses: Sequence[str] = ()) -> None:
    from firmlake.terminal import service_lists as shown

    write_json(out, made)

    def parts() -> Iterator[Part]:
        yield from shown.contact_plan_parts(made, guesses)
        add = f"Nothing was added yet. To add the contacts: `firmlake contacts apply {quote(str(out))}`"
        yield add if made.requests else "There is nothing to add"

    call.answer({"plan": str(out), **shown.plan_facts(made), "guesses": guesses}, parts())


contacts = click.Group(
    "contacts",
    commands=[plan, redrive, apply, status],
    help="Add contacts of companies to a static list of the service: make a plan, review it, apply it.",
)
