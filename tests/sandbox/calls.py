"""Calls to the service under test."""

from typing import Any

import httpx

from firmlake_sandbox import Sandbox


class Api:
    """A client without any wits; a company is written as BE0403227515."""

    def __init__(self, sandbox: Sandbox, connection: httpx.Client) -> None:
        self.sandbox, self.connection = sandbox, connection

    def call(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.sandbox.token}", **arguments.pop("headers", {})}
        return self.connection.request(method, self.sandbox.base_url + path, headers=headers, **arguments)

    def single(self, dataset: str, company: str, **query: object) -> httpx.Response:
        return self.call("GET", f"/v1/companies/{company[:2]}/{company[2:]}/{dataset}", params=query)

    def bulk(
        self, dataset: str, companies: list[str], headers: dict[str, str] | None = None, **more: object
    ) -> httpx.Response:
        body = {"companies": [{"countryCode": one[:2], "companyNumber": one[2:]} for one in companies], **more}
        return self.call("POST", f"/v1/companies/{dataset}", json=body, headers=headers or {})

    def add_contacts(self, number: int, contacts: dict[str, list[str]]) -> httpx.Response:
        entries = [
            {
                "company": {"countryCode": company[:2], "companyNumber": company[2:]},
                "contacts": [{"contactId": contact} for contact in ids],
            }
            for company, ids in contacts.items()
        ]
        return self.call("PUT", f"/v1/lists/{number}/contacts", json={"companyContacts": entries})

    def summary(self) -> dict[str, Any]:
        summary: dict[str, Any] = self.sandbox.ledger(summary=True)["summary"]
        return summary
