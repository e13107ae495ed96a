"""A lake of thirty companies, for tests with another service."""

from __future__ import annotations

from shutil import copytree

from lake import Lake
from support import query

COUNT = 30


class Desk(Lake):
    """A data folder, a list and the command line on them."""

    def __init__(self, folder, service):
        super().__init__(folder, service, COUNT)

    def copy(self, folder, service):
        """Give a desk with the same data folder, list and settings, and with another service of the same name."""
        copytree(self.folder, folder, dirs_exist_ok=True, symlinks=True)
        desk = Desk(folder, service)
        desk.write(self.numbers)
        own = {name: value.replace(str(self.folder), str(folder)) for name, value in self.environment.items()}
        desk.environment = {**own, "FIRMLAKE_API__BASE_URL": service.base_url}
        return desk

    def run(self, *options):
        return self.call("run", str(self.list), *options)

    def statuses(self):
        return set(query(self.folders, "SELECT DISTINCT dataset, status FROM company_state"))

    def status(self):
        return self.call("status", "--json").content

    def silence(self, first, count):
        """Let the service say nothing about some companies of the list, which then fail."""
        silent = ("".join(company) for company in self.numbers[first:][:count])
        self.service.unsaid = {name.replace("BE0", "BE") for name in silent}
