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
from firmlake.service_lists.additions import Applied, read_additions
from firmlake.service_lists.apply import apply_plan, plan_contacts
from firmlake.service_lists.contacts import Contact, ContactList, ContactPlan, pack_requests
from firmlake_sandbox import Sandbox
from firmlake_sandbox.numbers import parse_number
from firmlake_sandbox.world import World, is_found
from lake import Lake

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


class Desk(Lake):
    """A lake from which contacts are added to the lists of its sandbox."""

    @property
    def sandbox(self) -> Sandbox:
        return self.service

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
        api = self.settings.api
        for entries in pack_requests(contacts, api):
            grouped = {Company(one.country, one.company_number): one.contacts for one in entries}
            request = requests.add_contacts(api, list_id, grouped)
            headers = {"Authorization": f"Bearer {self.sandbox.token}"}
            url = self.sandbox.base_url + request.path
            answer = httpx.put(url, content=request.body, headers=headers, trust_env=False).json()
            count += int(answer["message"].split()[0])
        return count


def now() -> datetime:
    return datetime.now(UTC)
