"""The commands `service-lists`, and `contacts` with `plan`, `apply`, `status` and `redrive`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click
from msgspec import Raw

from firmlake.cli.call import PATH, Call, command
from firmlake.cli.options import map_option, take_mapping
from firmlake.core.clock import utc_now
from firmlake.core.errors import EXIT_DONE, EXIT_SOME_FAILED
from firmlake.terminal.echo import echo

if TYPE_CHECKING:
    from firmlake.api.requests import ListKind
    from firmlake.service_lists.additions import Applied
    from firmlake.service_lists.contacts import ContactPlan


@click.command("service-lists")
@click.option(
    "--type",
    "kind",
    type=click.Choice(["STATIC", "SMART", "OVERVIEW"], case_sensitive=False),
    default="OVERVIEW",
    show_default=True,
    help="Which lists to read: static lists, smart lists, or all (OVERVIEW).",
)
@command
def service_lists(call: Call, kind: ListKind) -> None:
    """Read all lists of the service into the warehouse, and show them. Costs no credits."""
    from firmlake.service_lists.apply import read_service_lists
    from firmlake.terminal.service_lists import show_service_lists

    overview, events = read_service_lists(call.settings(), kind, "firmlake service-lists")
    records = [bytes(record).decode("utf-8", "replace").encode() for _, (record, _) in sorted(overview.lists.items())]
    content = {
        "overview": overview.plan.overview_id,
        "is_settled": overview.is_consistent,
        "changes": events,
        "lists": list(map(Raw, records)),
    }
    call.answer(content, lambda: show_service_lists(overview, events))


@click.group()
def contacts() -> None:
    """Add contacts of companies to a static list of the service: make a plan, review it, apply it."""


@contacts.command()
@click.argument("file", type=PATH)
@click.option(
    "--service-list",
    "--list",
    "list_id",
    type=int,
    required=True,
    metavar="ID",
    help="Id of the list; `firmlake service-lists` shows the ids.",
)
@click.option("--out", type=PATH, metavar="PLAN", help="Plan file to write. Default: named after FILE.")
@map_option
@command
def plan(call: Call, file: Path, list_id: int, out: Path | None, mapped: tuple[str, ...]) -> int:
    """Plan which contacts to add to a list. Adds nothing yet.

    Contacts in FILE that were added before are left out. FILE has a country, a company number and a contact id on each
    line: CSV, XLSX, Parquet or NDJSON.
    """
    from firmlake.service_lists.apply import plan_contacts
    from firmlake.service_lists.contacts import read_contact_list

    take_mapping(call, mapped)
    settings = call.settings()
    read = read_contact_list(file, settings.intake)
    made = plan_contacts(settings, read, list_id, "firmlake contacts plan")
    return _write(call, made, out or Path(f"{file.stem}-list{list_id}.plan.json"), read.guesses)


@contacts.command()
@click.option("--service-list", "--list", "list_id", type=int, required=True, metavar="ID", help="Id of the list.")
@click.option("--also-not-found", is_flag=True, help="Include contacts that the service did not find last time.")
@click.option("--out", type=PATH, metavar="PLAN", help="Plan file to write. Default: named after the list.")
@command
def redrive(call: Call, list_id: int, also_not_found: bool, out: Path | None) -> int:
    """Plan to send failed contacts again. Sends nothing yet.

    The plan has the contacts of the list that were not added but may succeed now.
    """
    from firmlake.service_lists.additions import read_additions
    from firmlake.service_lists.apply import plan_contacts
    from firmlake.service_lists.contacts import ContactList
    from firmlake.terminal.service_lists import plan_facts

    settings, folders = call.on_folder()
    failed = read_additions(folders).failed(list_id, settings.api.names, also_not_found=also_not_found)
    if not failed:
        content = {"plan": None, **plan_facts(None), "guesses": ()}
        call.answer(content, lambda: echo("There is no failed contact that may succeed now"))
        return EXIT_DONE
    made = plan_contacts(settings, ContactList(Path("redrive"), failed), list_id, "firmlake contacts redrive")
    return _write(call, made, out or Path(f"redrive-list{list_id}.plan.json"))


@contacts.command()
@click.argument("plan_file", metavar="PLAN", type=PATH)
@command
def apply(call: Call, plan_file: Path) -> int:
    """Add exactly the contacts in PLAN to its list. To resume an interrupted call, run it again."""
    from firmlake.service_lists.apply import apply_plan
    from firmlake.service_lists.contacts import check_plan, read_plan
    from firmlake.terminal.progress import Counter, show_progress
    from firmlake.terminal.service_lists import describe_contact_plan, progress_content, show_progress_of

    settings, read = call.settings(), read_plan(plan_file)
    check_plan(settings, read, utc_now())
    for line in describe_contact_plan(read):
        call.say(line)
    counter = Counter(sum(1 for _ in read.contacts()), settings.api, "contacts")
    with show_progress(counter):
        progress = apply_plan(settings, read, "firmlake contacts apply", on_answer=counter.count)
    call.answer(progress_content(progress), lambda: show_progress_of(progress))
    return _end(call, progress)


@contacts.command()
@command
def status(call: Call) -> None:
    """Show the progress of each applied plan. Sends no request."""
    from firmlake.service_lists.additions import read_additions
    from firmlake.terminal.service_lists import progress_content, show_applied

    additions = read_additions(call.on_folder()[1])
    applied = [additions.applied(plan) for plan in additions.plans.values()]
    call.answer(
        [progress_content(one) for one in applied],
        lambda: show_applied(applied) if applied else echo("No plan was applied yet"),
    )


def _write(call: Call, made: ContactPlan, out: Path, guesses: Sequence[str] = ()) -> int:
    from firmlake.core.files import write_json
    from firmlake.terminal.service_lists import plan_facts, show_contact_plan

    write_json(out, made)

    def show() -> None:
        show_contact_plan(made, guesses)
        if made.requests:
            echo(f"Nothing was added yet. To add the contacts: `firmlake contacts apply {quote(str(out))}`")
        else:
            echo("There is nothing to add")

    call.answer({"plan": str(out), **plan_facts(made), "guesses": guesses}, show)
    return EXIT_DONE


def _end(call: Call, progress: Applied) -> int:
    from firmlake.terminal.service_lists import describe_lacking, next_step

    lacking = describe_lacking(progress)
    if lacking:
        call.say(f"firmlake: {lacking}. {next_step(progress, call.settings().api.names)}")
    return EXIT_SOME_FAILED if lacking else EXIT_DONE
