"""A lake of thirty companies, for tests with another service."""

from __future__ import annotations

from lake import Lake
from support import query

COUNT = 30


class Desk(Lake):
    """A data folder, a list and the command line on them."""

    def __init__(self, folder, service):
        super().__init__(folder, service, COUNT)

    def write_companies(self, numbers):
        self.write(numbers)

    def run(self, *options):
        return self.call("run", str(self.list), *options)

    def statuses(self):
        return set(query(self.folders, "SELECT DISTINCT dataset, status FROM company_state"))

    def status(self):
        return self.call("status", "--json").content
