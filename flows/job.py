"""Helpers shared by all flows: read settings, make tasks of steps, log lines, and end with one line.

Prefect reads its environment when it is imported, so functions here import it only while a flow is running.
"""

from __future__ import annotations

import atexit
import inspect
import logging
import os
import re
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache, wraps
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from firmlake import __version__
from firmlake.core.errors import EXIT_DONE, DamagedError, FirmlakeError, InterruptedRunError, UsageError, in_our_words
from firmlake.core.folders import Folders
from firmlake.core.process import without_token
from firmlake.core.settings import SANDBOX, Settings
from firmlake.core.settings_layers import SAMPLE_SETTINGS, find_sample, load_settings
from firmlake.core.text import redact, shown
from firmlake.terminal import rows
from firmlake.terminal.rows import Part
from firmlake.warehouse.generations import lost_warehouse, newest

if TYPE_CHECKING:
    from prefect import Flow
    from prefect.logging.loggers import PrefectLogAdapter
    from prefect.tasks import Task

P = ParamSpec("P")
R = TypeVar("R")

NO_RUN_YET = "Skipped: no run has ended yet"
"""The message of flows that need a run that has ended."""
EXIT_CODE_LABEL = "firmlake.exit_code"
"""Label of a flow run with its exit code. A caller of a deployment gets the message of a run, not its error."""


def read_job(
    company_list: str | None, config: str | None, overrides: Mapping[str, str] | None, sql: str = ""
) -> tuple[Settings, str]:
    """Read the settings and find the company list, as `firmlake.intake.source.local_list` takes it.

    Without a list or query (None), a flow started by hand runs the sample list on the embedded service. A deployed run
    does not: its list is missing because of a mistake, and a run of the sample would hide that.
    """
    settings = read_settings(config, overrides)
    if (company_list and company_list.strip()) or sql:
        return settings, company_list or ""
    if is_deployed():
        raise UsageError(
            "This run names no company list",
            "Set LAKE_LIST and repeat `python -m firmlake.flows.deploy`, or start it with the parameter company_list",
        )
    if company_list is not None or settings.api.base_url not in ("", SANDBOX):
        raise UsageError("No company list is named", "Name one: `python flows/enrich.py LIST`")
    return read_settings(config, {**SAMPLE_SETTINGS, **(overrides or {})}), str(find_sample())


def read_settings(config: str | None, overrides: Mapping[str, str] | None) -> Settings:
    """Read the settings of a flow that needs no company list."""
    _refuse_secrets(overrides or {})
    _use_token_block()
    return load_settings(Path(config) if config else None, overrides)[0]


def _refuse_secrets(overrides: Mapping[str, str]) -> None:
    """Refuse a token among the overrides: no setting holds one, and Prefect has stored and shown it by now."""
    found = [key for key in overrides if "token" in key.lower() and key.rpartition(".")[2].lower() != "token_file"]
    if found:
        raise UsageError(
            f"overrides holds a token ({found[0]}), which Prefect now stores and shows among the run's parameters",
            "Delete this flow run on its page, change the token at the service, and give the new one to the worker: "
            "FIRMLAKE_API_TOKEN, FIRMLAKE_API_TOKEN_FILE or a Secret block (FIRMLAKE_API_TOKEN_BLOCK)",
        )


def _use_token_block() -> None:
    """Take the token of a deployed run from the Secret block that FIRMLAKE_API_TOKEN_BLOCK names."""
    name = os.environ.get("FIRMLAKE_API_TOKEN_BLOCK", "")
    if not name or not is_deployed():
        return
    if os.environ.get("FIRMLAKE_API_TOKEN_FILE"):
        raise UsageError("Both FIRMLAKE_API_TOKEN_BLOCK and FIRMLAKE_API_TOKEN_FILE are set", "Unset one of them")
    from prefect.blocks.system import Secret

    try:
        os.environ["FIRMLAKE_API_TOKEN"] = str(Secret.load(name).get())  # type: ignore[union-attr]
    except ValueError:
        raise UsageError(
            f"Prefect's server has no Secret block named {name}", "Create it on the page Blocks, or correct the name"
        ) from None


def is_cancelled() -> bool:
    """Tell whether Prefect's server has this flow run as cancelled or crashed.

    Its worker normally ends the process then. If the worker has died, nobody does.
    """
    from prefect.client.orchestration import get_client
    from prefect.context import FlowRunContext

    context = FlowRunContext.get()
    if not (context and context.flow_run):
        return False
    with suppress(Exception), get_client(sync_client=True) as client:
        state = client.read_flow_run(context.flow_run.id).state
        return state is not None and (state.is_cancelling() or state.is_cancelled() or state.is_crashed())
    return False


def is_deployed() -> bool:
    """Tell whether a deployment started this flow run, rather than a person at a terminal."""
    if "prefect" not in sys.modules:  # by hand: its environment is not set yet, and Prefect reads it on import
        return False
    from prefect.runtime import deployment

    return deployment.id is not None


def is_before_first_run(settings: Settings) -> bool:
    """Tell whether no run has ever ended, so that there is nothing yet to export, load or maintain."""
    folders = Folders.of(settings)
    return newest(folders) is None and lost_warehouse(folders) is None


_SUBJECTS = ("company_list", "contacts", "lists", "archive")
"""Parameters that say what a run is about; the first with a value is taken."""


def _name_run() -> str:
    """Name the flow run that begins, by its deployment, what it is about, and the day.

    A run that its parent has named keeps its name.
    """
    from prefect.runtime import deployment, flow_run

    if flow_run.parent_flow_run_id or deployment.name == "portfolio":
        return str(flow_run.name)
    first = deployment.name if deployment.id else f"{flow_run.flow_name} by hand"
    parameters = flow_run.parameters or {}
    about = next((PurePath(str(parameters[name])).stem for name in _SUBJECTS if parameters.get(name)), "")
    return " ".join(filter(None, (str(first), about, f"{flow_run.scheduled_start_time.astimezone():%Y-%m-%d}")))


def job(hours: int) -> Callable[[Callable[P, R]], Flow[P, R]]:
    """Make a flow of a function, which ends after so many hours. An error ends it with one line, see `in_one_line`.

    Prefect neither stores results nor retries: the folder of a run records what is done.
    """
    from prefect import flow

    options: dict[str, Any] = {"timeout_seconds": hours * 3600, "persist_result": False, "retries": 0}
    return lambda function: flow(version=__version__, flow_run_name=_name_run, **options)(in_one_line(function))


def in_one_line(function: Callable[P, R]) -> Callable[P, R]:
    """Make a flow or task that raises a `FirmlakeError` fail in Prefect with one line, without a traceback.

    Asking the state for its result raises the error.
    """

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        if is_deployed():
            _outlive_worker()
            _start_watch()
        try:
            with in_our_words():
                ended = function(*args, **kwargs)
        except FirmlakeError as error:
            from prefect.states import Crashed, Failed

            _label(error.exit_code)
            state = Crashed if isinstance(error, InterruptedRunError) else Failed
            # Prefect keeps states until the process ends, and a traceback would keep everything its frames refer to.
            return state(message=plain(str(error)), data=error.with_traceback(None))  # type: ignore[return-value]
        _label(EXIT_DONE)  # a retried run still has the label of its first try
        return ended

    with suppress(NameError):  # Prefect would look up the types of parameters in this module
        wrapper.__signature__ = inspect.signature(function, eval_str=True)  # type: ignore[attr-defined]
    return wrapper


@cache
def _outlive_worker() -> None:
    """Let a run go on whose worker has died: what it prints then goes nowhere, and its log still reaches the server.

    The worker reads stdout and stderr through pipes. Rich, through which Prefect logs, ends the process when a line
    meets a pipe without a reader.
    """

    def wait() -> None:
        poll = select.poll()
        for number in (1, 2):
            poll.register(number, 0)  # no event but the error that the reader has gone
        poll.poll()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for number in (1, 2):
            os.dup2(nowhere, number)

    threading.Thread(target=wait, name="worker is gone", daemon=True).start()


@cache
def _start_watch() -> None:
    """Start a process that reports the end of this run if this process is ended before it can; see `watch.py`."""
    from prefect.runtime import flow_run

    command = [sys.executable, str(Path(__file__).with_name("watch.py")), str(flow_run.id)]
    nowhere, environment = subprocess.DEVNULL, without_token(os.environ)
    watch = subprocess.Popen(  # noqa: S603 - this interpreter, our file
        command, stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere, env=environment, start_new_session=True
    )

    def end_by_itself() -> None:
        assert watch.stdin
        with suppress(OSError):
            watch.stdin.write(b".")
            watch.stdin.close()

    atexit.register(end_by_itself)


class _OneLine(logging.Filter):
    """Logs an error of ours, and the end of a cancelled run, as a line alone.

    Prefect's engine logs each exception that ends a deployed run with its traceback, as the last thing on the page.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Reduce the record to a line if it is about such an error, and keep it."""
        from prefect.exceptions import UnfinishedRun  # a run that ends while it is cancelled has no result

        error = record.exc_info and record.exc_info[1]
        if isinstance(error, FirmlakeError | UnfinishedRun):
            record.msg, record.args, record.exc_info = str(error), (), None
        return True


logging.getLogger("prefect.flow_runs").addFilter(_OneLine())


def _label(exit_code: int) -> None:
    """Label the flow run with its exit code. If the server rejects the label, the run ends as it would anyway."""
    from prefect.client.orchestration import get_client
    from prefect.context import FlowRunContext, TaskRunContext

    context = FlowRunContext.get()
    if context and context.flow_run and not TaskRunContext.get():
        with suppress(Exception), get_client(sync_client=True) as client:
            client.update_flow_run_labels(context.flow_run.id, {EXIT_CODE_LABEL: exit_code})


def step(name: str) -> Callable[[Callable[P, R]], Task[P, R]]:
    """Make a task of a function; `{argument}` in the name is replaced by the argument.

    Prefect does not cache, store or retry the task: the run's folder records what is done, and the client retries
    requests. A `FirmlakeError` ends the task with one line.
    """
    from prefect.cache_policies import NO_CACHE
    from prefect.tasks import Task

    def make(function: Callable[P, R]) -> Task[P, R]:
        return Task(
            in_one_line(function),
            name=function.__name__,
            task_run_name=name,
            cache_policy=NO_CACHE,
            persist_result=False,
            retries=0,
        )

    return make


def as_task(name: str, work: Callable[[], R], describe: Callable[[R], str] | None = None) -> R:
    """Carry out a step as a task of the flow run, and return its result; see `firmlake.core.work.CarryOut`.

    Prefect keeps a task's function and result until the process ends, and the records of a shard take hundreds of MB.
    So neither the function nor the result that Prefect sees refers to them.
    """
    from prefect.states import Completed

    todo, made = [work], list[R]()
    del work

    def carry_out() -> Any:
        made.append(todo.pop()())
        return Completed(message=describe(made[0]) if describe else None)

    carry_out.__name__ = name.rstrip("0123456789 ")
    state = step(name.replace("{", "{{").replace("}", "}}"))(carry_out)(return_state=True)
    return made.pop() if state.is_completed() else state.result()


def name_damaged(said: str, damaged: Mapping[str, DamagedError]) -> None:
    """Raise DamagedError if runs were left out because they are damaged: a completed flow run would go unnoticed."""
    for run_id, error in damaged.items():
        tell(f"Skipped run {run_id}: {error}")
    if damaged:
        first = next(iter(damaged.values()))
        raise DamagedError(f"{said}, without {', '.join(damaged)}: {first.message}", first.next_step)


def end(result: R, message: str) -> R:
    """End a flow or task with a message that Prefect shows, and its result."""
    from prefect.states import Completed

    return Completed(message=plain(shown(redact(message))), data=result)  # type: ignore[return-value]


_MARKUP = re.compile(r"<(?=[!@#]|[A-Za-z][\w+.-]*:)|(?<=\])(?=\()|(?<!\w)@(?=(?:all|channel|everyone|here)\b)")
_PLAIN = {"<": "\u2039", "": " ", "@": "\uff20"}


def plain(text: str) -> str:
    """Take from a text what chat programs read as a link, an image or a call to everybody.

    Notices hold names and reasons from outside. Slack reads `<!channel>` and `<https:...|text>`, others `[text](...)`.
    """
    return _MARKUP.sub(lambda found: _PLAIN[found[0]], text)


def tell(line: str) -> None:
    """Print a line for a person: in the run's log, and on stderr if started by hand."""
    show(lambda: _logger().getChild("firmlake").info(shown(redact(line), kept="\n")))


def record(line: str) -> None:
    """Add a line to the run's log alone: a person at a terminal sees the same in another form."""
    show(lambda: _logger().info(shown(redact(line), kept="\n")))


def _logger() -> PrefectLogAdapter:
    from prefect.logging import get_run_logger

    return cast("PrefectLogAdapter", get_run_logger())


def show_parts(parts: Iterable[Part]) -> None:
    """Print a result for a person; the log has it in another form."""
    show(lambda: rows.show(parts))


def show(function: Callable[[], object]) -> None:
    """Print or log something. A reader that is gone, such as `head` or a worker that died, causes no failure."""
    try:
        function()
    except (BrokenPipeError, SystemExit):  # rich turns a BrokenPipeError into SystemExit
        if is_deployed():  # the worker read both
            nowhere = os.open(os.devnull, os.O_WRONLY)
            for stream in (sys.stdout, sys.stderr):
                os.dup2(nowhere, stream.fileno())
