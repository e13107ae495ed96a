"""The state of a data folder, also as metrics: the last run of each list, how it ended, what is open and to do next."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Set
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

import duckdb
import msgspec
from msgspec import structs

from firmlake.core.errors import (
    EXIT_DONE,
    EXIT_HELD,
    EXITS_OF_SIGNALS,
    DamagedError,
    FirmlakeError,
)
from firmlake.core.folders import Folders
from firmlake.core.settings import RunSettings
from firmlake.core.sql import fetch_dicts, read_queries
from firmlake.core.text import count_of
from firmlake.core.work import LastFailure, failed_deliveries, failed_work, holder
from firmlake.landing.charged import refresh_off, with_refresh_off
from firmlake.landing.run import CHECK, LOOKUP, REDRIVE, Outcome, Run, read_runs, unfinished_runs
from firmlake.privacy.tombstones import is_forget_open
from firmlake.report.bill import Bill, count_unbought, read_bill, spent_this_month
from firmlake.report.causes import OUTCOMES, RULES
from firmlake.report.summary import RunSummary, summarise, summarise_unchanged
from firmlake.tables.index import open_index
from firmlake.warehouse.exported import LastExport, last_exports
from firmlake.warehouse.gates import read_unchanged, why_held
from firmlake.warehouse.generations import lost_warehouse, newest, newest_link, newest_of_all, open_warehouse
from firmlake.warehouse.incomplete import Incomplete, read_incomplete
from firmlake.warehouse.list_names import restrict
from firmlake.warehouse.lists import held_name
from firmlake.warehouse.loads import all_loads, check_version, loaded_runs, run_loads

_SQL = read_queries(__file__)

UNLISTED = "waiting, on no list"
"""Companies that a budget left out, and that no list names any more: nothing waits for them."""


ListRun = dict[str, Any]
"""The last run of a company list that ended, or of work without a list such as `redrive`: what the table `runs` says of
it, and its number of drift records. It is published, or had nothing to load, see `RunSummary.is_unchanged`."""

_COUNTS = (
    "target_count", "request_count", "credit_count", "expected_credit_count", "free_refresh_count", "drift_count",
)  # fmt: skip
"""What is 0 in a run that asked for nothing."""

_Sample = tuple[dict[str, str], float]

_OF_RUN = (
    ("last_run_companies", "target_count", "Companies that the list's last run asked for"),
    ("last_run_refused_lines", "refused_count", "Lines of its list that name no company"),
    ("last_run_credits", "credit_count", "Credits it was charged"),
    ("last_run_expected_credits", "expected_credit_count", "Credits our ledger expects of it"),
    ("last_run_free_refreshes", "free_refresh_count", "Companies it refreshed for free"),
    ("last_run_drift_records", "drift_count", "Records that differ from the contract"),
    ("last_run_requests", "request_count", "Requests it sent, every attempt counted"),
)
"""Metrics of a list's last run: name, column of `ListRun`, and meaning."""


class ListStatus(msgspec.Struct, frozen=True):
    """The last outcome of a company list, whatever happened to other lists since.

    Attributes:
        name: The list, or the command of a run without a list.
        last_run: Its last published run; None if none was published.
        failure: How work on it failed, unless it succeeded since.
        unfinished: Its runs that can be resumed.
        exit_code: The exit code of the failure, or else of the last run; None if there is neither.
    """

    name: str
    last_run: ListRun | None
    failure: LastFailure | None
    unfinished: list[str]
    exit_code: int | None


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a data folder. Times are UTC.

    Attributes:
        running: The process that holds the folder; empty if none does.
        lists: The last outcome of each list, and of `redrive` if it was the last run of all, by name.
        failures: How work on the folder failed, newest last, unless the same work succeeded, or the run or a later one
            of its list was published.
        failure: The newest of them.
        outdated: Why the warehouse cannot be read and what to do: another version of firmlake made it. Empty if it can.
        held: Why a gate holds the newest generation back; empty if it is published. The rest is about that generation.
        undelivered: Exports and loads whose last attempt failed.
        unfinished: Runs that can be resumed, newest last: (run, list, companies asked for).
        refused: Runs that were refused at publishing, newest last: (run, list, reason).
        damaged: Runs and plans of contacts with a file that cannot be read: (name, file and reason, next step). Of the
            runs, only what resuming or planning needs is read; `verify` reads everything.
        landed_at: When an answer last landed for the newest unfinished run.
        parked: Companies that lack something, most first: (failed, forbidden, unavailable, waiting or rejected records;
            reason; number of companies and datasets).
        incomplete: For each list, and without a list for all companies: dataset, cause, and companies that lack it.
        open_contacts: The newest plan of contacts that is not settled: its file, its list, and its open contacts.
        companies: Companies by dataset and status, over all runs.
        oldest_answer_at: When the oldest answer held was received.
        credits_remaining: Credits left, as the service reported them last, at `credits_told_at`.
        refresh_off: Why no company is refreshed for free; empty if they may, or without settings.
        bill: Credits and free refreshes of this month, and the credits of the next four weeks; None without settings or
            before the first run.
        exports: The last export to each place.
        disk_bytes: Sizes of the folders landing, staged and warehouse.
        disk_free_bytes: Free space on their disk.
    """

    data: Path
    running: str
    last_run: RunSummary | None = None
    lists: list[ListStatus]
    failures: list[LastFailure]
    failure: LastFailure | None
    outdated: str
    held: str
    undelivered: list[LastFailure]
    unfinished: list[tuple[str, str, int]]
    refused: list[tuple[str, str, str]]
    damaged: list[tuple[str, str, str]]
    landed_at: datetime | None
    parked: list[tuple[str, str, int]] = []
    incomplete: list[Incomplete] = []
    open_contacts: tuple[Path, int, int] | None
    companies: dict[str, dict[str, int]] = {}
    oldest_answer_at: datetime | None = None
    newest_answer_at: datetime | None = None
    credits_remaining: int | None = None
    credits_told_at: datetime | None = None
    refresh_off: str
    bill: Bill | None
    exports: list[LastExport]
    disk_bytes: dict[str, int]
    disk_free_bytes: int
    next_step: str


T = TypeVar("T")
_REASONS_MAX = 10


def choose_next_step(status: Status, unfinished: list[Run], refused: list[tuple[Run, Outcome]]) -> str:
    """Return what to do next: first what is open, then what failed, then what is left of the last run.

    The runs that can go on, and those that were refused at publishing with how they ended, come oldest first.
    """
    failure, last = status.failure, status.last_run
    if status.running:
        return f"Wait for {status.running}"
    if refused and refused[-1][0].run_id > max((run.run_id for run in unfinished), default=""):
        run, outcome = refused[-1]
        return outcome.next_step or f"{_sentence(run.plan.again)}; within the paid window no company is charged twice"
    first = _first_step(failure, bool(unfinished))
    if unfinished:
        return first + _resume(status, unfinished[-1])
    if status.open_contacts:
        plan, list_id, count = status.open_contacts
        return f"{first}`firmlake contacts apply {quote(str(plan))}` settles {count:,} contacts of list {list_id}"
    if failure and failure.next_step:
        return failure.next_step
    if status.held:
        return "`firmlake query --held SQL` shows what is held back; `firmlake publish --anyway` releases it"
    if last is None:
        return "`firmlake run LIST` fetches a first list; `firmlake demo` tries it without a key"
    if last.next_step:
        return last.next_step
    lacking = {each.list_name.casefold() for each in status.incomplete if each.list_name}
    is_redriven = last.list_name == REDRIVE and last.outcome == "done"  # which mends what lists lack, not their drift
    of_lists = [
        (each.name, each.last_run["next_step"])
        for each in status.lists
        if each.last_run and (each.name.casefold() in lacking or not is_redriven)
    ]
    steps = [
        *(f"For {name}: {next_step}" for name, next_step in of_lists if next_step),
        *(["Ask the service about the unexplained bill before the next run"] if last.is_charged_too_much else []),
        *_unpark({kind for kind, *_ in status.parked}),
        *(next_step for *_, next_step in status.damaged),
        *(each.next_step for each in status.undelivered),
        *filter(None, [status.refresh_off]),
        *(
            f"Run the list {each.list_name} again: {count_of(each.company_count, 'company')} of it were never asked for"
            for each in status.incomplete
            if each.cause == "not_asked" and each.list_name
        ),
    ]
    return next(iter(steps), "Nothing to do")


def read_status(
    folders: Folders, company_list: str = "", run: RunSettings | None = None, now: datetime | None = None
) -> Status:
    """Read the state of a data folder, without changing anything.

    With `company_list`, only the companies of this list count; UsageError suggests a similar name. The settings of runs
    are for the bill; None reads none.
    """
    runs, unreadable = read_runs(folders)
    now = now or datetime.now(UTC)
    has_warehouse = newest_of_all(folders) is not None
    opened = open_warehouse(folders, of_any_version=True, with_held=True) if has_warehouse else nullcontext()
    with opened as warehouse:
        outdated, loaded = _read_loaded(warehouse) if warehouse else (None, [])
        damaged = {} if outdated else unreadable  # `firmlake replay` converts what earlier versions wrote
        held, held_runs = _read_held(folders, loaded)
        connection = None if outdated else warehouse
        if connection and company_list:
            restrict(connection, company_list)
        told = _read_warehouse(connection, folders, runs, loaded) if connection else {}
        open_, refused = _open(runs, loaded)
        going_on = [each for each in open_ if company_list.lower() in ("", each.plan.company_list.lower())]
        why_not = refresh_off(run, runs) if run else ""
        priced = with_refresh_off(run, why_not) if run and not outdated else None
        bill = _read_bill(connection, folders, priced, now, runs, going_on, damaged) if priced else None
    open_contacts, damaged_contacts = _open_contacts(folders)
    failures = [each for each in failed_work(folders.state) if not _is_over(each, told, loaded)]
    status = Status(
        data=folders.data,
        running=holder(folders),
        lists=_lists(told.pop("list_runs", {}), failures, open_, held_runs),
        failures=failures,
        failure=failures[-1] if failures else None,
        outdated=str(outdated or ""),
        held=held,
        undelivered=failed_deliveries(folders.state),
        unfinished=[(run.run_id, run.plan.list_name, run.plan.target_count) for run in open_],
        refused=[(outcome.run_id, run.plan.list_name, outcome.reason) for run, outcome in refused],
        damaged=[(run_id, error.message, error.next_step) for run_id, error in (damaged | damaged_contacts).items()],
        landed_at=_landed_at(folders, open_[-1].run_id) if open_ else None,
        open_contacts=open_contacts,
        refresh_off=why_not,
        bill=bill,
        exports=last_exports(folders),
        disk_bytes={name: _size(folders.data / name) for name in ("landing", "staged", "warehouse")},
        disk_free_bytes=_free(folders.data.absolute()),
        next_step="",
        **told,
    )
    return structs.replace(status, next_step=_next_step(status, folders, outdated, open_, refused))


def render_metrics(status: Status) -> str:
    """Write the state as OpenMetrics text, for the text-file collector of a node exporter.

    A metric without a value yet is left out. Times are in seconds since 1970.
    """
    return "\n".join([*_lines(status), "# EOF"]) + "\n"


def _unpark(kinds: set[str]) -> list[str]:
    """Return what gets the data of parked companies, in a list; an empty one if none are parked."""
    kinds = kinds - {UNLISTED}
    if kinds == {"rejected records"}:
        return ["; ".join(RULES["rejected"].steps[name] for name in ("look", "replay"))]
    if kinds - {"waiting"}:
        return ["`firmlake redrive` asks again for parked companies; dead_letters and rejects say why they are parked"]
    return ["Run the list of the waiting companies again"] if kinds else []


def _first_step(failure: LastFailure | None, will_resume: bool) -> str:
    """Return what the last failure asks for before anything else; an interruption asks only to resume."""
    is_interruption = will_resume and failure and failure.exit_code in EXITS_OF_SIGNALS
    return f"{failure.next_step}. Then: " if failure and failure.next_step and not is_interruption else ""


def _resume(status: Status, run: Run) -> str:
    damage = next((step for name, _, step in status.damaged if name == run.run_id), "")
    return damage or f"{_sentence(run.plan.again)}: run {run.run_id} resumes where it stopped"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _read_warehouse(
    connection: duckdb.DuckDBPyConnection, folders: Folders, runs: list[Run], loaded: list[str]
) -> dict[str, Any]:
    """Read the attributes of `Status` that a generation tells."""
    companies: dict[str, dict[str, int]] = {}
    for dataset, status, count in connection.execute(_SQL["statuses"]).fetchall():
        companies.setdefault(dataset, {})[status] = count
    oldest, latest = connection.execute(_SQL["ages"]).fetchall()[0]
    remaining, told_at = connection.execute(_SQL["credits"]).fetchall()[0]
    return {
        **(_last_runs(connection, folders, loaded[-1], runs) if loaded else {}),
        "parked": _parked(connection, runs),
        "incomplete": read_incomplete(connection),
        "companies": companies,
        "oldest_answer_at": _utc(oldest),
        "newest_answer_at": _utc(latest),
        "credits_remaining": remaining,
        "credits_told_at": _utc(told_at),
    }


def _read_bill(
    connection: duckdb.DuckDBPyConnection | None,
    folders: Folders,
    run: RunSettings,
    now: datetime,
    runs: list[Run],
    going_on: list[Run],
    damaged: dict[str, DamagedError],
) -> Bill | None:
    """Read the bill of the month and of what `going_on` will still buy; None without runs, or if it cannot be read.

    Runs whose landed answers cannot be read are left out, and added to `damaged`.
    """
    if not (connection or runs):
        return None

    def skip(run: Run, error: DamagedError) -> None:
        damaged[run.run_id] = error

    loads = all_loads(run_loads(connection) if connection else [], runs)
    with suppress(DamagedError), open_index(folders, runs, loads, skip) as index:
        spent = spent_this_month(index, run, now)
        buying = [each for each in going_on if each.run_id not in damaged and not each.is_fetched]
        unbought = count_unbought(connection, index, buying)
        return read_bill(connection, run, now, spent, unbought=unbought)
    return None


def _next_step(
    status: Status,
    folders: Folders,
    outdated: FirmlakeError | None,
    open_: list[Run],
    refused: list[tuple[Run, Outcome]],
) -> str:
    """Choose the next step. What is lost or half forgotten goes first, unless a process is at work on it."""
    lost = None if status.running else outdated or lost_warehouse(folders)
    step = f"{lost.next_step}. {lost.message}" if lost else choose_next_step(status, open_, refused)
    if not status.running and is_forget_open(folders):
        return f"`firmlake forget` finishes an earlier call that left subjects in some places. Then: {step}"
    return step


def _open(runs: list[Run], loaded: list[str]) -> tuple[list[Run], list[tuple[Run, Outcome]]]:
    """List the runs that can go on, and those that were refused with how they ended."""
    unfinished: list[Run] = []
    refused: list[tuple[Run, Outcome]] = []
    for run in unfinished_runs(runs, loaded):
        outcome = run.outcome()
        if outcome and outcome.is_refused:
            refused.append((run, outcome))
        else:
            unfinished.append(run)
    return unfinished, refused


def _parked(connection: duckdb.DuckDBPyConnection, runs: list[Run]) -> list[tuple[str, str, int]]:
    """Count parked companies by reason: a failed company has its own reason, a waiting one that of its run."""
    reasons = {run.run_id: outcome.reason for run in runs if (outcome := run.outcome())}
    counts: Counter[tuple[str, str]] = Counter()
    for status, run_id, reason, count in connection.execute(_SQL["parked"], [UNLISTED]).fetchall():
        counts[status, reason or reasons.get(run_id) or "its run does not say"] += count
    return [(status, reason, count) for (status, reason), count in counts.most_common(_REASONS_MAX)]


def _open_contacts(folders: Folders) -> tuple[tuple[Path, int, int] | None, dict[str, DamagedError]]:
    damaged: dict[str, DamagedError] = {}
    if not folders.additions.exists():
        return None, damaged
    from firmlake.service_lists.additions import read_additions  # here, because it reads lists, which takes pyarrow

    additions = read_additions(folders, damaged=damaged)
    for plan in reversed(additions.plans.values()):
        if count := sum(not additions.is_settled(plan, contact) for contact in plan.contacts()):
            return (folders.additions / f"plan={plan.plan_id}" / "plan.json", plan.list_id, count), damaged
    return None, damaged


def _read_loaded(connection: duckdb.DuckDBPyConnection) -> tuple[FirmlakeError | None, list[str]]:
    """Read which runs a generation holds, and why nothing else of it can be read; None if everything can."""
    try:
        check_version(connection)
    except FirmlakeError as outdated:
        with suppress(duckdb.Error):
            return outdated, loaded_runs(connection)
        return outdated, []
    return None, loaded_runs(connection)


def _read_held(folders: Folders, loaded: list[str]) -> tuple[str, set[str]]:
    """Read why a gate holds the newest generation back, and the runs that readers do not see for that reason."""
    held = why_held(folders)
    if not held:
        return "", set()
    opened = open_warehouse(folders, of_any_version=True) if newest(folders) else nullcontext()
    with opened as published:
        return held.message, set(loaded) - set(_read_loaded(published)[1] if published else ())


def _last_runs(
    connection: duckdb.DuckDBPyConnection, folders: Folders, loaded: str, begun: list[Run]
) -> dict[str, Any]:
    """Read the last run of all, and that of each list by its name; a run that had nothing to load counts too.

    The newest loaded run is among the runs of lists even if it had no list.
    """
    runs, path = dict[str, ListRun](), newest_link(folders)
    has_rules = all(run.plan.alert_rules is not None for run in begun if run.run_id == loaded)
    last_run = summarise(connection, loaded, path, has_rules=has_rules)
    for row in fetch_dicts(connection.execute(_SQL["list_runs"], [loaded])):
        name, run_id = row.pop("list_name"), row["run_id"]
        runs[name] = row | {key: _utc(row[key]) for key in ("started_at", "finished_at")}
        if same := read_unchanged(folders, run_id):
            ended = structs.asdict(same)
            runs[name] |= dict.fromkeys(_COUNTS, 0) | {"target_count": ended.pop("waiting_count")} | ended
            if last_run and same.finished_at > last_run.finished_at:
                last_run = summarise_unchanged(connection, run_id, same, path, has_rules=has_rules)
    return {"last_run": last_run, "list_runs": runs}


def _is_over(failure: LastFailure, told: dict[str, Any], loaded: list[str]) -> bool:
    """Return whether the failed run was published since, or a later one of its list; of any, if it has no list."""
    by_list = {name.casefold(): run for name, run in told.get("list_runs", {}).items()}
    later, last = by_list.get(failure.list_name.casefold()), told.get("last_run")
    finished_at = (later and later["finished_at"]) if failure.list_name else (last and last.finished_at)
    return failure.run_id in loaded or bool(finished_at and finished_at > failure.at)


def _lists(runs: dict[str, ListRun], failures: list[LastFailure], open_: list[Run], held: Set[str]) -> list[ListStatus]:
    """Bring together what is known of each list; `held` names the runs that a gate holds back."""
    unfinished = [(held_name(run) or run.plan.list_name, run.run_id) for run in open_]
    failed = [(failure.list_name, failure) for failure in failures if failure.list_name]
    named = (name for name, _ in (*unfinished, *failed, *runs.items()) if not name.startswith((CHECK, LOOKUP)))
    names = {name.casefold(): name for name in named}

    def of(folded: str, found: Iterable[tuple[str, T]]) -> list[T]:
        return [value for name, value in found if name.casefold() == folded]

    statuses = []
    for folded, name in sorted(names.items()):
        run, failure = next(iter(of(folded, runs.items())), None), next(iter(of(folded, failed)), None)
        code = OUTCOMES.get(run["outcome"], EXIT_DONE) if run else None
        if run and run["run_id"] in held:
            code = EXIT_HELD
        if failure:
            code = failure.exit_code
        statuses.append(ListStatus(name, run, failure, of(folded, unfinished), code))
    return statuses


def _utc(moment: datetime | None) -> datetime | None:
    """Mark a time from the warehouse as UTC, so that JSON has all times in one format."""
    return moment and moment.replace(tzinfo=UTC)


def _landed_at(folders: Folders, run_id: str) -> datetime | None:
    files = folders.landing(run_id).glob("shard=*/*")
    newest_at = max((path.stat().st_mtime for path in files), default=None)
    return None if newest_at is None else datetime.fromtimestamp(newest_at, UTC)


def _free(folder: Path) -> int:
    """Return the free space on the disk of a folder, which need not exist yet."""
    return shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists())).free


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _lines(status: Status) -> Iterator[str]:
    for name, meaning, samples in _families(status):
        yield f"# TYPE firmlake_{name} gauge"
        yield f"# HELP firmlake_{name} {meaning}"
        for labels, value in samples:
            inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            yield f"firmlake_{name}{{{inside}}} {value:.15g}" if inside else f"firmlake_{name} {value:.15g}"


def _families(status: Status) -> Iterator[tuple[str, str, Iterable[_Sample]]]:
    yield "written_timestamp_seconds", "When these metrics were written", [({}, datetime.now(UTC).timestamp())]
    yield "running", "1 while a process works on the data folder", [({}, float(bool(status.running)))]
    yield "outdated", "1 if another version of firmlake made the warehouse", [({}, float(bool(status.outdated)))]
    yield "held", "1 if a gate holds the newest generation back", [({}, float(bool(status.held)))]
    yield from _families_of_lists(status)
    yield "failed_deliveries", "Exports and loads whose last attempt failed", [({}, len(status.undelivered))]
    if status.last_run:
        yield "generation", "Number of the newest generation, also one held back", [({}, status.last_run.generation)]
    counts = [
        ({"dataset": dataset, "status": state}, float(count))
        for dataset, states in status.companies.items()
        for state, count in states.items()
    ]
    yield "companies", "Companies by dataset and latest status", counts
    lacking = [
        ({"list": each.list_name or "", "dataset": each.dataset or "", "cause": each.cause}, float(each.company_count))
        for each in status.incomplete
    ]
    yield "incomplete_companies", "Companies that lack a dataset, by list (empty: all) and cause", lacking
    for name, moment in (("oldest", status.oldest_answer_at), ("newest", status.newest_answer_at)):
        if moment:
            yield f"{name}_answer_timestamp_seconds", f"The {name} answer held", [({}, _seconds(moment))]
    if status.credits_remaining is not None:
        yield "credits_remaining", "Credits left, as last told", [({}, status.credits_remaining)]
    if bill := status.bill:
        yield "month_credits", "Credits spent in this calendar month", [({}, bill.spent)]
        if bill.budget is not None:
            yield "month_credits_budget", "run.max_credits_per_month", [({}, bill.budget)]
        yield "free_refreshes", "Companies refreshed for free since the first run", [({}, bill.free_refreshes)]
        yield "forecast_credits", "Credits of the next four weeks", [({}, bill.forecast)]
    exports = [({"target": last.target}, _seconds(last.exported_at)) for last in status.exports]
    yield "last_export_timestamp_seconds", "The last export to each place", exports
    yield "disk_bytes", "Size of a folder", [({"folder": name}, size) for name, size in status.disk_bytes.items()]
    yield "disk_free_bytes", "Free space on the disk of the data folder", [({}, status.disk_free_bytes)]


def _families_of_lists(status: Status) -> Iterator[tuple[str, str, Iterable[_Sample]]]:
    """Yield what is known of each list, with its name as label, so that no list hides another."""
    other = [each for each in status.failures if not each.list_name]
    failed = [({"list": each.name}, float(bool(each.failure))) for each in status.lists]
    failed.append(({"list": ""}, float(bool(other))))
    yield "failed", "1 if work on the list, or without a list, failed last", failed
    unfinished = [({"list": each.name}, float(len(each.unfinished))) for each in status.lists]
    yield "unfinished_runs", "Runs of the list that are not in the warehouse", unfinished
    codes = [({"list": each.name}, each.exit_code) for each in status.lists if each.exit_code is not None]
    yield "last_run_exit_code", "Exit code of the list's failure or last run, 0 if it is done", codes
    runs = [({"list": each.name}, each.last_run) for each in status.lists if each.last_run]
    ended = [(labels | {"outcome": run["outcome"]}, _seconds(run["finished_at"])) for labels, run in runs]
    yield "last_run_finished_timestamp_seconds", "End of the list's last published run, by outcome", ended
    durations = [(labels, (run["finished_at"] - run["started_at"]).total_seconds()) for labels, run in runs]
    yield "last_run_duration_seconds", "From its plan to its last answer", durations
    for metric, column, meaning in _OF_RUN:
        yield metric, meaning, [(at, run[column]) for at, run in runs if run[column] is not None]


def _seconds(moment: datetime) -> float:
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
