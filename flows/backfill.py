"""The flow `backfill`: one enrichment for each portfolio, on a work pool, under one allowance.

    python flows/backfill.py portfolios/            # a run for each file of the folder
    firmlake.flows.backfill.backfill                # its entrypoint, for deployments

Each run has its own list and data folder with fixed names, so a killed run resumes in its folder and nothing is paid
twice. Each run also has an idempotency key on Prefect's server: a backfill that is started again finds its runs,
whether pending, running or completed, and starts only failed ones again.
"""

from __future__ import annotations

if __name__ == "__main__":
    from by_hand import start

    start(__file__)  # before Prefect is imported, which reads its environment then; never returns

import hashlib
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, cast
from uuid import UUID

import msgspec
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import FlowRun
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectNotFound

from artifacts import show_table
from firmlake.core import errors
from firmlake.core.errors import EXIT_DONE, EXIT_FAILED, EXIT_SIGTERM, CompanyListError, FirmlakeError, UsageError
from firmlake.core.files import sha256_of
from firmlake.core.folders import Folders
from firmlake.core.settings import Settings
from firmlake.core.work import lock
from firmlake.delivery.destination import open_destination
from firmlake.rebuild.archive import archive as add_to_archive
from job import EXIT_CODE_LABEL, end, job, name_damaged, read_settings, step, tell

_MEANINGS = {
    errors.EXIT_AUTHORIZATION: "the token is refused",
    errors.EXIT_DRIFT: "not published, the answers lack a known field",
    EXIT_FAILED: "failed",
    errors.EXIT_HELD: "not published, a gate holds it back",
    errors.EXIT_USAGE: "wrong settings or list",
    errors.EXIT_LOCKED: "its data folder was in use",
    EXIT_SIGTERM: "interrupted",
    errors.EXIT_STOPPED: "stopped, can be resumed",
    errors.EXIT_SOME_FAILED: "published, some companies failed",
    EXIT_DONE: "done",
}
"""What the exit codes of runs mean, the worst first."""
_POLL_SECONDS = 5.0
_PAGE = 100


class _Ended(msgspec.Struct, frozen=True):
    """How a portfolio's run ended."""

    portfolio: str
    exit_code: int
    message: str


@job(hours=96)
def backfill(
    lists: str,
    *,
    name: str | None = None,
    archive: str | None = None,
    deployment: str = "enrich/portfolio",
    config: str | None = None,
    overrides: dict[str, str] | None = None,
) -> str:
    """Enrich each portfolio in a run of its own, wait for all runs, and end as the worst of them did.

    Args:
        lists: A folder in which each file is a portfolio's list. The path must be valid on the workers.
        name: Name of this backfill. Runs that completed under this name are not started again. None uses the date, UTC.
        archive (TARGET): Where landed answers are archived afterwards, for `replay` to build one warehouse; None
            archives none.
        deployment: The deployment of the flow `enrich` on a work pool.
        config: A settings file. None reads config/firmlake.toml.
        overrides: Settings by dotted key. The portfolios' data folders are below `paths.data`. Budgets are divided
            evenly among the portfolios. Prefect stores and shows all parameters: pass no secrets.

    Returns:
        The name of the backfill.
    """
    settings = read_settings(config, overrides)
    name = name or f"{datetime.now(UTC):%Y-%m-%d}"
    portfolios = find_portfolios(settings, Path(lists))
    started = {
        portfolio.name: _start(name, deployment, portfolio, config, _layers(settings, overrides, portfolio, portfolios))
        for portfolio in portfolios
    }
    tell(f"Backfill {name}: {len(started)} runs of {deployment}")
    found = wait_for(started.values())
    ended = [_judge(portfolio, found.get(run_id)) for portfolio, run_id in started.items()]
    if archive:
        ended = [_archived(archive, *each) for each in zip(portfolios, ended, strict=True)]
    show_table("backfill-portfolios", [msgspec.structs.asdict(one) for one in ended], f"Backfill {name}")
    return conclude(name, ended)


@step("archive {portfolio.name}")
def archive_portfolio(archive: str, portfolio: Portfolio) -> None:
    """Add to the archive what has been published of a portfolio."""
    with lock(portfolio.folders, "the flow backfill"):
        done = add_to_archive(portfolio.folders, open_destination(archive))
    said = f"{portfolio.name}: {len(done.runs)} runs archived, {done.file_count} files, {done.byte_count:,} bytes"
    tell(said)
    name_damaged(said, done.damaged)


def wait_for(run_ids: Iterable[UUID]) -> dict[UUID, FlowRun]:
    """Wait until flow runs have ended, and say now and then how many are how far."""
    run_ids, said = list(run_ids), ""
    while True:
        runs = {run.id: run for run in _read(run_ids)}
        states = Counter(run.state.name if run.state else "Pending" for run in runs.values())
        line = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        if line != said:
            tell(line)
            said = line
        if all(run.state and run.state.is_final() for run in runs.values()):
            return runs
        time.sleep(_POLL_SECONDS)


def conclude(name: str, ended: list[_Ended]) -> str:
    """End as the worst run did."""
    counts = Counter(one.exit_code for one in ended)
    said = ", ".join(f"{counts[code]} {_MEANINGS[code]}" for code in _MEANINGS if counts[code])
    worst = next(code for code in _MEANINGS if counts[code])
    if worst == EXIT_DONE:
        return end(name, f"Backfill {name}: {said}")
    one = next(one for one in ended if one.exit_code == worst)
    error = FirmlakeError(
        f"Backfill {name}: {said}; {one.portfolio}: {one.message.rstrip('.')}",
        "Start it again with the same name to resume: completed runs are not repeated",
    )
    error.exit_code = worst
    raise error


def _layers(
    settings: Settings, overrides: dict[str, str] | None, portfolio: Portfolio, portfolios: list[Portfolio]
) -> dict[str, str]:
    """Make the overrides of a portfolio's run: those of the backfill, its data folder, its share of the budgets."""
    run, layers = settings.run, {**(overrides or {}), "paths.data": str(portfolio.folders.data)}
    for key in ("max_credits", "max_credits_per_month", "max_requests"):
        total = getattr(run, key)
        if total >= 0:
            layers[f"run.{key}"] = str(total // len(portfolios))
    return layers


def _start(name: str, deployment: str, portfolio: Portfolio, config: str | None, layers: dict[str, str]) -> UUID:
    """Start a portfolio's run, or find an earlier one that has not failed."""
    parameters: dict[str, Any] = {
        "company_list": str(portfolio.company_list),
        "config": config,
        "overrides": layers,
    }
    identity = msgspec.json.encode([name, deployment, portfolio.sha256, parameters], order="deterministic")
    key = f"backfill {hashlib.sha256(identity).hexdigest()[:16]}"
    failed_count = sum(bool(run.state and run.state.is_final() and not run.state.is_completed()) for run in _of(key))
    try:
        run = run_deployment(
            deployment,
            parameters=parameters,
            timeout=0,
            flow_run_name=f"{portfolio.name} of {name}",
            tags=[key],
            idempotency_key=f"{key} {failed_count}",
        )
        return cast("FlowRun", run).id
    except ObjectNotFound:
        raise UsageError(
            f"There is no deployment {deployment} on Prefect's server", "`python -m firmlake.flows.deploy` makes it"
        ) from None


def _of(key: str) -> list[FlowRun]:
    with get_client(sync_client=True) as client:
        return client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate({"tags": {"all_": [key]}}))


def _read(run_ids: list[UUID]) -> Iterator[FlowRun]:
    with get_client(sync_client=True) as client:
        for begin in range(0, len(run_ids), _PAGE):
            ids = run_ids[begin : begin + _PAGE]
            yield from client.read_flow_runs(
                flow_run_filter=FlowRunFilter.model_validate({"id": {"any_": ids}}), limit=_PAGE
            )


def _judge(portfolio: str, run: FlowRun | None) -> _Ended:
    if run is None or run.state is None:
        return _Ended(portfolio, EXIT_SIGTERM, "Its run was removed from Prefect's server")
    state = run.state
    code = EXIT_DONE if state.is_completed() else EXIT_FAILED if state.is_failed() else EXIT_SIGTERM
    if state.is_failed():
        with suppress(KeyError, ValueError):
            code = int(str(run.labels[EXIT_CODE_LABEL]))
    return _Ended(portfolio, code if code in _MEANINGS else EXIT_FAILED, state.message or state.name or "")


def _archived(archive: str, portfolio: Portfolio, ended: _Ended) -> _Ended:
    """Archive a portfolio. If that fails, a run that was done counts as failed."""
    try:
        archive_portfolio(archive, portfolio, return_state=True).result()
    except FirmlakeError as error:
        tell(str(error))
        return _Ended(portfolio.name, error.exit_code, str(error)) if ended.exit_code == EXIT_DONE else ended
    return ended


class Portfolio(NamedTuple):
    """A company list with a data folder of its own."""

    name: str  # of the file, up to its first dot; also the name of the data folder
    company_list: Path
    sha256: str  # of the file
    folders: Folders


def find_portfolios(settings: Settings, lists: Path) -> list[Portfolio]:
    """Make a portfolio of each file in a folder, sorted by name.

    Its data folder is `portfolios/NAME` below `paths.data`.

    Raises:
        CompanyListError: There is no such folder, it holds no list, or two files would get the same name.
    """
    home = Path(settings.paths.data).absolute()
    found = sorted(lists.iterdir()) if lists.is_dir() else []
    files = [path for path in found if path.is_file() and path.name[0] != "."]
    if not files:
        raise CompanyListError(
            f"{lists} is no folder with files", "Name a folder with a company list for each portfolio"
        )
    name, count = Counter(_name(path) for path in files).most_common(1)[0]
    if count > 1:
        raise CompanyListError(
            f"{lists} holds {count} files for portfolio {name}, because only the name up to the first dot counts",
            "Rename all but one of them",
        )
    return [
        Portfolio(_name(path), path.absolute(), sha256_of(path), Folders(home / "portfolios" / _name(path)))
        for path in files
    ]


def _name(path: Path) -> str:
    return path.name.partition(".")[0]
