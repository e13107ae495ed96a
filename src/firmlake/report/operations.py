"""The report's chapters on our own work: what we hold, what the runs did, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from firmlake.report import charts
from firmlake.report.document import Tile, draw_tiles
from firmlake.report.section import Section

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

__all__ = ["OPERATIONS"]


def _tiles(rows: Sequence[dict[str, Any]]) -> str:
    (row,) = rows
    shown = {name: f"{value:,}" if isinstance(value, int) else value for name, value in row.items()}
    return draw_tiles([Tile(name, "-" if value is None else str(value)) for name, value in shown.items()])


def _due(frame: pl.DataFrame) -> alt.Chart:
    parts = {"credits": charts.PLUS, "free refreshes": "var(--faint)"}
    return charts.bars(frame, "day", "count", colours=parts)


OPERATIONS = (
    Section(
        "Coverage",
        "Coverage and freshness",
        "Companies by dataset and status. The age of answers is in days.",
        """
        SELECT dataset, status, company_count AS companies, oldest_at::TIMESTAMP_S AS oldest_answer,
            median_age_days AS median_age
        FROM freshness ORDER BY dataset, companies DESC, status
        """,
    ),
    Section(
        "Runs and cost",
        "Last run and credits",
        "",
        """
        SELECT
            (SELECT replace(max_by(outcome, finished_at), '_', ' ') FROM runs) AS "Last run",
            (SELECT strftime(max(finished_at), '%d %b %Y') FROM runs) AS "Ended",
            (SELECT sum(credit_count)::BIGINT FROM runs) AS "Credits charged",
            (SELECT sum(free_refresh_count)::BIGINT FROM runs) AS "Credits saved",
            (SELECT arg_max(credits_remaining, fetched_at) FROM requests) AS "Credits left",
            (SELECT count(*) FROM company_state WHERE status IN ('failed', 'forbidden', 'unavailable'))
                AS "Failed datasets"
        """,
        draw=_tiles,
    ),
    Section(
        "",
        "Unexplained bills",
        "Runs for which the service charged more or less than our ledger expects. It charges less if another user or a "
        "killed run bought companies before. If it charges more, ask the service before the next run.",
        """
        SELECT started_at::TIMESTAMP_S AS started, run_id AS run, credit_count AS credits,
            expected_credit_count AS expected_credits, bill, count(*) OVER () AS total
        FROM spend WHERE unexplained_credit_count <> 0 ORDER BY started_at DESC LIMIT 10
        """,
    ),
    Section(
        "",
        "Runs",
        "The last five. Our ledger expects one credit for each company found outside its paid window.",
        """
        SELECT started_at::TIMESTAMP_S AS started, list_name, outcome, company_count AS companies,
            target_count AS asked, request_count AS requests, credit_count AS credits,
            expected_credit_count AS expected_credits, free_refresh_count AS free_refreshes, bill, reason,
            next_step AS what_to_do, count(*) OVER () AS total
        FROM spend ORDER BY started_at DESC LIMIT 5
        """,
    ),
    Section(
        "",
        "The next four weeks",
        "Credits by the day on which they fall due, and companies refreshed for free in the last days of their paid "
        "window. If no run is due that day, the next one pays. Due today: what an unfinished run still has to buy, and "
        "companies of a list that a budget left out.",
        """
        SELECT strftime(day, '%d %b') AS day, part, count FROM (
            SELECT day, 'credits' AS part, credits AS count FROM due
            UNION ALL SELECT day, 'free refreshes', free_refreshes FROM due
        ) AS each ORDER BY each.day, part
        """,
        chart=_due,
    ),
    Section(
        "",
        "What failed in the last run, and what to do",
        "The next run asks for these again; `firmlake redrive` asks only for these.",
        """
        SELECT dataset, reason, count(*) AS companies, min(country || ' ' || company_number) AS for_example,
            count(*) OVER () AS total,
            CASE
                WHEN any_value(status) = 'forbidden' THEN 'Get a token that may ask for them, then redrive; or leave '
                    'out the dataset (run.datasets) or the companies'
                WHEN reason_code = 'nothing_said' THEN 'The service would answer the same again: ask it what '
                    'such an answer means'
                WHEN reason_code IN ('request_refused', 'country_refused') THEN 'The service refuses the '
                    'request: look at its message, correct the list or the names in api.names, then redrive'
                WHEN reason_code IN ('unusable_answer', 'unreadable_element', 'unreadable_data') THEN 'The answer '
                    'could not be read: it is kept in landing; ask the service about it, then redrive'
                ELSE 'The service had trouble: redrive later'
            END AS what_to_do
        FROM dead_letters JOIN last_run USING (run_id)
        LEFT JOIN company_state USING (run_id, country, company_number, dataset)
        GROUP BY dataset, reason_code, reason ORDER BY companies DESC, dataset, reason LIMIT 10
        """,
    ),
    Section(
        "",
        "Values that do not fit",
        "A value that does not fit is null in its column and kept in `extra_json`. A record is left out if the value "
        "that identifies it does not fit. The table `rejects` lists both.",
        """
        SELECT dataset, path, if(effect = 'record', 'record', 'value') AS lost, min(reason) AS reason,
            count(*) AS records, min(country || ' ' || company_number) AS for_example, count(*) OVER () AS total
        FROM rejects JOIN last_run USING (run_id)
        GROUP BY dataset, path, lost ORDER BY records DESC, dataset, path, lost LIMIT 10
        """,
    ),
    Section(
        "",
        "Lines of the list that could not be used",
        "Correct them in the list.",
        "SELECT line::VARCHAR AS line, given, reason, count(*) OVER () AS total "
        "FROM refused_lines r JOIN last_run USING (run_id) ORDER BY r.line LIMIT 10",
    ),
    Section(
        "",
        "Differences between the answers and the specification",
        "",
        "SELECT dataset, kind, path, example, record_count AS records, count(*) OVER () AS total "
        "FROM drift JOIN last_run USING (run_id) ORDER BY ALL LIMIT 10",
    ),
)
