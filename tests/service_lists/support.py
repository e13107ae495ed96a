"""A desk from which contacts are added to the lists of a sandbox, and what the sandbox says is in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

import firmlake_sandbox
from firmlake.api import requests
from firmlake.core.company import Company
from firmlake.core.folders import Folders
from firmlake.core.settings import Settings
from firmlake.core.settings_layers import load_settings
from firmlake.service_lists.additions import Applied, read_additions
from firmlake.service_lists.apply import apply_plan, plan_contacts
from firmlake.service_lists.contacts import Contact, ContactList, ContactPlan, pack_requests
from firmlake_sandbox import Sandbox
from firmlake_sandbox.numbers import parse_number
from firmlake_sandbox.world import World, is_found

STATIC, SMART, UNKNOWN = 1002, 1001, 999
FOUND = [pair for pair in firmlake_sandbox.sample_numbers(400, seed=5) if is_found(World(), parse_number(*pair) or 0)]
"""Companies that the sandbox has."""
MISSING = ("BE", "0403227516")


def contacts_of(companies: int, each: int = 1, start: int = 0) -> list[Contact]:
    """Contacts that the sandbox has."""
    return [
        Contact(*company, f"{number}{n}1")
        for number, company in enumerate(FOUND[start : start + companies], start)
        for n in range(each)
    ]


class Desk:
    """Settings and a data folder against one sandbox."""

    def __init__(self, folder: Path, sandbox: Sandbox, **settings: object) -> None:
        self.sandbox = sandbox
        self.folders = Folders(folder / "data")
        flags = {
            "api.base_url": sandbox.base_url,
            "api.requests_per_minute": "0",
            "api.retry_wait_max_seconds": "0",
            "paths.data": str(self.folders.data),
        }
        own = {name.replace("__", "."): str(value) for name, value in settings.items()}
        self.settings: Settings = load_settings(flags={**flags, **own}, environment={})[0]

    def plan(self, contacts: Sequence[Contact], list_id: int = STATIC) -> ContactPlan:
        return plan_contacts(self.settings, ContactList(Path("contacts.csv"), list(contacts)), list_id, "tests", now)

    def failed(self, **options: bool) -> list[Contact]:
        return read_additions(self.folders).failed(STATIC, self.settings.api.names, **options)

    def apply(self, plan: ContactPlan, **options: Any) -> Applied:
        return apply_plan(self.settings, plan, "tests", now, **options)

    def sent(self) -> int:
        """Requests for contacts that reached the service."""
        endpoints = self.sandbox.ledger(summary=True)["summary"]["by_endpoint"]
        return sum(endpoints.get("lists.contacts", {}).values())

    def lacking(self, contacts: Iterable[Contact], list_id: int = STATIC) -> int:
        """How many of these contacts the service did not have in the list; afterwards it has them."""
        count = 0
        self.sandbox.set_faults([])
        for entries in pack_requests(contacts, self.settings.api):
            grouped = {Company(one.country, one.company_number): one.contacts for one in entries}
            request = requests.add_contacts(self.settings.api, list_id, grouped)
            headers = {"Authorization": f"Bearer {self.sandbox.token}"}
            url = self.sandbox.base_url + request.path
            answer = httpx.put(url, content=request.body, headers=headers, trust_env=False).json()
            count += int(answer["message"].split()[0])
        return count


def now() -> datetime:
    return datetime.now(UTC)
