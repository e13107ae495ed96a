"""Replay: rebuild tables and warehouse from the landed answers of all runs that ended, without sending requests."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import msgspec
import polars as pl

from firmlake.core.errors import DamagedError, FirmlakeError
from firmlake.core.files import read_json, sha256_of, write_file
from firmlake.core.folders import Folders
from firmlake.core.process import give_back
from firmlake.core.settings import ContractSettings, NameSettings, RunSettings
from firmlake.core.work import Clock
from firmlake.intake.lines import LINES, ListColumns, store_lines
from firmlake.landing.run import BEGUN, ENDED, Outcome, Run, RunPlan, begin, list_runs, log_lost, read_log, read_runs
from firmlake.service_lists.load import load_additions, load_overview, newest_applied
from firmlake.service_lists.overview import Overview, list_overviews
from firmlake.tables.index import drop_index
from firmlake.tables.stage import (
    SCHEMA_VERSION,
    Manifest,
    answers_lost,
    check_landed,
    check_staged,
    finish_stage,
    read_manifest,
    stage_shards,
)
from firmlake.warehouse.gates import judge
from firmlake.warehouse.generations import (
    checkpoint,
    connect_to,
    find_held,
    list_generations,
    newest,
    next_number,
    open_warehouse,
    publish,
)
from firmlake.warehouse.list_names import NameChange, record_name_change
from firmlake.warehouse.load import load_run
from firmlake.warehouse.loads import Load, loaded_runs, read_loads
from firmlake.warehouse.schema import create_tables
from firmlake.warehouse.views import create_views


def finished_runs(folders: Folders, loaded: Sequence[str] = ()) -> list[tuple[Run, Outcome]]:
    """List the runs that have ended: first the loaded runs in the order of loading, then the others by their end.

    If a run that was loaded or has landed answers has lost its plan or outcome, its answers would be missing unnoticed.
    The DamagedError says how to restore the file.
    """
    runs, damaged = read_finished(folders, loaded)
    for error in damaged.values():
        raise error
    return runs


def read_finished(
    folders: Folders, loaded: Sequence[str] = ()
) -> tuple[list[tuple[Run, Outcome]], dict[str, DamagedError]]:
    """List the runs as `finished_runs` does, but return errors of damaged runs by name instead of raising them."""
    runs, unreadable = read_runs(folders)
    ended = [(run, outcome) for run in runs if (outcome := run.outcome()) and not outcome.is_refused]
    readable = {run.run_id for run, _ in ended}
    lost = {name: log_lost(folders, name) for name in loaded if name not in readable}
    order = {run_id: position for position, run_id in enumerate(loaded)}
    ended.sort(key=lambda pair: (order.get(pair[0].run_id, len(order)), pair[1].finished_at, pair[0].run_id))
    return ended, lost | unreadable


def restage(run: Run, on_run: Callable[[Run], object] = lambda run: None, processes: int = 1) -> Manifest:
    """Stage a run again from its landed answers, even if it is already staged; one that was pruned keeps its tables.

    If landed answers that were staged before are missing or changed, nothing is removed, and the DamagedError says what
    to restore.
    """
    on_run(run)
    if run.is_pruned:
        return read_pruned(run)
    if recorded := read_manifest(run):
        check_landed(run, recorded)
    run.check()  # first, because staged tables are removed only if they can be made again
    for marker in run.folders.staged(run.run_id).glob("*.json"):
        marker.unlink()
    try:
        return finish_stage(run, stage_shards(run, processes))
    except DamagedError as error:  # it must be a landed answer, because everything else was checked above
        raise DamagedError(error.message, answers_lost(run)) from None


def read_pruned(run: Run) -> Manifest:
    """Read the staged tables of a run whose landed answers were pruned.

    If a file is missing or changed, or an earlier version staged the tables, the DamagedError says what to restore.
    """
    recorded = read_manifest(run)
    if recorded is None or recorded.schema_version != SCHEMA_VERSION:
        raise DamagedError(
            f"Run {run.run_id} cannot be staged again, because its landed answers were pruned",
            f"Restore {run.folders.landing(run.run_id)} from a copy that was made before",
        )
    check_staged(run, recorded)
    return recorded


_DEFAULTS = RunSettings()
NEVER = datetime.min.replace(tzinfo=UTC)


class Content(NamedTuple):
    """The content of a new generation.

    Attributes:
        loads: Earlier loads, whose order is kept. Other runs and overviews follow, ordered by their end.
        is_held: Whether the generation is held back, whatever gates say; what they measured before is kept. None leaves
            it to them.
        number: Its number; None is the next one.
    """

    staged: list[tuple[Run, Outcome, Manifest]]
    overviews: list[Overview]
    loads: Sequence[Load]
    is_held: bool | None = None
    number: int | None = None


def load_staged(folders: Folders, now: Clock, settings: RunSettings) -> Path:
    """Build a generation from runs that are already staged, in the order in which they ended.

    If a staged file is missing or was changed (DamagedError), nothing was published.
    """
    staged = [(run, outcome, read_pruned(run)) for run, outcome in finished_runs(folders)]
    content = Content(staged, find_overviews(folders, (), only_loaded=False), ())
    return publish_content(folders, content, now, settings)


def find_overviews(folders: Folders, loads: Sequence[Load], *, only_loaded: bool) -> list[Overview]:
    """List the overviews to load: those loaded before, and later ones. Older ones would overwrite newer state."""
    landed, names = list_overviews(folders), {load.name for load in loads}
    last = max((one.finished_at for one in landed if one.plan.overview_id in names), default=NEVER)
    return [
        one
        for one in landed
        if one.plan.overview_id in names or not (only_loaded or one.plan.is_look or one.finished_at < last)
    ]


def publish_content(
    folders: Folders,
    content: Content,
    now: Clock,
    settings: RunSettings,
    until: datetime | None = None,
    *,
    is_judged: bool = False,
) -> Path:
    """Load runs and overviews into an empty generation in their original order, then the additions.

    Only additions that had landed by `until` are loaded. If it `is_judged`, the gates of the newest run decide about
    publishing.
    """
    order = {load.name: position for position, load in enumerate(content.loads)}
    earlier = {load.name: load for load in content.loads}
    gates = content.staged[-1][0].plan.gates if content.staged and is_judged else None
    steps: list[tuple[datetime, str, Callable[..., None]]] = [
        *(
            (outcome.finished_at, run.run_id, partial(load_run, run=run, manifest=manifest, outcome=outcome))
            for run, outcome, manifest in content.staged
        ),
        *((one.finished_at, one.plan.overview_id, partial(load_overview, overview=one)) for one in content.overviews),
    ]
    steps.sort(key=lambda step: (order.get(step[1], len(order)), *step[:2]))
    applied = newest_applied(folders)

    def load(connection: duckdb.DuckDBPyConnection, number: int) -> bool | None:
        create_tables(connection)
        last = number - (applied is not None)
        for position, (_, name, step) in enumerate(steps, 1 - len(steps)):
            moment = now()
            before = earlier.get(name)
            loaded_at, measurements = (before.loaded_at, before.measurements) if before else (moment, None)
            step(connection, load=Load(last + position, name, moment, loaded_at, measurements))
            checkpoint(connection, may_compact=True)
        if applied is not None:
            moment = now()
            load_additions(connection, folders, Load(number, applied, moment, moment), until)
        if until is not None:  # a verification compares only tables, so it needs no views
            return None
        create_views(connection)
        if content.is_held is not None:
            return content.is_held
        return judge(connection, folders, gates, number)

    give_back()
    return publish(
        folders,
        load,
        memory_limit=settings.duckdb_memory,
        keep=settings.keep_generations,
        storage_version=settings.storage_version,
        number=content.number,
    )


def replay(
    folders: Folders,
    now: Clock,
    settings: RunSettings = _DEFAULTS,
    *,
    on_run: Callable[[Run], object] = lambda run: None,
    processes: int = 1,
    contract: ContractSettings | None = None,
) -> Path:
    """Rebuild the staged tables and the warehouse from the landed answers, as a new generation.

    Except for `loads` it equals the previous one, unless `contract` changes the result: it reads all answers with these
    settings; None reads each run with the settings in its plan. `on_run` is called with each run before it is staged.

    Raises:
        FirmlakeError: There is nothing to replay yet. Run a company list first.
        DamagedError: A landed answer was changed. Nothing was published. Restore the file that the message names.
    """
    drop_index(folders)  # the settings of reading may differ
    convert_earlier(folders)
    loaded, loads = _loaded(folders)
    runs = [
        (run if contract is None or run.is_pruned else run.read_by(contract), outcome)
        for run, outcome in finished_runs(folders, loaded)
    ]
    staged = [(run, outcome, restage(run, on_run, processes)) for run, outcome in runs]
    content = Content(staged, find_overviews(folders, loads, only_loaded=False), loads)
    if not (staged or content.overviews or newest_applied(folders)):
        raise FirmlakeError(f"{folders.data} holds nothing to replay", "Fetch a list first with `firmlake run LIST`")
    return publish_content(folders, content, now, settings, is_judged=True)


def begin_cleaning(folders: Folders) -> bool:
    """Note that sources are about to be cleaned, until `end_cleaning`; return whether an earlier call did not end."""
    was_killed = _cleaning_mark(folders).exists()
    write_file(_cleaning_mark(folders), lambda aside: aside.touch())
    return was_killed


def end_cleaning(folders: Folders) -> None:
    """Note that nothing is left that was made from sources as they were before `begin_cleaning`."""
    _cleaning_mark(folders).unlink(missing_ok=True)


def check_derivable(folders: Folders) -> None:
    """Check that the newest generation, and one held back, can be read and made again.

    The DamagedError says how to restore a generation, or a run that was loaded into it.
    """
    for runs, _ in map(partial(_read_generation, folders), filter(None, (newest(folders), find_held(folders)))):
        for run in (run for run, _ in runs if run.is_pruned):
            read_pruned(run)


def derive_again(folders: Folders, now: Clock, settings: RunSettings) -> None:
    """Make the newest generation, and one held back, again from cleaned sources; all others go.

    Each has the loads that it had before. Only shards whose landed answers changed are staged again. Staged tables of
    runs that were not loaded go too; the next run makes them again. The generation held back is made first, under the
    higher number: after a kill between the two, both are still there to be made again.

    If a source was changed (DamagedError), nothing was published.
    """
    current = [(path, is_held) for path, is_held in ((find_held(folders), True), (newest(folders), False)) if path]
    generations = [(*_read_generation(folders, path), is_held) for path, is_held in current]
    number = next_number(folders)
    loaded = {run.run_id for runs, *_ in generations for run, _ in runs}
    for run in list_runs(folders):
        if run.run_id not in loaded and not run.is_pruned:
            shutil.rmtree(folders.staged(run.run_id), ignore_errors=True)
    for runs, loads, is_held in generations:
        staged = [_stage(run, outcome) for run, outcome in runs]
        content = Content(staged, find_overviews(folders, loads, only_loaded=True), loads, is_held, number + is_held)
        publish_content(folders, content, now, msgspec.structs.replace(settings, keep_generations=1))
    published = newest(folders)
    for path in list_generations(folders):
        if published is None or path.name != published.name:
            path.unlink()


def _read_generation(folders: Folders, path: Path) -> tuple[list[tuple[Run, Outcome]], list[Load]]:
    """Return the runs and the loads of a generation."""
    with connect_to(path) as connection:
        names, loads = loaded_runs(connection), read_loads(connection)
    return [(run, outcome) for run, outcome in finished_runs(folders, names) if run.run_id in names], loads


def _stage(run: Run, outcome: Outcome) -> tuple[Run, Outcome, Manifest]:
    """Stage the shards of a run whose answers changed, by the same settings as before."""
    if run.is_pruned:
        return run, outcome, read_pruned(run)
    if recorded := read_manifest(run):
        run = run.read_by(recorded.contract)
    return run, outcome, finish_stage(run, stage_shards(run))


def _cleaning_mark(folders: Folders) -> Path:
    return folders.state / "cleaning"


def _loaded(folders: Folders) -> tuple[list[str], list[Load]]:
    """List the runs, and all loads, of the newest generation, or of the one that is held back.

    Both lists are empty if the generation cannot be read, because a replay is the remedy for that.
    """
    try:
        with open_warehouse(folders, of_any_version=True, with_held=True) as connection:
            return loaded_runs(connection), read_loads(connection)
    except (FirmlakeError, duckdb.Error):
        return [], []


_ADDED = {"is_refresh": pl.lit(value=False), "is_barred": pl.lit(value=False), "free_until": pl.lit(None, pl.Datetime)}


def convert_earlier(folders: Folders) -> None:
    """Write the records, list and targets of each run that a development version wrote, and remove its own files.

    Development versions kept lists and targets under `runs/`. Settings that have gone since only shaped requests, so
    nothing that was answered is read in another way.
    """
    for folder in sorted((folders.data / "runs").glob("*/")):
        plan, ended, is_pruned = _read_earlier(folders, folder)
        for section, struct in (("names", NameSettings), ("contract", ContractSettings)):
            settings = plan.get(section, {})
            plan[section] = {name: settings[name] for name in settings.keys() & set(struct.__struct_fields__)}
        tables = dict(_tables(folder, plan))
        known = {name: plan[f"list_{name}"] for name in ("types", "formats", "delimiter") if f"list_{name}" in plan}
        columns = ListColumns(tuple(plan.get("list_columns", ())), **known)
        files = {"list": store_lines(folders.lists, columns, [_lines(tables)]).stem}
        run = Run(folders, msgspec.convert({**plan, "files": files}, RunPlan))
        targets = tables["targets"].drop("held_hash", strict=False)
        run = begin(run, targets.with_columns(**{name: _ADDED[name] for name in _ADDED.keys() - set(targets.columns)}))
        if ended:
            run.note(ENDED, ended, ended.finished_at)
        if is_pruned:
            run.mark_pruned(ended.finished_at if ended else run.plan.started_at)
        shutil.rmtree(folder)
    with suppress(OSError):
        (folders.data / "runs").rmdir()
    names = folders.state / "list_names.json"
    for change in read_json(names, tuple[NameChange, ...]) if names.exists() else ():
        record_name_change(folders, change)
    names.unlink(missing_ok=True)


def _read_earlier(folders: Folders, folder: Path) -> tuple[dict[str, Any], Outcome | None, bool]:
    """Read the plan of a run, and what its log lacks: how it ended and whether it was pruned."""
    path, ended = folder / "plan.json", folder / "outcome.json"
    if path.exists():
        outcome = read_json(ended, Outcome) if ended.exists() else None
        return read_json(path, dict[str, Any]), outcome, (folder / "pruned.json").exists()
    begun = read_log(folders, folder.name)[BEGUN]
    return msgspec.json.decode(begun.body), None, False


def _tables(folder: Path, plan: dict[str, Any]) -> Any:
    for name, sha256 in plan.get("sha256", {}).items():
        path = folder / plan.get("files", {}).get(name, f"{name}.parquet")
        if not path.exists() or sha256_of(path) != sha256:
            raise DamagedError(f"{path} is missing or does not match its checksum", "Restore it from a copy")
        yield name, pl.read_parquet(path, glob=False)


def _lines(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Return the lines of a list; those of one that came from no file are its companies."""
    if "members" in tables:
        lines = tables["members"]
    else:
        accepted = tables["companies"].with_columns(status=pl.lit("accepted"), columns=pl.lit("{}"))
        refused = tables["refused_lines"].with_columns(status=pl.lit("refused"), columns=pl.lit("{}"))
        lines = pl.concat([accepted, refused], how="diagonal").sort("line")
    missing = [pl.lit(None, kind).alias(name) for name, kind in LINES.items() if name not in lines.columns]
    return lines.with_columns(missing).select(LINES.names())
