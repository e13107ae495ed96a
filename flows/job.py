"""What turns stages into a flow: its settings, its tasks, and an end in one clear line.

Prefect reads its environment when it is imported, so it is imported here only where a flow runs already.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from firmlake.core.errors import DamagedError, FirmlakeError, InterruptedRunError, UsageError
from firmlake.core.redaction import redact
from firmlake.core.sample import SAMPLE_SETTINGS, find_sample
from firmlake.core.settings import SANDBOX, Settings
from firmlake.core.settings_layers import load_settings
from firmlake.core.text import shown

if TYPE_CHECKING:
    from prefect.logging.loggers import PrefectLogAdapter
    from prefect.tasks import Task

__all__ = [
    "EXIT_CODE_LABEL",
    "as_task",
    "end",
    "in_one_line",
    "name_damaged",
    "read_job",
    "read_settings",
    "show",
    "step",
    "tell",
]

P = ParamSpec("P")
R = TypeVar("R")

EXIT_CODE_LABEL = "firmlake.exit_code"
"""Label of a flow run that failed: whoever started it on a work pool gets its message, but not its error."""


def read_job(
    company_list: str | None, config: str | None, overrides: Mapping[str, str] | None
) -> tuple[Settings, Path]:
    """Read the settings and find the company list; without one it is the sample, on the embedded service.

    Raises:
        SettingsError: A setting is unknown or does not fit.
        UsageError: The settings name a service, but there is no list to ask it for.
    """
    file = Path(config) if config else None
    settings, _ = load_settings(file, overrides)
    if company_list:
        return settings, Path(company_list)
    if settings.api.base_url not in ("", SANDBOX):
        raise UsageError("No company list is named", "Name one: `python flows/enrich.py LIST`")
    sample = find_sample()
    return load_settings(file, {**SAMPLE_SETTINGS, **(overrides or {})})[0], sample


def read_settings(config: str | None, overrides: Mapping[str, str] | None) -> Settings:
    """Read the settings of a flow that needs no company list.

    Raises:
        SettingsError: A setting is unknown or does not fit.
    """
    return load_settings(Path(config) if config else None, overrides)[0]


def in_one_line(function: Callable[P, R]) -> Callable[P, R]:
    """Make a flow or task that fails with an error of ours fail in Prefect with its one line, without a traceback.

    Whoever asks its state for the result gets the error raised.
    """

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except FirmlakeError as error:
            from prefect.states import Crashed, Failed

            _label(error.exit_code)
            state = Crashed if isinstance(error, InterruptedRunError) else Failed
            # Prefect keeps states until the process ends, and a traceback keeps all that its frames hold, open or not.
            return state(message=str(error), data=error.with_traceback(None))  # type: ignore[return-value]

    return wrapper


def _label(exit_code: int) -> None:
    """Note with the flow run how it ends; a server that does not take it is no reason to end otherwise."""
    from prefect.client.orchestration import get_client
    from prefect.context import FlowRunContext, TaskRunContext

    context = FlowRunContext.get()
    if context and context.flow_run and not TaskRunContext.get():
        with suppress(Exception), get_client(sync_client=True) as client:
            client.update_flow_run_labels(context.flow_run.id, {EXIT_CODE_LABEL: exit_code})


def step(name: str) -> Callable[[Callable[P, R]], Task[P, R]]:
    """Make a task of a function; `{argument}` in its name stands for that argument.

    Prefect neither skips nor stores nor repeats it: the run's folder says what is done, and the client repeats its
    requests where that helps. An error of ours ends it in one line.
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
    """Carry out a step as a task of the flow run, here and now; see `firmlake.core.steps.Step`.

    Prefect keeps a task's function and what it returns until the process ends, and the records of a shard take hundreds
    of MB: neither the work nor its result may be reached from there afterwards.
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
    """Name the runs that were left out because they are damaged.

    Raises:
        DamagedError: There are some: nobody looks at what is green.
    """
    for run_id, error in damaged.items():
        tell(f"Left out run {run_id}: {error}")
    if damaged:
        first = next(iter(damaged.values()))
        raise DamagedError(f"{said}, without {', '.join(damaged)}: {first.message}", first.next_step)


def end(result: R, message: str) -> R:
    """End a flow or task with a message that Prefect shows; its result is as usual."""
    from prefect.states import Completed

    return Completed(message=shown(redact(message)), data=result)  # type: ignore[return-value]


def tell(line: str) -> None:
    """Tell a person something: in the run's log, and by hand on stderr."""
    from prefect.logging import get_run_logger

    logger = cast("PrefectLogAdapter", get_run_logger())
    logger.getChild("firmlake").info(shown(redact(line), kept="\n"))


def show(function: Callable[[], object]) -> None:
    """Print something on stdout; a reader that has gone, as that of `| head`, is no reason to fail."""
    try:
        function()
    except (BrokenPipeError, SystemExit):  # rich turns the one into the other
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
