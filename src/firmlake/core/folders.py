"""Where things are: the paths inside a data folder, and the addresses of object stores."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec

from firmlake.core.errors import UsageError
from firmlake.core.files import find_group
from firmlake.core.settings import PROFILE, Settings


class Folders(msgspec.Struct, frozen=True):
    """The folders inside a data folder; no other module spells them."""

    data: Path
    made: Path | None = None  # for files that can be rebuilt from landed answers (staged, warehouse); None is `data`
    readers: int | None = None  # number of the group that may read the warehouse and the report; None is only the owner

    @classmethod
    def of(cls, settings: Settings) -> Folders:
        """Return the folders of the settings; SettingsError if `paths.readers` names no group of this system."""
        return cls(Path(settings.paths.data), readers=find_group(settings.paths.readers))

    @classmethod
    def existing(cls, settings: Settings) -> Folders:
        """Return the folders of the settings, for work on what is there: a mistyped name must not make a folder.

        If there is no such data folder, that is a UsageError.
        """
        folders = cls.of(settings)
        if not folders.data.is_dir():
            raise UsageError(
                f"The data folder {folders.data.absolute()} does not exist",
                "Correct --data or paths.data; `firmlake run LIST` makes a new one, `firmlake demo` needs no key",
            )
        return folders

    @property
    def warehouse(self) -> Path:
        """The generations of the warehouse, and the link to the newest."""
        return (self.made or self.data) / "warehouse"

    def generation(self, number: int) -> Path:
        """The file of a generation."""
        return self.warehouse / f"gen_{number:06}.duckdb"

    def held(self, number: int) -> Path:
        """The file of a generation that a gate holds back."""
        return self.warehouse / f"held_{number:06}.duckdb"

    @property
    def state(self) -> Path:
        """The lock, and the name of the service that the folder belongs to."""
        return self.data / "state"

    @property
    def profile(self) -> Path:
        """The settings that fit the service, as the first run found them."""
        return self.data / PROFILE

    @property
    def tombstones(self) -> Path:
        """Who is forgotten, as keyed hashes."""
        return self.state / "forgotten.json"

    @property
    def inputs(self) -> Path:
        """Copies of lists that came from a pipe, a query or a store, so that a run over them can resume."""
        return self.state / "inputs"

    @property
    def landed(self) -> Path:
        """Everything that landed: lists, answers of runs, overviews of the service lists, and additions of contacts."""
        return self.data / "landing"

    def landing(self, run_id: str, shard: int | None = None) -> Path:
        """The segments of a shard; without a number, the folder with those of all shards."""
        folder = self.landed / f"run={run_id}"
        return folder if shard is None else folder / f"shard={shard:05}"

    def log(self, run_id: str) -> Path:
        """The segments that say how a run began and ended."""
        return self.landing(run_id) / "log"

    @property
    def lists(self) -> Path:
        """The lists as they were read, each named after its content; see `firmlake.intake.lines`."""
        return self.landed / "lists"

    @property
    def list_names(self) -> Path:
        """A record for each company list that was renamed or removed."""
        return self.landed / "list_names"

    @property
    def overviews(self) -> Path:
        """One folder for each overview of the service lists."""
        return self.landed / "service_lists"

    @property
    def additions(self) -> Path:
        """One folder for each plan of contacts that was applied."""
        return self.landed / "contacts"

    @property
    def plans(self) -> Path:
        """The plans of contacts that a flow made."""
        return self.data / "plans"

    def staged(self, run_id: str) -> Path:
        """The staged tables of a run, one folder of Parquet files for each."""
        return (self.made or self.data) / "staged" / f"run={run_id}"


_CREDENTIALS: Final = re.compile(r"[?#]|^[^/]*:[^/]*@")
"""A signature in the query, as Azure hands them out, or a password before the host."""


def check_address(address: str) -> None:
    """Raise UsageError if the address of a store holds credentials, because addresses are printed, logged and recorded.

    That is a password, a query or a fragment. The message does not quote it.
    """
    scheme, _, place = address.partition("://")
    if _CREDENTIALS.search(place):
        raise UsageError(
            f"The {scheme}:// address holds a password, a query or a fragment, but addresses are printed and recorded",
            "Give bucket and path only, and keep credentials in the store's environment variables",
        )
