"""firmlake enriches lists of companies: files in, exact Parquet and a DuckDB warehouse out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import firmlake.enrich  # noqa: F401 - first, because a later import of the package would replace the function `enrich`

if TYPE_CHECKING:
    import duckdb

    from firmlake.enrich.events import Event
    from firmlake.enrich.frames import Enriched, Plan, Source

__all__ = ["__version__", "enrich", "open_warehouse", "plan"]

__version__ = "1.0.0"

# Polars hands this to its allocator when it is imported. Each of the usual eight arenas keeps for itself what was freed
# in it, in a plan over a million companies 60 MB; one alone costs no time that could be measured.
os.environ.setdefault("_RJEM_MALLOC_CONF", "narenas:1")
# Idle threads of Polars spin. With one thread a run takes 6 % less CPU, a list of millions of lines an eighth less, and
# neither takes longer.
os.environ.setdefault("POLARS_MAX_THREADS", "1")
# So do those of NumPy, which pyarrow imports: 0.1 s of CPU in each process, for arithmetic that nobody asks for.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def enrich(
    source: Source,
    *,
    data: str | Path | None = None,
    config: str | Path | None = None,
    settings: Mapping[str, object] | None = None,
    list_name: str = "",
    columns: Sequence[str] = (),
    show: Callable[[Event], object] | None = None,
) -> Enriched:
    """Enrich a list of companies: fetch and publish what is missing or stale, and return frames.

    It does what `firmlake run` does, in the same data folder: commands and reports see its result, and the same call
    resumes after an interruption.

    Args:
        source: A path or address, as LIST of `firmlake run`, or a frame of Polars, pandas or Arrow with a column of
            company numbers. Columns are recognised as in a file.
        data: The data folder; None takes the setting `paths.data`.
        config: The settings file; None takes FIRMLAKE_CONFIG, or config/firmlake.toml if it exists.
        settings: Settings by dotted key, such as `{"run.max_credits": 500}`. The token comes from the environment.
        list_name: The name of the list in the warehouse; empty takes the file's name, and "frame" for a frame.
        columns: The columns to add to `lines`; empty adds those that `--out` adds.
        show: Called with each event of the run, see `firmlake.enrich.events`; None shows nothing.

    Returns:
        The frames, the summary, and what was left undone.

    Raises:
        SettingsError: A setting is unknown or does not fit.
        CompanyListError: The list cannot be used.
        FirmlakeError: Nothing could be published. Answers are kept; the same call resumes.

    Example:
        >>> import firmlake, polars, tempfile
        >>> frame = polars.DataFrame({"customer": ["Acme", "Bolt"], "vat": ["BE 0200.000.043", "BE0200000142"]})
        >>> found = firmlake.enrich(frame, data=tempfile.mkdtemp(), settings={"api.base_url": "sandbox"})
        >>> found.lines.select("customer", "status").rows()
        [('Acme', 'enriched'), ('Bolt', 'enriched')]
    """
    from firmlake.enrich import frames

    return frames.enrich_source(source, frames.read_settings(data, config, list_name, settings), columns, show)


def plan(
    source: Source,
    *,
    data: str | Path | None = None,
    config: str | Path | None = None,
    settings: Mapping[str, object] | None = None,
    list_name: str = "",
) -> Plan:
    """Work out what `firmlake.enrich` would fetch for a list and what that costs. Sends no request, writes nothing.

    Args and errors are those of `enrich`.

    Returns:
        The plan, with `prices`: low, expected and worst, and the cheaper cuts.

    Example:
        >>> import firmlake, polars, tempfile
        >>> frame = polars.DataFrame({"vat": ["BE 0200.000.043", "BE0200000142"]})
        >>> firmlake.plan(frame, data=tempfile.mkdtemp(), settings={"api.base_url": "sandbox"}).credits
        2
    """
    from firmlake.enrich import frames

    return frames.plan_source(source, frames.read_settings(data, config, list_name, settings))


def open_warehouse(
    data: str | Path = "data", *, locked: bool = False
) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
    """Open the newest generation of a warehouse for reading.

    The connection keeps this generation even if another is published, and delays no load. Open it again to see newer
    data.

    Args:
        data: The data folder.
        locked: For SQL that somebody else wrote: it reaches the warehouse and nothing else, neither files nor the
            network. The lock holds for all connections of this process to the same generation.

    Returns:
        A connection, in a `with` statement that closes it.

    Raises:
        FirmlakeError: Nothing was published yet.
        DamagedError: The file was changed.

    Example:
        with firmlake.open_warehouse() as warehouse:
            print(warehouse.sql("SELECT count(*) FROM companies"))
    """
    # Late, so that `import firmlake` stays light.
    from firmlake.core.folders import Folders
    from firmlake.warehouse import generations

    return generations.open_warehouse(Folders(Path(data)), locked=locked)
