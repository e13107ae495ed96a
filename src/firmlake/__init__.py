"""firmlake enriches lists of companies: files in, exact Parquet and a DuckDB warehouse out."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

__all__ = ["__version__", "open_warehouse"]

__version__ = "1.0.0"

# Polars hands this to its allocator when it is imported. Each of the usual eight arenas keeps for itself what was freed
# in it, in a plan over a million companies 60 MB; one alone costs no time that could be measured.
os.environ.setdefault("_RJEM_MALLOC_CONF", "narenas:1")
# Idle threads of Polars spin. With one thread a run takes 6 % less CPU, a list of millions of lines an eighth less, and
# neither takes longer.
os.environ.setdefault("POLARS_MAX_THREADS", "1")
# So do those of NumPy, which pyarrow imports: 0.1 s of CPU in each process, for arithmetic that nobody asks for.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


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
