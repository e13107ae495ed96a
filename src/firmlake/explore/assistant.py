"""Serve the newest generation to an assistant over stdio (Model Context Protocol): read-only, locked down, bounded.

Nothing here can send a request to the service: the tools read one opened generation, whose connection reaches no file,
no network and no setting. A new generation is opened as soon as it is published.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import date
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from firmlake import __version__
from firmlake.core.errors import FirmlakeError, UsageError
from firmlake.core.folders import Folders
from firmlake.core.sql import read_queries
from firmlake.explore.holding import Newest
from firmlake.intake.identifiers import read_named_company
from firmlake.tables.schemas import COMPANY_TABLES

if TYPE_CHECKING:
    from mcp.server import MCPServer

_SQL = read_queries(__file__)

_ROWS_MAX: Final = 1_000
_BYTES_MAX: Final = 200_000
_INSTRUCTIONS: Final = f"""A DuckDB warehouse of companies: accounts, lookalikes, owners and company lists, read-only.
Call describe first: it names the tables and views, and with a name explains the columns. Then query with SQL, beginning
with the views portfolio, trend, ratios, findings, incomplete and lists."NAME". Amounts are exact, without a currency.
At most {_ROWS_MAX} rows and {_BYTES_MAX:,} bytes come back, within 30 seconds, so aggregate in SQL. No tool costs
credits."""
_DICTIONARY: Final = "firmlake://dictionary"
_SINCE: Final = f"FROM changes WHERE found_at >= ? ORDER BY found_at DESC LIMIT {_ROWS_MAX + 1}"
_OF_COMPANY: Final = "FROM {} WHERE country = ? AND company_number = ? LIMIT 100"
_TABLES: Final = (
    "companies", "portfolio", *(table for tables in COMPANY_TABLES.values() for table in tables), "findings",
)  # fmt: skip


class Assistant:
    """The tools. Each returns JSON text: rows, and whether there are more."""

    def __init__(self, folders: Folders) -> None:
        self._newest = Newest(folders)

    def query(self, sql: str) -> str:
        """Query the warehouse with one DuckDB SELECT; rows come back as JSON objects."""
        rows, has_more = self._newest.holding().ask_freely(sql)
        return _as_text(rows.to_dicts(), has_more=has_more)

    def describe(self, name: str = "") -> str:
        """Without a name, list tables, views and macros with their meaning; with one, the columns of that one."""
        holding = self._newest.holding()
        rows = holding.ask(_SQL["columns"], [name]) if name else holding.ask(_SQL["relations"])
        if rows.is_empty():
            raise UsageError(f"There is no table or view {name}", "Call describe without a name for all of them")
        return _as_text(rows.to_dicts())

    def dictionary(self) -> str:
        """List tables, views and macros with their meaning; firmlake://dictionary/NAME has the columns of one."""
        return self.describe()

    def company(self, number: str) -> str:
        """Give everything held about a company, such as BE 0403.091.220; it fetches nothing."""
        wanted, holding = read_named_company(number), self._newest.holding()
        held = {table: holding.ask(_OF_COMPANY.format(table), list(wanted)) for table in _TABLES}
        if held["companies"].is_empty():
            next_step = "Ask a person to fetch it with `firmlake company`, which costs a credit"
            raise UsageError(f"The warehouse does not hold {wanted}", next_step)
        rows = [{"table": table, **row} for table, frame in held.items() for row in frame.to_dicts()]
        return _as_text(rows)

    def changes(self, since: str) -> str:
        """List the changes that runs found since a day such as 2026-01-31, newest first."""
        try:
            day = date.fromisoformat(since)
        except ValueError:
            raise UsageError(f"{since} is no day", "Write it as 2026-01-31") from None
        return _as_text(self._newest.holding().ask(_SINCE, [day]).to_dicts())


def make_server(folders: Folders) -> MCPServer[Any]:
    """Make the server with its tools, and with the dictionary as resources: all relations, and each by its name."""
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
    except ImportError:
        raise UsageError("The extra mcp is not installed", "pip install 'firmlake[mcp]'") from None

    def told(work: Callable[..., str], failure: type[Exception] = ToolError) -> Callable[..., str]:
        @wraps(work)
        def tell(*arguments: str, **named: str) -> str:
            try:
                return work(*arguments, **named)
            except FirmlakeError as error:
                raise failure(str(error)) from None

        return tell

    server = MCPServer("firmlake", version=__version__, instructions=_INSTRUCTIONS, log_level="ERROR")
    assistant = Assistant(folders)
    for tool in (assistant.query, assistant.describe, assistant.company, assistant.changes):
        server.tool(structured_output=False)(told(tool))
    for uri, page in ((_DICTIONARY, assistant.dictionary), (f"{_DICTIONARY}/{{name}}", assistant.describe)):
        server.resource(uri, mime_type="application/json")(told(page, ResourceNotFoundError))
    return server


def _as_text(rows: Sequence[dict[str, Any]], *, has_more: bool = False) -> str:
    """Write rows as JSON within the limits; `has_more` says that rows were left out."""
    texts, size = list[str](), 0
    for row in rows[:_ROWS_MAX]:
        text = json.dumps(row, ensure_ascii=False, default=str)
        size += len(text.encode()) + 2
        if size > _BYTES_MAX:
            break
        texts.append(text)
    is_cut = has_more or len(texts) < len(rows)
    return f'{{"rows": [{", ".join(texts)}], "has_more": {json.dumps(is_cut)}}}'
