"""A client of the service under test without any wits; a company is written as BE0403227515."""

from __future__ import annotations

import httpx
import pytest

from firmlake_sandbox import sample_numbers
from firmlake_sandbox.numbers import parse_number
from firmlake_sandbox.world import World, is_found

STATIC, SMART = 1002, 1001  # lists of seed 0
KBC = "BE0403227515"
UNKNOWN = "BE0403227516"  # the check digits are wrong
DATASETS = ("financials", "lookalikes", "relationships")


class Api:
    """Calls to a sandbox."""

    def __init__(self, sandbox, connection):
        self.sandbox, self.connection = sandbox, connection

    def call(self, method, path, **arguments):
        headers = {"Authorization": f"Bearer {self.sandbox.token}", **(arguments.pop("headers", None) or {})}
        return self.connection.request(method, self.sandbox.base_url + path, headers=headers, **arguments)

    def single(self, dataset, company, **query):
        return self.call("GET", f"/v1/companies/{company[:2]}/{company[2:]}/{dataset}", params=query)

    def bulk(self, dataset, companies, headers=None, **more):
        body = {"companies": [{"countryCode": one[:2], "companyNumber": one[2:]} for one in companies], **more}
        return self.call("POST", f"/v1/companies/{dataset}", json=body, headers=headers)

    def lists(self, **query):
        return self.call("GET", "/v1/lists", params=query)

    def add_contacts(self, number, contacts):
        entries = [
            {
                "company": {"countryCode": company[:2], "companyNumber": company[2:]},
                "contacts": [{"contactId": contact} for contact in ids],
            }
            for company, ids in contacts.items()
        ]
        return self.call("PUT", f"/v1/lists/{number}/contacts", json={"companyContacts": entries})

    def summary(self):
        return self.sandbox.ledger(summary=True)["summary"]


@pytest.fixture(scope="session")
def connection():
    with httpx.Client(trust_env=False, timeout=10) as client:
        yield client


@pytest.fixture
def api(sandbox, connection):
    return Api(sandbox, connection)


@pytest.fixture(scope="session")
def companies():
    """Some companies that are found in week 0 of seed 0."""
    sample = sample_numbers(400, seed=5)
    return [country + number for country, number in sample if is_found(World(), parse_number(country, number) or 0)]
