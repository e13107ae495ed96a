"""The operations on service lists that every entry point offers: read the overview, plan contacts, add them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from firmlake.api import service
from firmlake.api.client import Answer, Client
from firmlake.api.requests import ListKind
from firmlake.core.clock import utc_now
from firmlake.core.folders import Folders
from firmlake.core.lock import lock
from firmlake.core.settings import Settings
from firmlake.core.signals import graceful
from firmlake.core.steps import Step, at_once
from firmlake.service_lists.additions import Applied
from firmlake.service_lists.apply import apply_plan
from firmlake.service_lists.contact_list import read_contact_list
from firmlake.service_lists.contact_plan import ContactPlan
from firmlake.service_lists.contact_planning import check_plan, plan_contacts, plan_redrive
from firmlake.service_lists.load import publish_lists, read_list_changes
from firmlake.service_lists.overview import Overview, take_overview
from firmlake.warehouse.generations import open_warehouse

__all__ = ["apply", "plan", "read_service_lists", "redrive"]


def read_service_lists(
    settings: Settings, kind: ListKind, holder: str, step: Step = at_once
) -> tuple[Overview, list[dict[str, Any]]]:
    """Read all lists of the service into the next generation of the warehouse.

    Args:
        settings: The service and the data folder.
        kind: Static lists, smart ones or both.
        holder: The text that others see if they find the data folder locked.
        step: Carries out "read lists" and "publish".

    Returns:
        The overview, and its events, as returned by `read_list_changes`.

    Raises:
        FirmlakeError: As `take_overview`; nothing is published.
    """
    folders, name = Folders.of(settings), service.service_name(settings)
    with _held(settings, holder):

        def ask() -> Overview:
            with _connected(settings) as client:
                return take_overview(client, settings, folders, name, kind, utc_now)

        overview = step("read lists", ask)
        return overview, step("publish", partial(_publish, settings, folders, overview))


def plan(
    settings: Settings, contacts: Path, list_id: int, holder: str, on_guess: Callable[[str], object]
) -> ContactPlan:
    """Plan which contacts of a file are still to be added to a list; nothing is added.

    Args:
        settings: The service and the data folder.
        contacts: The file.
        list_id: The list.
        holder: The text that others see if they find the data folder locked.
        on_guess: Called with each guess about the file. The plan does not keep guesses, because they quote the file.

    Raises:
        UsageError: The file cannot be used; there is no such list, or it is not static.
        FirmlakeError: As `take_overview`.
    """
    service.check_access(settings)
    read = read_contact_list(contacts, settings.intake)
    for guess in read.guesses:
        on_guess(guess)
    with _held(settings, holder), _connected(settings) as client:
        return plan_contacts(settings, client, read, list_id, utc_now)


def redrive(settings: Settings, list_id: int, holder: str, *, also_not_found: bool = False) -> ContactPlan | None:
    """Plan to send the failed contacts of a list again; None if there are none worth trying.

    Raises:
        UsageError: There is no such list, or it is not static.
        FirmlakeError: As `take_overview`.
    """
    with _held(settings, holder), _connected(settings) as client:
        return plan_redrive(settings, client, list_id, utc_now, also_not_found=also_not_found)


def apply(
    settings: Settings,
    made: ContactPlan,
    holder: str,
    on_answer: Callable[[Answer, int], object] = lambda answer, settled_count: None,
) -> Applied:
    """Add exactly the contacts of a plan to its list, and publish the result.

    Args:
        settings: Limits, and how old a plan may be.
        made: The plan.
        holder: The text that others see if they find the data folder locked.
        on_answer: Called after each answer has landed, with the number of contacts of the plan settled so far.

    Raises:
        UsageError: The plan is stale, for another service, or for a list that has changed; nothing was sent.
        FirmlakeError: As `Client.send`; the same call resumes.
    """
    check_plan(settings, made, utc_now())
    with _held(settings, holder), _connected(settings) as client:
        return apply_plan(settings, client, made, utc_now, on_answer)


# ---------------------------------------------------------------------------------------------------------------------


@contextmanager
def _held(settings: Settings, holder: str) -> Iterator[None]:
    """Lock the data folder, after checking that it belongs to this service."""
    service.check_access(settings)
    with lock(Folders.of(settings), holder):
        service.check_service(settings, Folders.of(settings))
        yield


@contextmanager
def _connected(settings: Settings) -> Iterator[Client]:
    """Open a client; a signal to stop takes effect after the request in flight."""
    with graceful() as stop, service.connect(settings, stop) as client:
        yield client


def _publish(settings: Settings, folders: Folders, overview: Overview) -> list[dict[str, Any]]:
    service.stamp_service(settings, folders)
    publish_lists(folders, settings.run, overview.plan.overview_id, utc_now, overview)
    with open_warehouse(folders) as connection:
        return read_list_changes(connection, overview.plan.overview_id)
