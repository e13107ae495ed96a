"""The runs of a data folder: how each began and ended, which are unfinished, and what they ask for.

    landing/run=<id>/log/00001.zst            what happened to the run, one record in each segment, see `LOG`
    landing/run=<id>/targets-<hash>.parquet   what it asks for
    landing/lists/<hash>.parquet              the list that it is about, see `firmlake.intake.lines`

The log is made of segments like those of answers (`landing.segments`): checksummed, written durably, and after a kill
complete or not there. The newest record of a kind counts. The record `begun` has the hashes of both tables.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from firmlake.core.company import COUNTRIES
from firmlake.core.errors import DamagedError
from firmlake.core.files import sha256_of, sync_folder, write_parquet
from firmlake.core.folders import Folders
from firmlake.core.settings import ContractSettings, NameSettings
from firmlake.landing.segments import Header, Landed, SegmentWriter, list_segments, read_segment

BEGUN, CHARGED, ENDED, PRUNED, UNCHANGED = "begun", "charged", "ended", "pruned", "unchanged"
LOG = frozenset([BEGUN, CHARGED, ENDED, PRUNED, UNCHANGED])
"""Kinds of records of a run's log, whose bodies are JSON. A run that was taken up or forgotten from begins again; the
service charged for a free refresh; a run that was refused may end again; the answers of a pruned run were removed; a
later run over the same list had nothing to load."""

CHECK, LOOKUP = "firmlake check", "firmlake company "
"""The list name of a run of that command; the company follows."""
REDRIVE = "redrive"
"""The list name of a run that asks again for companies that failed."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule about the rows of a relation, as read and checked by `firmlake.warehouse.rules`."""

    name: str
    says: str  # what the rule watches for, as a sentence
    list_name: str = ""  # the company list that the rule is for; empty for all companies
    view: str  # the relation that the rule reads
    when: dict[str, str]  # the comparison for each column, such as "< 0"; all of them must be true

    @property
    def condition(self) -> str:
        """The view and the comparisons, for people to read."""
        compared = " and ".join(f"{column} {comparison}" for column, comparison in self.when.items())
        return f"{self.view}: {compared}" if compared else self.view


class AlertRule(Rule, frozen=True, kw_only=True):
    """A rule that raises alerts for companies that meet it; its severity is "high", "medium" or "low"."""

    severity: str


class Gate(Rule, frozen=True, kw_only=True):
    """A rule that decides whether a generation is published.

    `publish_if` says what must be true of the number of rows that meet the rule, or with % of their share, such as ">=
    95 %", "= 0" or ">= last - 10 %", where `last` is the same of the generation published last.
    """

    publish_if: str


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a run asks for, and under which settings; recorded before its first request."""

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
    files: dict[str, str] = {}
    """Checksums of `list` and `targets`, which name their files: Parquet may read a flipped bit as another value."""
    resume: str = ""
    """How to resume the run, as the end of a sentence; empty if by running its list again."""
    company_list: str = ""
    """Name under which the company list is kept; empty if the companies come from no list."""
    firmlake_version: str
    refresh_after_days: int = 30
    credit_window_days: int = 30
    lookalikes_watched: int = 10
    refresh_count: int = 0
    """Companies refreshed for free, in the last days of their paid window."""
    forgotten_count: int = 0
    """Companies outside their paid window that were forgotten since: what they cost is still charged."""
    sample: int = 0
    """How many companies of its list a sample has; 0 for the whole list."""
    list_before: tuple[int, int] | None = None
    """Companies and refused lines in the version of the list before; None if there is none to compare with."""
    budget: str = ""
    """The setting that limits the credits of this run, with what it allows; empty for `run.max_credits`."""
    trusts_totals: bool = True
    """Whether the totals of pages count all records of a company; see `api.totals`."""
    names: NameSettings = NameSettings()
    """The service's names, frozen because a replay reads the landed answers with them."""
    contract: ContractSettings = ContractSettings()
    """How answers are read; `Run.read_by` replaces it."""
    alert_rules: tuple[AlertRule, ...] | None = None
    """The rules that raise alerts, frozen because a replay raises them again; None leaves all alerts as they are."""
    gates: tuple[Gate, ...] | None = None
    """The rules that decide whether the generation with this run is published; None publishes it."""

    @property
    def subject(self) -> tuple[str, tuple[str, ...], str]:
        """The list or command by name, datasets and language: a call takes up an interrupted run of its subject."""
        return (self.company_list or self.list_name).casefold(), self.datasets, self.language

    @property
    def again(self) -> str:
        """Return how to resume the run, as the end of a sentence."""
        default = "`firmlake redrive`" if self.list_name == REDRIVE else self.list_name
        return self.resume or f"run {default} again"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How fetching ended; recorded before anything is published.

    It is "done", "some_failed" or "stopped" if nothing more will land; "refused" if drift keeps the run from being
    published.
    """

    run_id: str
    finished_at: datetime
    outcome: str
    reason: str = ""  # why the outcome is not "done"
    next_step: str = ""
    vanished_share: float = 0.0  # the largest share of records that lack a known field, if the run was refused

    @property
    def is_refused(self) -> bool:
        """Whether the run stays unpublished until `run.vanished_share_max` exceeds `vanished_share`."""
        return self.outcome == "refused"


class Run(msgspec.Struct, frozen=True):
    """A run: its folders and what it asks for."""

    folders: Folders
    plan: RunPlan

    def read_by(self, contract: ContractSettings) -> Run:
        """Return the same run with other settings for reading its answers."""
        return Run(self.folders, msgspec.structs.replace(self.plan, contract=contract))

    def with_list(self, stored: Path) -> Run:
        """Return the same run with another file of its list, as `firmlake.intake.lines.store_lines` gives it."""
        return Run(self.folders, msgspec.structs.replace(self.plan, files={**self.plan.files, "list": stored.stem}))

    @property
    def run_id(self) -> str:
        """The run's name."""
        return self.plan.run_id

    def log(self) -> dict[str, Landed]:
        """Read the newest record of each kind in the run's log; see `read_log`."""
        return read_log(self.folders, self.run_id)

    @property
    def has_landed(self) -> bool:
        """Whether there is a folder of answers; those of a pruned run are gone."""
        return any(self.folders.landing(self.run_id).glob("shard=*"))

    @property
    def begun(self) -> list[int]:
        """The shards for which an answer has landed, in order."""
        shards = range(1, self.plan.shard_count + 1)
        return [shard for shard in shards if list_segments(self.folders.landing(self.run_id, shard))]

    def scan_targets(self) -> pl.LazyFrame:
        """Scan the run's targets, of which there may be millions; DamagedError if the file does not match its checksum.

        Returns:
            One row per company and dataset, in list order: shard (0 holds targets that a budget left out), country,
            company_number, dataset, expected_count, is_paid, free_until (UTC; until when it is paid), is_refresh,
            has_failed, is_barred.
        """
        narrow = pl.Schema({"shard": pl.Int32(), "country": pl.Enum(COUNTRIES), "dataset": pl.Enum(self.plan.datasets)})
        return pl.scan_parquet(self.checked("targets"), glob=False).cast(narrow)  # texts would take twice the memory

    def targets(self, shard: int | None = None) -> pl.DataFrame:
        """Read the targets of a shard, or of all shards if it is None; see `scan_targets`."""
        frame = self.scan_targets()
        return (frame if shard is None else frame.filter(pl.col("shard") == shard)).collect()

    def shards(self) -> range:
        """Return the shard numbers; shard 0 is never fetched, see `scan_targets`."""
        has_rest = self.scan_targets().select(pl.col("shard").min()).collect().item() == 0
        return range(0 if has_rest else 1, self.plan.shard_count + 1)

    def companies(self) -> pl.DataFrame:
        """Read the companies that the run is about: those of its list, or of its sample of the list."""
        key = ["country", "company_number"]
        lines = pl.scan_parquet(self.checked("list"), glob=False).filter(status="accepted").select(key)
        if self.plan.sample:
            lines = lines.join(self.scan_targets().select(pl.col(key).cast(pl.String)), on=key, how="semi")
        return lines.unique(maintain_order=True).collect()

    def outcome(self) -> Outcome | None:
        """Read how fetching ended; None while it has not ended."""
        ended = self.log().get(ENDED)
        return msgspec.json.decode(ended.body, type=Outcome) if ended else None

    @property
    def is_fetched(self) -> bool:
        """Whether fetching ended and the answers were not refused, so that nothing more will land."""
        outcome = self.outcome()
        return outcome is not None and not outcome.is_refused

    def finish(self, outcome: str, reason: str, now: datetime, **further: Any) -> Outcome:
        """Record how fetching ended; `further` are other fields of `Outcome`."""
        result = Outcome(run_id=self.run_id, finished_at=now, outcome=outcome, reason=reason, **further)
        self.note(ENDED, result, now)
        return result

    @property
    def is_pruned(self) -> bool:
        """Whether the landed answers were pruned, so that only the staged tables remain."""
        return PRUNED in self.log()

    def mark_pruned(self, now: datetime) -> None:
        """Record that the landed answers will be removed; call this before you remove them."""
        self.note(PRUNED, None, now)

    def note(self, kind: str, content: object, now: datetime) -> None:
        """Add a record to the run's log, in place of one of its kind; see `LOG`."""
        header = Header(kind=kind, run_id=self.run_id, shard=0, dataset="", companies=(), fetched_at=now)
        folder = self.folders.log(self.run_id)
        before = [path for path in list_segments(folder) if any(one.header.kind == kind for one in read_segment(path))]
        with SegmentWriter(folder) as log:
            log.append(header, msgspec.json.encode(content))
        for path in before:
            path.unlink()

    def path(self, name: str) -> Path:
        """Return the path of a table, `list` or `targets`; DamagedError if a development version wrote the run."""
        if name not in self.plan.files:
            raise DamagedError(f"Run {self.run_id} was written by an earlier version", "Convert it: `firmlake replay`")
        sha256 = self.plan.files[name]
        if name == "list":
            return self.folders.lists / f"{sha256}.parquet"
        return self.folders.landing(self.run_id) / f"{name}-{sha256[:12]}.parquet"

    def checked(self, name: str) -> Path:
        """Return the path of a table; DamagedError if the file is missing or does not match its checksum."""
        path = self.path(name)
        if not path.exists() or _sha256_of_file(path, *_LOOK(path.stat())) != self.plan.files[name]:
            step = plan_lost(self.folders, self.run_id, is_list=name == "list" and bool(self.plan.company_list))
            raise DamagedError(f"{path} is missing or does not match its checksum", step)
        return path

    def check(self) -> list[Path]:
        """Check the list and the targets as `checked` does, and return their paths."""
        return [self.checked(name) for name in ("list", "targets")]


_LOOK = attrgetter("st_ino", "st_size", "st_mtime_ns")


@lru_cache(maxsize=64)
def _sha256_of_file(path: Path, *_: int) -> str:
    """Hash a file. Cached while inode, size and time stay the same, because every shard checks the same file."""
    return sha256_of(path)


def new_run_id(now: datetime) -> str:
    """Make the name of a run from its start time, so that names sort by time."""
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"


def open_run(folders: Folders, run_id: str) -> Run:
    """Open a run by its name; DamagedError if its plan cannot be read."""
    log = read_log(folders, run_id)
    if BEGUN not in log:
        raise log_lost(folders, run_id)
    try:
        return Run(folders, msgspec.json.decode(log[BEGUN].body, type=RunPlan))
    except msgspec.DecodeError as error:
        raise DamagedError(f"{log[BEGUN].path} cannot be read: {error}", plan_lost(folders, run_id)) from None


def read_log(folders: Folders, run_id: str) -> dict[str, Landed]:
    """Read the newest record of each kind in a run's log; after a DamagedError, restore the file from a copy."""
    try:
        records = (landed for path in list_segments(folders.log(run_id)) for landed in read_segment(path))
        return {landed.header.kind: landed for landed in records}
    except DamagedError as error:
        raise DamagedError(error.message, plan_lost(folders, run_id)) from None


def log_lost(folders: Folders, run_id: str) -> DamagedError:
    """Return the error for a run whose log does not say how it began, or how it ended although it was loaded."""
    return DamagedError(f"{folders.log(run_id)} lacks a record of the run", plan_lost(folders, run_id))


def plan_lost(folders: Folders, run_id: str, *, is_list: bool = False) -> str:
    """Return the next step for a lost log, targets or list; landed answers can be read without the list."""
    landing = folders.landing(run_id)
    first = (
        "Run its list again, which writes the file anew unless the list has changed; otherwise restore it from a copy."
        if is_list
        else "Restore it from a copy. If the run was not published and there is no copy, move "
        f"{landing} elsewhere and run its list again: the service charges no company twice inside its paid window."
    )
    return (
        f"{first} If the run was published, the warehouse has what it fetched: runs and queries go on, and only "
        "archive, forget, replay and verify need the file. For `firmlake replay` without this run, move "
        f"{landing} and {Folders(folders.data).warehouse} elsewhere: the next run asks again for what only this one "
        "fetched"
    )


def list_runs(folders: Folders, published: Collection[str] = ()) -> list[Run]:
    """List the runs that began, oldest first.

    Published ones are left out if they cannot be read; others are a DamagedError.
    """
    runs, damaged = read_runs(folders)
    for run_id, error in damaged.items():
        if run_id not in published:
            raise error
    return runs


def read_runs(folders: Folders) -> tuple[list[Run], dict[str, DamagedError]]:
    """Return the runs that began, oldest first, and the errors of those that cannot be read, by name."""
    runs, damaged = [], {}
    for run_id in run_ids(folders):
        try:
            run = open_run(folders, run_id)
            run.outcome()
            runs.append(run)
        except DamagedError as error:
            damaged[run_id] = error
    return sorted(runs, key=lambda run: run.plan.started_at), damaged  # names hold whole seconds only


def run_ids(folders: Folders) -> list[str]:
    """List the names of the runs that began or have landed answers, in order."""
    segments = (*folders.landed.glob("run=*/log/*.zst"), *folders.landed.glob("run=*/shard=*/*.zst"))
    return sorted({path.parent.parent.name.removeprefix("run=") for path in segments if path.stat().st_size})


def unfinished_runs(runs: Sequence[Run], loaded: Collection[str]) -> list[Run]:
    """List the unpublished runs after which no run of the same subject was published, oldest first; `runs` are all."""
    replaced: set[tuple[object, int]] = set()
    found = []
    for run in reversed(runs):
        if run.run_id in loaded:
            replaced.add((run.plan.subject, run.plan.sample))
        elif replaced.isdisjoint((run.plan.subject, sample) for sample in (0, run.plan.sample)):
            found.append(run)
    return found[::-1]


def begin(run: Run, targets: pl.DataFrame | None = None) -> Run:
    """Record that a run begins, or begins again, and return it with its targets; None leaves those as they are.

    What it replaces goes after that, so a kill leaves it whole.
    """
    _remove_never_started(run.folders)
    if targets is not None:
        aside = run.folders.landing(run.run_id) / ".targets.part"
        write_parquet(aside, targets)
        files = {**run.plan.files, "targets": sha256_of(aside)}
        run = Run(run.folders, msgspec.structs.replace(run.plan, files=files))
        aside.replace(run.path("targets"))
        sync_folder(aside.parent)
    run.note(BEGUN, run.plan, run.plan.started_at)
    remove_rests(run)
    return run


def remove_rests(run: Run) -> None:
    """Remove targets that a run does not name: replaced, or left by a crash."""
    for path in run.folders.landing(run.run_id).iterdir():
        if path.suffix in (".parquet", ".part") and path != run.path("targets"):
            path.unlink()


def remove_unused_lists(folders: Folders) -> None:
    """Remove the lists that no run names; none as long as there are runs that cannot be read."""
    runs, damaged = read_runs(folders)
    named = {run.path("list") for run in runs if "list" in run.plan.files}
    for path in () if damaged else folders.lists.glob("*"):
        if path not in named:
            path.unlink()


def remove_run(run: Run) -> None:
    """Remove a run without usable answers; its log goes after them, because answers without a log look like a loss."""
    landing = run.folders.landing(run.run_id)
    for folder in (*landing.glob("shard=*"), landing):
        shutil.rmtree(folder, ignore_errors=True)


def _remove_never_started(folders: Folders) -> None:
    """Remove folders without a record, left by a crash before a run started; nothing can have landed for them."""
    begun = set(run_ids(folders))
    for folder in folders.landed.glob("run=*"):
        if folder.name.removeprefix("run=") not in begun:
            shutil.rmtree(folder, ignore_errors=True)
