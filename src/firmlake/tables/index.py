"""The index over the log: an SQLite file from which runs are planned, made from landed answers and their tables.

It holds nothing that cannot be derived. It is made again whenever it is missing, damaged, of another version or out of
step with the warehouse, so deleting it between two commands changes nothing, and no backup needs it.

    run       the runs that were read: name, what had landed (`mark`), and its place among the loaded runs
    said      the newest verdict about each company and dataset, by the runs that are loaded
    answered  what the other runs need not ask any more: each company and dataset with an answer, or given up
    purchase  the beginning of each paid window of each company, by any run
    charge    what the requests of any run were charged

Times are microseconds since 1970 in UTC, companies are integers (`company_key`), and datasets are places in `DATASETS`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import msgspec
import polars as pl

from firmlake.api.contract import DATASETS
from firmlake.core.company import company_key
from firmlake.core.errors import DamagedError
from firmlake.core.files import is_writable
from firmlake.core.folders import Folders
from firmlake.core.sql import read_queries
from firmlake.landing.progress import load_progress
from firmlake.landing.run import Run, open_run
from firmlake.landing.segments import list_segments
from firmlake.tables.stage import SCHEMA_VERSION, answers_lost, check_staged, read_manifest

AHEAD = timedelta(hours=1)
"""Clocks differ by minutes. A time further in the future than this was written while the clock was wrong."""
_VERSION = 5
"""Raised when the tables or their meaning change; an index of another version is made again."""
_WAIT_SECONDS = 30.0
Loads = Sequence[tuple[str, datetime]]
"""Runs in the order in which they were loaded, and when each was first loaded, UTC."""
DATASET = pl.Enum(list(DATASETS))
_ROWS_AT_ONCE = 100_000
_SQL = read_queries(__file__)


class Facts(NamedTuple):
    """What the answers of a run say, as the index has it: a million companies would take 1 GB as texts."""

    # A company that was forbidden itself, and not with its country, has failed.
    said: pl.DataFrame  # company, dataset, status, record_count, reject_count, fetched_at
    paid: pl.DataFrame  # companies with an answer or a certain charge, and the time of the first: company, at
    charges: pl.DataFrame  # at, credits
    left_out: frozenset[str]  # datasets in which companies count as unknown because answers left them out


OnDamage = Callable[[Run, DamagedError], object]


def _refuse(_: Run, error: DamagedError) -> None:
    raise error


@contextmanager
def open_index(
    folders: Folders, runs: Sequence[Run], loads: Loads, on_damage: OnDamage = _refuse
) -> Iterator[sqlite3.Connection]:
    """Open the index, after reading into it what has landed and was loaded since.

    Several processes may do this at once: SQLite lets one write after the other, and each would write the same. In a
    folder that cannot be written to, a copy in memory is brought up to date instead.

    Args:
        runs: The runs of the folder that can be read.
        loads: The runs in the warehouse. A verdict dated later than the loading of its run comes from a wrong clock.
        on_damage: Called with a run that is not loaded and the error, if what has landed for it cannot be read.

    Raises:
        DamagedError: A loaded run has neither readable tables nor readable answers. Restore them. Or a page inside the
            index is damaged, which SQLite notices when it reads it. Run again.
    """
    path = _path(folders)
    try:
        with closing(_connect(path)) as index:
            _bring_up_to_date(index, folders, runs, loads, on_damage)
            yield index
    except sqlite3.OperationalError:  # a full disk, or a lock held for too long
        raise
    except sqlite3.DatabaseError as error:
        _remove(path)
        raise DamagedError(f"{path} was damaged ({error}), so it was removed", "Run again: it is made anew") from None


def drop_index(folders: Folders) -> None:
    """Remove the index, because what it was made from was rewritten; the next command makes it again."""
    _remove(_path(folders))


def _path(folders: Folders) -> Path:
    return folders.state / "index.sqlite"


def _connect(path: Path) -> sqlite3.Connection:
    """Open the file, or a copy of it in memory if it cannot be written to; an unusable one is made again."""
    is_kept = path.parent.is_dir() and is_writable(path.parent)
    for _ in range(2):
        if is_kept:
            path.touch(mode=0o600)
        index = sqlite3.connect(path if is_kept else ":memory:", isolation_level=None, timeout=_WAIT_SECONDS)
        try:
            if not is_kept and path.exists():
                with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as file:
                    file.backup(index)
            if _version(index) == 0:
                _begin(index)
            if _version(index) == _VERSION:
                return index
        except sqlite3.DatabaseError:
            is_kept = is_kept and is_writable(path)
        index.close()
        if is_kept:
            _remove(path)
    index = sqlite3.connect(":memory:", isolation_level=None)
    _begin(index)
    return index


def _remove(path: Path) -> None:
    for rest in path.parent.glob(f"{path.name}*"):
        rest.unlink()


def _version(index: sqlite3.Connection) -> int:
    ((version,),) = index.execute("PRAGMA user_version").fetchall()
    return int(version)


def _begin(index: sqlite3.Connection) -> None:
    """Make the tables. The rollback journal, unlike a write-ahead log, works on network file systems."""
    index.executescript(f"BEGIN; {_SQL['tables']} PRAGMA user_version = {_VERSION}; COMMIT;")


def _bring_up_to_date(
    index: sqlite3.Connection, folders: Folders, runs: Sequence[Run], loads: Loads, on_damage: OnDamage
) -> None:
    index.execute("PRAGMA synchronous = OFF")  # a torn index is noticed and made again
    by_name, names = {run.run_id: run for run in runs}, [name for name, _ in loads]
    known = dict(index.execute("SELECT name, position FROM run").fetchall())
    loaded_before = sorted((name for name, place in known.items() if place is not None), key=known.__getitem__)
    index.execute("BEGIN IMMEDIATE")
    if loaded_before != names[: len(loaded_before)]:
        for table in ("run", "said", "answered", "purchase", "charge"):
            index.execute(f"DELETE FROM {table}")  # noqa: S608 - our own names
        known, loaded_before = {}, []
    for name in known.keys() - by_name.keys() - set(loaded_before):
        _forget_run(index, name)
    for place, (name, loaded_at) in enumerate(loads):
        if place >= len(loaded_before):
            _read_loaded(index, by_name.get(name) or open_run(folders, name), place, loaded_at)
    for run in runs:
        if run.run_id not in names:
            try:
                _read_landed(index, run)
            except DamagedError as error:
                on_damage(run, error)
    index.execute("COMMIT")


def _forget_run(index: sqlite3.Connection, name: str) -> None:
    for table in ("answered", "purchase", "charge"):
        index.execute(f"DELETE FROM {table} WHERE run = (SELECT number FROM run WHERE name = ?)", [name])  # noqa: S608
    index.execute("DELETE FROM run WHERE name = ?", [name])


def _note_run(index: sqlite3.Connection, run: Run, mark: str, place: int | None, facts: Facts) -> int:
    """Record what a run paid, in place of what was known of it; return its number."""
    _forget_run(index, run.run_id)
    insert = "INSERT INTO run(name, mark, position) VALUES (?, ?, ?)"
    number = index.execute(insert, [run.run_id, mark, place]).lastrowid
    assert number
    index.executemany(f"INSERT INTO charge VALUES ({number}, ?, ?)", facts.charges.iter_rows())  # noqa: S608
    _buy(index, run, number, facts)
    return number


def _buy(index: sqlite3.Connection, run: Run, number: int, facts: Facts) -> None:
    """Add the purchases of a run. An answer inside a window is none; one before a window moves its beginning."""
    window = run.plan.credit_window_days * 86_400_000_000
    index.execute("CREATE TEMP TABLE IF NOT EXISTS paid(company INTEGER PRIMARY KEY, at INTEGER)")
    index.execute("DELETE FROM temp.paid")
    index.executemany("INSERT INTO temp.paid VALUES (?, ?)", facts.paid.iter_rows())
    values = {"window": window, "run": number}
    for statement in ("leave_out_inside", "drop_later", "buy"):
        index.execute(_SQL[statement], values)


def _read_loaded(index: sqlite3.Connection, run: Run, place: int, loaded_at: datetime) -> None:
    """Apply what a loaded run says to the verdicts."""
    facts = _whole_facts(run)
    number = _note_run(index, run, "", place, facts)
    left_out = [place for place, dataset in enumerate(DATASETS) if dataset in facts.left_out]
    is_left_out = (pl.col("status") == "not_found") & pl.col("dataset").is_in(left_out)
    rows = facts.said.with_columns(is_left_out.cast(pl.Int8).alias("is_left_out"))
    run_and_limits = number, micros(loaded_at + AHEAD), micros(run.plan.started_at)
    say = _SQL["say"].format(**verdict_rules("excluded", "said", latest="?9", started="?10"))
    index.executemany(say, ((*row, *run_and_limits) for row in rows.iter_rows()))


def verdict_rules(new: str, held: str, **times: str) -> dict[str, str]:
    """Return the rules for verdicts as SQL that DuckDB and SQLite read: `is_answer` and `is_outdated`.

    `new` and `held` name the rows of the run that is loaded and of the runs before; `latest` and `started` are times as
    SQL.
    """
    return {name: _SQL[name].strip().format(new=new, held=held, **times) for name in ("is_answer", "is_outdated")}


def _read_landed(index: sqlite3.Connection, run: Run) -> None:
    """Read what has landed for a run that is not loaded, unless nothing has since it was read."""
    mark = _mark(run)
    if index.execute("SELECT 1 FROM run WHERE name = ? AND mark = ?", [run.run_id, mark]).fetchone():
        return
    facts = landed_facts(run)
    number = _note_run(index, run, mark, None, facts)
    answered = facts.said.filter(pl.col("status") != "waiting").select("dataset", "company").sort(pl.all())
    index.executemany(f"INSERT INTO answered VALUES ({number}, ?, ?)", answered.iter_rows())  # noqa: S608


def _mark(run: Run) -> str:
    """Describe what has landed for a run, and how it is read: targets, names and the size of each segment."""
    segments = (path for shard in run.begun for path in list_segments(run.folders.landing(run.run_id, shard)))
    sizes = [f"{path.parent.name}/{path.name}: {path.stat().st_size}" for path in segments]
    names = msgspec.json.encode(run.plan.names).decode()  # a check may learn the header of the credits after it paid
    return "\n".join([run.plan.files["targets"], names, *sizes])


def landed_facts(run: Run) -> Facts:
    """Read what has landed for a run so far, which need not have ended."""
    return _facts(_landed_tables(run, shard) for shard in run.begun)


def _landed_tables(run: Run, shard: int) -> dict[str, pl.DataFrame]:
    from firmlake.tables.flatten import companies, list_tracks, requests  # here, because most runs are read from tables

    progress = load_progress(run, shard)
    tracked = list_tracks(progress, run.plan.datasets)
    said = tracked.with_columns(reject_count=None)  # records are read when they are staged
    return {"company_state": said, "companies": companies(tracked), "requests": requests(run, progress)}


def _whole_facts(run: Run) -> Facts:
    """Read what a run says from its staged tables, or from its landed answers if they are gone or damaged."""
    manifest = read_manifest(run)
    if manifest and manifest.schema_version == SCHEMA_VERSION:
        files = tuple(file for file in manifest.files if file.table in _TABLES)
        try:
            check_staged(run, msgspec.structs.replace(manifest, files=files))
            folder = run.folders.staged(run.run_id)
            return _facts({file.table: _read(folder / file.path, _TABLES[file.table])} for file in files)
        except DamagedError:
            if run.is_pruned:
                raise
    if run.is_pruned or (not run.has_landed and run.plan.target_count):
        raise DamagedError(f"{run.folders.landing(run.run_id)} lacks the answers of the run", answers_lost(run))
    from firmlake.tables.flatten import flatten_shard

    return _facts({name: frame} for shard in run.shards() for name, frame in flatten_shard(run, shard))


def _facts(tables: Iterable[Mapping[str, pl.DataFrame]]) -> Facts:
    said, paid, charges, left_out, alone = [_NOTHING], [_NOBODY], [_NO_CHARGE], set[str](), [_NOTHING.select(_ABOUT)]
    for table in tables:
        for name, frame in table.items():
            if name == "company_state":
                counts = pl.col("status", "record_count", "reject_count")
                said.append(frame.select(*_about(), counts, _moment("fetched_at")).cast(_NOTHING.schema))
            elif name == "companies":
                paid.append(_paid(frame))
            elif name == "requests":
                charges.append(_charges(frame))
            elif name == "drift":
                left_out.update(frame.filter(pl.col("kind") == "left_out")["dataset"].cast(pl.String))
            elif name == "dead_letters":
                alone.append(frame.filter(pl.col("reason_code") == "company_forbidden").select(*_about()))
    verdicts, itself = pl.concat(said), pl.concat(alone).unique()
    if itself.height:
        verdicts = verdicts.join(itself.with_columns(itself=pl.lit("failed")), on=_ABOUT, how="left")
        verdicts = verdicts.with_columns(status=pl.coalesce("itself", "status").cast(_STATUS)).drop("itself")
    said.clear()
    in_order = verdicts.sort(_ABOUT)  # SQLite appends to its tree in half the time
    return Facts(in_order, pl.concat(paid), pl.concat(charges), frozenset(left_out))


_ABOUT = ("company", "dataset")
_STATUS = pl.Categorical()
_COMPANY = ("country", "company_number")
_TABLES = {
    "company_state": (*_COMPANY, "dataset", "status", "record_count", "reject_count", "fetched_at"),
    "companies": (*_COMPANY, "paid_at"),
    "requests": ("fetched_at", "credits_charged"),
    "drift": ("kind", "dataset"),
    "dead_letters": (*_COMPANY, "dataset", "reason_code"),
}
"""The columns that are read of a staged table."""
_NOTHING = pl.DataFrame(
    schema={
        "company": pl.Int64(),
        "dataset": pl.Int8(),
        "status": _STATUS,
        **dict.fromkeys(("record_count", "reject_count"), pl.Int32()),
        "fetched_at": pl.Int64(),
    }
)
_NOBODY = pl.DataFrame(schema={"company": pl.Int64, "at": pl.Int64})
_NO_CHARGE = pl.DataFrame(schema={"at": pl.Int64, "credits": pl.Int64})


def _read(path: Path, columns: Sequence[str]) -> pl.DataFrame:
    return pl.read_parquet(path, columns=list(columns), glob=False, hive_partitioning=False)


def _paid(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.drop_nulls("paid_at").select(company_key().alias("company"), _moment("paid_at").alias("at"))


def _charges(frame: pl.DataFrame) -> pl.DataFrame:
    charged = frame.drop_nulls("credits_charged")
    return charged.select(_moment("fetched_at").alias("at"), pl.col("credits_charged").cast(pl.Int64).alias("credits"))


def _about() -> tuple[pl.Expr, pl.Expr]:
    place = pl.col("dataset").cast(pl.String).cast(DATASET).to_physical().cast(pl.Int8)
    return company_key().alias("company"), place


def _moment(name: str) -> pl.Expr:
    return pl.col(name).cast(pl.Datetime("us")).to_physical()


def read_rows(index: sqlite3.Connection, query: str, values: Mapping[str, object], schema: pl.Schema) -> pl.DataFrame:
    """Read rows in batches, in the narrow types of a schema; a column `dataset` gets the names of datasets.

    Flags, which are never null, come as the bits of one number: Python takes as long for each value.
    """
    flags = [name for name, kind in schema.items() if kind == pl.Boolean()]
    read = [name for name in schema if name not in flags]
    numbers = {name: pl.Int8() if name == "dataset" else kind for name, kind in schema.items()}
    bits = " | ".join(f"({name} << {bit})" for bit, name in enumerate(flags)) or "0"
    is_set = [(pl.col("bits") & (1 << bit) != 0).alias(name) for bit, name in enumerate(flags)]
    cursor = index.execute(f"SELECT {', '.join(read)}, {bits} FROM ({query})", dict(values))  # noqa: S608 - our own names
    frames = [pl.DataFrame(schema=numbers)]
    while rows := cursor.fetchmany(_ROWS_AT_ONCE):
        batch = pl.DataFrame(rows, schema=dict.fromkeys([*read, "bits"], pl.Int64), orient="row")
        frames.append(batch.with_columns(is_set).select(list(schema)).cast(numbers))  # type: ignore[arg-type]
    found = pl.concat(frames)
    return found.with_columns(pl.col("dataset").cat.to(DATASET)) if "dataset" in schema else found


def read_answered(index: sqlite3.Connection, run_id: str) -> pl.DataFrame:
    """Read what a run that is not loaded need not ask any more: company (its key), dataset, is_bought (ever)."""
    schema = pl.Schema({"company": pl.Int64(), "dataset": DATASET, "is_bought": pl.Boolean()})
    return read_rows(index, _SQL["answered_by"], {"run": run_id}, schema)


def micros(moment: datetime) -> int:
    """Return a time as the index has it."""
    return int((moment.astimezone(UTC) - _EPOCH) / timedelta(microseconds=1))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
