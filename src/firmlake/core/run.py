"""A run: its name, its folders, the targets it froze at the start, and its outcome."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from pathlib import Path

import msgspec
import polars as pl

from firmlake.core.company import COUNTRIES
from firmlake.core.errors import DamagedError
from firmlake.core.files import find_group, read_json, sha256_of, write_file, write_json, write_parquet
from firmlake.core.settings import ContractSettings, NameSettings, Settings

__all__ = [
    "OUTCOME_LOST",
    "REDRIVE",
    "Folders",
    "Frozen",
    "Outcome",
    "Run",
    "RunPlan",
    "freeze_again",
    "list_runs",
    "new_run_id",
    "open_run",
    "open_runs",
    "plan_lost",
    "read_runs",
    "remove_run",
    "restore_outcome",
    "start_run",
]


class Folders(msgspec.Struct, frozen=True):
    """Where everything lives below the data folder; no other module spells these paths.

    Attributes:
        data: The data folder.
        made: Where to put what can be made again from the landed answers (staged, warehouse); None is the data folder.
        readers: Group (its number) that may read the warehouse and the report; None is nobody but the owner.
    """

    data: Path
    made: Path | None = None
    readers: int | None = None

    @classmethod
    def of(cls, settings: Settings) -> Folders:
        """Find the folders of the settings.

        Raises:
            SettingsError: `paths.readers` names no group of this system.
        """
        return cls(Path(settings.paths.data), readers=find_group(settings.paths.readers))

    @property
    def warehouse(self) -> Path:
        """Generations of the DuckDB file, and the link to the newest."""
        return (self.made or self.data) / "warehouse"

    @property
    def state(self) -> Path:
        """The lock and what service the folder belongs to."""
        return self.data / "state"

    @property
    def list_names(self) -> Path:
        """Log of the company lists that were renamed or removed."""
        return self.state / "list_names.json"

    @property
    def runs(self) -> Path:
        """One folder for each run's plan and outcome."""
        return self.data / "runs"

    def run(self, run_id: str) -> Path:
        """Plan, targets, refused lines and outcome of a run."""
        return self.runs / run_id

    def landing(self, run_id: str, shard: int) -> Path:
        """Segments of a shard."""
        return self.data / "landing" / f"run={run_id}" / f"shard={shard:05}"

    @property
    def overviews(self) -> Path:
        """One folder for each overview of the service lists that was taken."""
        return self.data / "landing" / "service_lists"

    @property
    def additions(self) -> Path:
        """One folder for each plan of contacts that was applied."""
        return self.data / "landing" / "contacts"

    def staged(self, run_id: str) -> Path:
        """Parquet of a run, a folder for each table."""
        return (self.made or self.data) / "staged" / f"run={run_id}"


REDRIVE = "redrive"
"""In place of the name of a list: the companies that failed."""


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a run set out to do, frozen before its first request."""

    run_id: str
    started_at: datetime
    list_name: str
    list_sha256: str
    service: str
    language: str
    datasets: tuple[str, ...]
    line_count: int
    company_count: int
    refused_count: int
    repeated_count: int
    fresh_count: int
    target_count: int
    shard_count: int
    sha256: dict[str, str] = {}
    """Of the frozen tables, by name: Parquet may read a flipped bit as another value."""
    files: dict[str, str] = {}
    """File of a frozen table where that is not its name, because it was frozen again."""
    company_list: str = ""
    """Name under which the list is kept; empty where the companies are of no list."""
    list_columns: tuple[str, ...] = ()
    """Columns of the list that are kept, in its order."""
    firmlake_version: str
    refresh_after_days: int = 30
    credit_window_days: int = 30
    lookalikes_watched: int = 10
    names: NameSettings = NameSettings()
    """How the service spells things, frozen because landed answers are read by it again."""
    contract: ContractSettings = ContractSettings()
    """How its answers are read; `Run.read_by` reads them in another way."""

    @property
    def subject(self) -> tuple[str, tuple[str, ...], str]:
        """What it is about: a run can go on for another with the same."""
        return self.list_sha256, self.datasets, self.language

    @property
    def again(self) -> str:
        """Say how to go on with it, as the end of a sentence."""
        return "run `firmlake redrive` again" if self.list_name == REDRIVE else f"run {self.list_name} again"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How fetching ended; written before anything is published.

    Attributes:
        outcome: "done", "some_failed" or "stopped": nothing more will land. "refused": it is not published.
        reason: Why it is not "done".
        next_step: What to do about that; empty in a run of an earlier version.
        vanished_share: Of a refused one: the largest share of records that lack a known field.
    """

    run_id: str
    finished_at: datetime
    outcome: str
    reason: str = ""
    next_step: str = ""
    vanished_share: float = 0.0

    @property
    def is_refused(self) -> bool:
        """Whether it is not published as long as `run.vanished_share_max` is less."""
        return self.outcome == "refused"


class Run(msgspec.Struct, frozen=True):
    """A run on disk."""

    folders: Folders
    plan: RunPlan

    def read_by(self, contract: ContractSettings) -> Run:
        """Give the same run with its answers read under other settings."""
        return Run(self.folders, msgspec.structs.replace(self.plan, contract=contract))

    @property
    def run_id(self) -> str:
        """The run's name."""
        return self.plan.run_id

    @property
    def folder(self) -> Path:
        """The run's own folder."""
        return self.folders.run(self.run_id)

    def targets(self, shard: int | None = None) -> pl.DataFrame:
        """Read what is asked for.

        Returns:
            One row per company and dataset: shard, country, company_number, dataset, expected_count, is_paid,
            has_failed, is_barred, held_hash (false and null in a run that an earlier version froze); in list order.

        Raises:
            DamagedError: The file is not what was written.
        """
        frame = pl.scan_parquet(self.checked("targets"), glob=False)
        added = {"held_hash": pl.lit(None, pl.UInt64), "is_barred": pl.lit(value=False)}
        known = frame.collect_schema()
        frame = frame.with_columns(value.alias(name) for name, value in added.items() if name not in known)
        narrow = pl.Schema({"shard": pl.Int32(), "country": pl.Enum(COUNTRIES), "dataset": pl.Enum(self.plan.datasets)})
        frame = frame.cast(narrow)  # there may be millions, and texts take twice the memory
        return (frame if shard is None else frame.filter(pl.col("shard") == shard)).collect()

    def barred_datasets(self) -> list[str]:
        """List the datasets that were given up when they were last asked for, as far as this run asks for them."""
        frame = pl.scan_parquet(self.checked("targets"), glob=False)
        if "is_barred" not in frame.collect_schema():
            return []
        return (
            frame.filter("is_barred").select(pl.col("dataset").cast(pl.String).unique()).collect()["dataset"].to_list()
        )

    def shards(self) -> range:
        """Number the shards; 0 holds what a budget left out, and is never fetched."""
        shard = pl.scan_parquet(self.checked("targets"), glob=False).select(pl.col("shard").min())
        has_rest = shard.collect().item() == 0
        return range(0 if has_rest else 1, self.plan.shard_count + 1)

    def table(self, name: str) -> pl.DataFrame:
        """Read `companies`, `repaired` or `refused_lines` of the list as frozen at the start.

        Raises:
            DamagedError: The file is not what was written.
        """
        return pl.read_parquet(self.checked(name), glob=False)

    def outcome(self) -> Outcome | None:
        """Read how fetching ended; None while it has not.

        Raises:
            DamagedError: The file is not what was written.
        """
        path = self.folder / "outcome.json"
        return read_json(path, Outcome, OUTCOME_LOST) if path.exists() else None

    @property
    def is_fetched(self) -> bool:
        """Whether nothing more will land: fetching ended, and what came was not refused."""
        outcome = self.outcome()
        return outcome is not None and not outcome.is_refused

    def finish(
        self, outcome: str, reason: str, now: datetime, vanished_share: float = 0.0, next_step: str = ""
    ) -> Outcome:
        """Record how fetching ended."""
        result = Outcome(
            run_id=self.run_id,
            finished_at=now,
            outcome=outcome,
            reason=reason,
            next_step=next_step,
            vanished_share=vanished_share,
        )
        write_json(self.folder / "outcome.json", result)
        return result

    @property
    def is_pruned(self) -> bool:
        """Whether its landed answers were given up, so that its staged tables are all there is."""
        return (self.folder / "pruned.json").exists()

    def mark_pruned(self) -> None:
        """Record that its landed answers are given up, before they go."""
        write_json(self.folder / "pruned.json", {"landed": True})

    def checked(self, name: str) -> Path:
        """Find the file of a frozen table, and make sure that it is what was written.

        Raises:
            DamagedError: It is not.
        """
        path = self.folder / self.plan.files.get(name, f"{name}.parquet")
        if not path.exists() or _hash(path, *_LOOK(path.stat())) != self.plan.sha256.get(name):
            raise DamagedError(f"{path} is missing or not what was written", plan_lost(self.folders, self.run_id))
        return path


_LOOK = attrgetter("st_ino", "st_size", "st_mtime_ns")


@lru_cache(maxsize=64)
def _hash(path: Path, *_: int) -> str:
    """Hash a frozen file once for as long as it looks the same: every shard of a run asks for the file of all."""
    return sha256_of(path)


def new_run_id(now: datetime) -> str:
    """Name a run by its start, so that names sort by time."""
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"


Frozen = pl.DataFrame | Callable[[Path], object]
"""A table to freeze, or what writes its file."""


def start_run(folders: Folders, plan: RunPlan, targets: pl.DataFrame, tables: Mapping[str, Frozen]) -> Run:
    """Freeze a plan; `plan.json` is written last, so that a run exists whole or not at all."""
    _remove_never_started(folders)
    return _freeze(Run(folders, plan), {**tables, "targets": targets})


def freeze_again(run: Run, plan: RunPlan, tables: Mapping[str, Frozen]) -> Run:
    """Freeze some tables of a run anew, under other names, so that the run is whole with the old ones or the new.

    Args:
        run: The run.
        plan: Its plan with what changes beside.
        tables: The tables.
    """
    mark = secrets.token_hex(3)
    files = {name: f"{name}-{mark}.parquet" for name in tables}
    old = [run.folder / run.plan.files.get(name, f"{name}.parquet") for name in tables]
    again = _freeze(Run(run.folders, msgspec.structs.replace(plan, files={**run.plan.files, **files})), tables)
    for path in old:
        path.unlink(missing_ok=True)
    return again


def remove_run(run: Run) -> None:
    """Remove a run of which no answer landed; its plan goes last, for landed files without one look like a loss."""
    shutil.rmtree(run.folders.landing(run.run_id, 1).parent, ignore_errors=True)
    shutil.rmtree(run.folder, ignore_errors=True)


def open_run(folders: Folders, run_id: str) -> Run:
    """Open a run by its name.

    Raises:
        DamagedError: Its plan cannot be read.
    """
    return Run(folders, read_json(folders.run(run_id) / "plan.json", RunPlan, plan_lost(folders, run_id)))


def list_runs(folders: Folders, published: Collection[str] = ()) -> list[Run]:
    """List the runs whose plan was frozen, oldest first.

    Args:
        folders: Where.
        published: Names of runs that one can do without here: they are left out where they cannot be read.

    Raises:
        DamagedError: The plan or the outcome of another cannot be read.
    """
    runs, damaged = read_runs(folders)
    for run_id, error in damaged.items():
        if run_id not in published:
            raise error
    return runs


def read_runs(folders: Folders) -> tuple[list[Run], dict[str, DamagedError]]:
    """List the runs whose plan was frozen, oldest first; and by name those whose plan or outcome cannot be read."""
    runs, damaged = [], {}
    for path in sorted(folders.runs.glob("*/plan.json")):
        try:
            run = open_run(folders, path.parent.name)
            run.outcome()
            runs.append(run)
        except DamagedError as error:
            damaged[path.parent.name] = error
    return sorted(runs, key=lambda run: run.plan.started_at), damaged  # names tell it by the second


def restore_outcome(folders: Folders, known: Outcome) -> None:
    """Write again how a run ended, where its folder is there and that cannot be read in it."""
    path = folders.run(known.run_id) / "outcome.json"
    try:
        read_json(path, Outcome)
    except DamagedError:
        if path.parent.exists():
            write_json(path, known)


OUTCOME_LOST = (
    "Restore it from a copy; where the run was published, `firmlake replay` writes it again from the warehouse, else "
    "remove it and run the list again"
)
"""What to do about an outcome that is lost."""


def plan_lost(folders: Folders, run_id: str) -> str:
    """Say what to do about a plan that is lost, or a frozen table, and what is lost with it where there is no copy."""
    return (
        "Restore it from a copy. Without one, what only this run fetched is lost: remove "
        f"{folders.run(run_id)} and {folders.landing(run_id, 1).parent}; where the run was published, "
        f"{Folders(folders.data).warehouse} too, then `firmlake replay`; else run its list again"
    )


def open_runs(runs: Sequence[Run], loaded: Collection[str]) -> list[Run]:
    """List the runs that are not in the warehouse and that no later one has replaced there, oldest first.

    Args:
        runs: As `list_runs` gives them.
        loaded: Names of those in the warehouse.
    """
    replaced: set[tuple[object, ...]] = set()
    found = []
    for run in reversed(runs):
        if run.run_id in loaded:
            replaced.add(run.plan.subject)
        elif run.plan.subject not in replaced:
            found.append(run)
    return found[::-1]


# ---------------------------------------------------------------------------------------------------------------------


def _freeze(run: Run, tables: Mapping[str, Frozen]) -> Run:
    sha256 = dict(run.plan.sha256)
    for name, table in tables.items():
        path = run.folder / run.plan.files.get(name, f"{name}.parquet")
        if isinstance(table, pl.DataFrame):
            write_parquet(path, table)
        else:
            write_file(path, table)
        sha256[name] = sha256_of(path)
    plan = msgspec.structs.replace(run.plan, sha256=sha256)
    write_json(run.folder / "plan.json", plan)
    return Run(run.folders, plan)


def _remove_never_started(folders: Folders) -> None:
    """Remove what a crash left of a run before its plan was written; nothing can have landed of it."""
    for folder in folders.runs.glob("*"):
        if not (folder / "plan.json").exists() and not folders.landing(folder.name, 1).parent.exists():
            shutil.rmtree(folder, ignore_errors=True)
