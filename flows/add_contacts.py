"""Add contacts to a static list under Prefect: plan, show the plan, wait for approval if required, apply.

    python flows/add_contacts.py FILE --list ID [--config FILE] [--set KEY=VALUE ...]        by hand
    firmlake.flows.add_contacts.add_contacts                                               its entrypoint

The plan is also written to `plans/` in the data folder, so that `firmlake contacts apply` can resume if this run ends.
"""

from __future__ import annotations

if __name__ == "__main__":
    from by_hand import start

    start(__file__)  # before Prefect is imported, which reads its environment then; never returns

from pathlib import Path
from shlex import quote

from prefect.exceptions import FlowPauseTimeout
from prefect.flow_runs import pause_flow_run
from prefect.input import RunInput

from artifacts import plan_markdown, show_markdown, show_table
from firmlake.core.errors import SomeFailedError, Stopped
from firmlake.core.files import write_json
from firmlake.core.folders import Folders
from firmlake.core.settings import Settings
from firmlake.service_lists.additions import Applied
from firmlake.service_lists.apply import apply_plan, plan_contacts
from firmlake.service_lists.contacts import ContactPlan, read_contact_list
from firmlake.terminal import service_lists as shown
from job import as_task, end, job, read_settings, show_parts, tell

unapproved: list[str] = []
"""The command that applies the plan that waits for approval. `by_hand` shows it if the server ends the pause."""


class Approval(RunInput):
    """A person's answer to the plan."""

    approve: bool = False
    name: str = ""


@job(hours=192)
def add_contacts(
    contacts: str, *, list_id: int, config: str | None = None, overrides: dict[str, str] | None = None
) -> str:
    """Add the contacts of FILE to a static list, exactly as in the plan that is shown first.

    With lists.needs_approval, a person must approve the plan in Prefect first.

    Args:
        contacts (FILE): A file with country, company number and contact id on each line.
        list_id (--service-list --list ID): The list.
        config: A settings file. None reads config/firmlake.toml.
        overrides: Settings by dotted key. Prefect stores and shows all parameters: pass no secrets.

    Returns:
        The name of the plan.
    """
    settings = read_settings(config, overrides)
    made = as_task("plan", lambda: plan(settings, Path(contacts), list_id))
    if made.requests and settings.lists.needs_approval:
        wait_for_approval(settings, made)
    progress = as_task("apply", lambda: apply(settings, made))
    return conclude(settings, progress)


def plan(settings: Settings, contacts: Path, list_id: int) -> ContactPlan:
    """Make a plan of the contacts to add, and show it. Nothing is added yet."""
    read = read_contact_list(contacts, settings.intake)
    for guess in read.guesses:
        tell(guess)
    made = plan_contacts(settings, read, list_id, f"the flow add_contacts over {contacts}")
    write_json(_path(settings, made), made)
    for line in shown.describe_contact_plan(made):
        tell(line)
    show_markdown("add-contacts-plan", plan_markdown(made), f"Plan {made.plan_id} for list {made.list_id}")
    return made


def wait_for_approval(settings: Settings, made: ContactPlan) -> None:
    """Pause until a person has answered the plan. The data folder is not locked meanwhile.

    If nobody approved, nothing was added, and the Stopped says how to add the contacts later.
    """
    again = f"`firmlake contacts apply {quote(str(_path(settings, made)))}` still adds them"
    unapproved.append(again)
    tell(f"Waiting for somebody to approve plan {made.plan_id} in Prefect")
    try:
        answer = pause_flow_run(
            wait_for_input=Approval.with_initial_data(description=plan_markdown(made)),
            timeout=int(settings.lists.approval_wait_hours * 3600),
            poll_interval=2,
        )
    except FlowPauseTimeout:
        raise Stopped(f"Nobody approved the plan in {settings.lists.approval_wait_hours:g} hours", again) from None
    unapproved.clear()
    if not answer.approve:
        raise Stopped(f"The plan was not approved by {answer.name or 'whoever answered'}", again)
    tell(f"Approved by {answer.name or 'somebody without a name'}")


def apply(settings: Settings, made: ContactPlan) -> Applied:
    """Send the contacts of the plan, and publish the result."""
    progress = apply_plan(settings, made, f"the flow add_contacts with plan {made.plan_id}")
    show_parts(shown.progress_parts(progress))
    rows = shown.progress_content(progress)["not_added"]
    show_table("add-contacts-failures", rows, f"Contacts that plan {made.plan_id} did not add, or may not have added")
    return progress


def conclude(settings: Settings, progress: Applied) -> str:
    """End as the plan did. If contacts were left out, the run is Failed: a completed run would go unnoticed."""
    lacking = shown.describe_lacking(progress)
    line = f"{progress.counts()['added']} contacts added to list {progress.plan.list_id}"
    if lacking:
        raise SomeFailedError(f"{line}; {lacking}", shown.next_step(progress, settings.api.names))
    return end(progress.plan.plan_id, line)


def _path(settings: Settings, made: ContactPlan) -> Path:
    return Folders.of(settings).plans / f"{made.plan_id}.json"
